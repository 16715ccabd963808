"""The bounds that docs/security.md tells are those of the code: who changes one finds the other."""

import re
from pathlib import Path

import pytest

from agents.logic.forecast import percentile_predictor
from agents.logic.nodes.cluster import fact_conversion
from agents.logic.nodes.removal import drain_rules
from agents.logic.nodes.scheduling import affinity_limits
from agents.run import stage_topics
from agents.settings.all_settings import Settings
from schemas import bounds
from streams import answer_bounds, clock_rules, own_faults
from streams.clients.aws import aws_client
from streams.log import bounded_decompression, file_format, record_format
from streams.serving import https_server
from streams.serving.connection_limits import ConnectionLimits
from streams.sources.traces import trace_bounds
from streams.topics import CLOCK

DOCS = Path(__file__).parents[1] / "docs"
_SERVED = ConnectionLimits()
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "million": 10**6}


def told(what: str) -> list[float]:
    """All numbers of the row of `what` in the tables of docs/security.md, after its name."""
    rows = [
        line.split("|")[1:] for line in (DOCS / "security.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    [row] = [row for row in rows if row[0].strip() == what]
    found = re.findall(r"([\d,]*\d(?:\.\d+)?(?:e\d+)?)(?: (KiB|MiB))?", row[1])
    return [float(number.replace(",", "")) * _SIZES.get(size, 1) for number, size in found]


@pytest.mark.parametrize(
    ("what", "are"),
    [
        ("labels, or kept annotations, of one object", [bounds.MOST_LABEL_TEXT, bounds.MOST_ENTRIES]),
        ("container policies of a VPA, containers of a pod", [bounds.MOST_CONTAINERS]),
        ("one VPA object", [bounds.MOST_OBJECT_BYTES]),
        ("any name or text / the key of a workload / any reason", [bounds.MOST_TEXT, bounds.MOST_KEY, bounds.MOST_SENTENCE]),
        ("any number / any time", [bounds.MOST_NUMBER, 1970, 2199]),
        ("a histogram's buckets, of a predictor's block", [percentile_predictor._MOST_BUCKETS]),
        ("VPAs on one target", [bounds.MOST_ON_ONE_TARGET]),
        ("connections of one server / of one address", [_SERVED.connections, _SERVED.of_one_address]),
        (
            "a handshake of TLS / the head of a request / silence between two requests",
            [_SERVED.handshake, _SERVED.head, _SERVED.idle],
        ),
        ("the head of a request", [_SERVED.head_bytes, 128]),
        ("an answer that nobody reads", [_SERVED.unread]),
        ("faults of our own in a row, of a consumer / of a server", [own_faults.MOST_IN_A_ROW, https_server.MOST_FAULTS]),
        ("a pause that an answer asks for", [answer_bounds.LONGEST_PAUSE]),
        ("pages of one list", [answer_bounds.MOST_PAGES, aws_client.MOST_PAGES]),
        (
            "a recording of usage: columns / bytes of a value",
            [trace_bounds.MOST_COLUMNS, bounds.MOST_TEXT, trace_bounds.MOST_LINE],
        ),
        ("its rows", [10, trace_bounds.MOST_ROWS_FOR_A_BYTE]),
        ("its containers / scrapes", [trace_bounds.MOST_CONTAINERS, trace_bounds.MOST_SCRAPES]),
        (
            "a log file: a line / its headers / partitions of all topics",
            [file_format.MOST_LINE, record_format.MOST_HEADERS, file_format.MOST_PARTITIONS],
        ),
        ("EHPAs and TimeSeriesPredictions of one namespace", [bounds.MOST_FORECASTS]),
        ("metrics of one EHPA", [Settings().replicas.most_metrics]),
        ("crons of the EHPAs of one namespace", [bounds.MOST_CRONS]),
        (
            "node affinity and volumes of one pod",
            [fact_conversion.MOST_NODE_DEMANDS, fact_conversion.MOST_NODE_VALUES],
        ),
        ("affinity, anti-affinity and spread of the pods of one namespace", [affinity_limits.MOST_RULES, affinity_limits.BROAD]),
        ("PodDisruptionBudgets of one namespace", [drain_rules.MOST_DISRUPTION_BUDGETS]),
        ("containers of one pod", [bounds.MOST_CONTAINERS]),
        ("container names of one workload", [bounds.MOST_CONTAINERS]),
        ("label sets of one workload (each with its containers)", [bounds.MOST_LABEL_SETS]),
        (
            "one record batch",
            [
                bounded_decompression.MOST_BYTES,
                record_format.MOST_RECORDS,
                record_format.MOST_HEADERS,
                bounded_decompression.MOST_PIECES,
            ],
        ),
        ("inputs of a worker that are ahead of the clock", [Settings().worker.buffer]),
    ],
)
def test_the_table_tells_the_bounds_that_hold(what: str, are: list[float]) -> None:
    assert told(what) == are


def test_a_tick_may_be_so_far_ahead_as_the_page_says() -> None:
    assert "A tick that lies more than five minutes ahead" in (DOCS / "security.md").read_text(encoding="utf-8")
    assert clock_rules.MOST_AHEAD == 5 * 60 * 1000


def _rights(user: str) -> tuple[set[str], set[str]]:
    """The topics that a process may read and write by docs/security.md."""
    lines = (DOCS / "security.md").read_text(encoding="utf-8").splitlines()
    [row] = [line.split("|") for line in lines if line.startswith(f"| `user: {user}` |")]
    read, write = (set(re.findall(r"`([^`]+)`", cell)) for cell in row[3:5])
    return read, write


def test_the_rights_told_of_a_worker_reach_every_input_and_every_decision() -> None:
    read, write = _rights("worker")
    assert read >= {topic for stage in stage_topics.ALL for topic in stage.reads}
    assert write >= {topic for stage in stage_topics.ALL for topic in stage.writes}


def test_only_those_who_make_time_may_write_it_and_a_clock_writes_nothing_else() -> None:
    users = re.findall(r"^\| `user: ([^`]+)` \|", (DOCS / "security.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {user for user in users if CLOCK in _rights(user)[1]} == {"clock", "traces"}
    assert _rights("clock")[1] == {CLOCK}
