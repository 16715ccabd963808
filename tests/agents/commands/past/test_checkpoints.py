"""Histories out of a worker's changelog, and into objects that another recommender reads."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agents import cli
from agents.commands.past.checkpoints import checkpoints
from agents.engine.checkpoint_selection import CheckpointLedger
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.settings.all_settings import Settings
from streams.clients.kube.watched_objects import CheckpointObject
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord
from streams.sources.clock import TickWriter, numbered
from streams.sources.kube.publish.vpa_policies import checkpoint_seen
from streams.topics import CLOCK, Topics, changelog_topic
from tests.support.cluster_events import API, MINUTE, START, pod, scrape, turn, vpa
from tests.support.vpa_server import VpaServer

TOPIC = changelog_topic("ullage", "recommender")
PLURAL = "verticalpodautoscalercheckpoints"
LABELS = {"app": "api"}
MIB = 1 << 20


def learned() -> Recommender:
    """A recommender of partition 0 after ten minutes of 0.1 core and 500 MiB in container app, from midnight on."""
    state = Recommender(VerticalSettings(), 0)
    state.step(
        turn(START, policies=[vpa(), vpa(name="foreign", recommenders=("other",))], pod_changes=[pod("p", START, labels=LABELS)])
    )
    for minute in range(1, 11):
        at = START + minute * MINUTE
        state.step(turn(at, pod_metrics=[scrape(at, [(API.key, "p", "app", 0.1, 500.0 * MIB)])]))
    return state


def records(state: Recommender, **changed: bytes) -> list[tuple[bytes, bytes]]:
    dumps = ((name, changed.get(name.partition("/")[0], state.dump(name))) for name in sorted(state.chunks()))
    tick = 0, numbered(START + 10 * MINUTE)
    plan = CheckpointLedger("f").plan(turn=START + 10 * MINUTE, tick=tick, positions={}, dumps=dumps)
    return [*plan.records, plan.mark]


@pytest.fixture
def server() -> Iterator[VpaServer]:
    with VpaServer() as server:
        yield server


class Desk:
    """A log with a changelog of two partitions and the tick of its checkpoint, and the command line on it."""

    def __init__(self, path: Path, written: list[tuple[bytes, bytes]]) -> None:
        self.path = path
        with FileLog.open_or_create(path) as log:
            log.create(TOPIC, 2)
            log.append(NewRecord(TOPIC, 0, key, value) for key, value in written)
            log.create(Topics().wire(CLOCK), 1)
            TickWriter(log, Topics(), draw=numbered).write(START + 10 * MINUTE)

    def run(self, *words: str) -> int:
        return cli.run([*words, "--set", "log.kind=file", "--set", f"log.path={self.path}", "--set", "topics.partitions=2"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "log.jsonl", records(learned()))


def expected_status() -> dict[str, Any]:
    """Ten CPU samples of 0.1 core, weight 0.1 each: all in bucket 8, weights relative to the first sample's midnight.

    Of memory there is nothing yet: the only window still runs.
    """
    return {"totalSamplesCount": 10, "firstSampleStart": "2026-01-01T00:01:00Z", "lastSampleStart": "2026-01-01T00:10:00Z"}


def check(made: dict[str, Any]) -> None:
    status = made["status"]
    assert made["spec"] == {"vpaObjectName": "api", "containerName": "app"}
    assert {key: status[key] for key in expected_status()} == expected_status()
    assert (status["version"], status["lastUpdateTime"]) == ("v3", "2026-01-01T00:10:00Z")
    assert status["cpuHistogram"]["bucketWeights"] == {"8": 10000}
    assert status["cpuHistogram"]["referenceTimestamp"] == "2026-01-01T00:00:00Z"
    decayed = sum(0.1 * 2 ** (minute / 1440) for minute in range(1, 11))
    assert status["cpuHistogram"]["totalWeight"] == pytest.approx(decayed, rel=1e-12)
    assert status["memoryHistogram"]["bucketWeights"] == {}
    assert status["memoryHistogram"]["totalWeight"] == 0


def test_show_has_a_line_for_each_container_of_a_vpa_that_is_ours(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("checkpoints", "show") == 0
    line = "web/api  app  10 samples  2026-01-01 00:01 to 2026-01-01 00:10  weight cpu 1.003 memory 0"
    assert capsys.readouterr().out.splitlines() == [line]
    assert desk.run("checkpoints", "show", "--vpa", "shop/*") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "no worker remembers a VPA of cluster 'demo' that matches --vpa 'shop/*'; there are, among 1: web/api" in said.err


def test_tables_have_a_line_each_with_what_they_hold(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("checkpoints", "tables", "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    state = learned()
    assert {row["table"] for row in rows} == {name.partition("/")[0] for name in state.chunks()}
    assert {(row["stage"], row["partition"], row["as_of"]) for row in rows} == {("recommender", 0, "2026-01-01 00:10:00")}
    assert sum(row["bytes"] for row in rows) == sum(len(state.dump(name)) for name in state.chunks())


def test_a_table_shows_its_entries_by_key(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("checkpoints", "tables", "-o", "json") == 0
    held = json.loads(capsys.readouterr().out)
    table = next(row for row in held if row["table"] == "vpas")
    assert desk.run("checkpoints", "tables", "--table", "vpas", "--key", "foreign", "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert (len(rows), table["entries"]) == (1, 2)
    assert "foreign" in rows[0]["name"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--table", "nothing"), "no checkpoint has a table 'nothing'; there are "),
        (("--partition", "1"), "there is no such checkpoint in this log: has a worker named 'ullage' run?"),
    ],
)
def test_a_choice_that_leaves_nothing_is_said(
    desk: Desk, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert desk.run("checkpoints", "tables", *words) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("name", ["kept.yaml", "kept.json"])
def test_a_file_has_a_list_of_objects(desk: Desk, tmp_path: Path, name: str) -> None:
    assert desk.run("checkpoints", "export", "--to", str(tmp_path / name)) == 0
    text = (tmp_path / name).read_text()
    found = json.loads(text) if name.endswith("json") else yaml.load(text, yaml.BaseLoader)  # noqa: S506  # texts stay texts
    assert found["kind"] == "List"
    (made,) = found["items"]
    assert made["metadata"] == {"name": "api-app", "namespace": "web"}
    if name.endswith("json"):
        check(made)
    else:
        assert made["status"]["firstSampleStart"] == "2026-01-01T00:01:00Z"


def test_objects_are_made_and_then_replaced_as_a_whole(desk: Desk, server: VpaServer) -> None:
    url = ("--set", f"cluster.url={server.url}")
    assert desk.run("checkpoints", "export", *url) == 0
    made = server.objects[PLURAL]["web/api-app"]
    check(made)
    made["status"]["cpuHistogram"]["bucketWeights"]["99"] = 1
    made["metadata"]["labels"] = {"kept": "yes"}
    assert desk.run("checkpoints", "export", *url) == 0
    again = server.objects[PLURAL]["web/api-app"]
    check(again)
    assert again["metadata"]["labels"] == {"kept": "yes"}
    assert [asked.split(" ")[0] for asked in server.requests] == ["GET", "POST", "GET", "PUT"]


def test_a_refused_object_is_named_and_ends_with_1(desk: Desk, server: VpaServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.refusals["POST"] = deque([403])
    assert desk.run("checkpoints", "export", "--set", f"cluster.url={server.url}") == 1
    assert "web/api-app: making checkpoint 'web/api-app' did not work: 403 refused by the test" in capsys.readouterr().err


def test_a_log_without_checkpoints_is_no_log_of_a_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Desk(tmp_path / "log.jsonl", []).run("checkpoints", "show") == 2
    assert f"there is no checkpoint in '{TOPIC}' yet: has a worker named 'ullage' run?" in capsys.readouterr().err
    assert Desk(tmp_path / "log.jsonl", []).run("checkpoints", "show", "--set", "worker.name=other") == 2
    said = capsys.readouterr().err
    assert "there is no topic 'other-recommender-state-changelog' in this log: only a worker keeps checkpoints" in said
    assert "--set worker.name=NAME (now 'other')" in said


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"pods": b'{"a": 1}'}, "ValidationError"),
        ({"aggregates": b"[]"}, ""),
        ({"vpas": b'{"x": {}, "y": 2}'}, "ValidationError"),
        ({"marks": b'{"": {"turn": 1, "topic": "", "partition": 0, "future": 1}}'}, "what was read of it is not all there is"),
    ],
)
def test_a_state_of_another_form_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, bytes], why: str
) -> None:
    assert Desk(tmp_path / "log.jsonl", records(learned(), **changed)).run("checkpoints", "show") == 2
    said = capsys.readouterr().err
    assert f"the state of partition 0 of stage 'recommender' at turn {START + 10 * MINUTE} is of another form" in said
    assert why in said


def test_a_checkpoint_that_is_not_whole_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = records(learned())[1:]
    assert Desk(tmp_path / "log.jsonl", torn).run("checkpoints", "show") == 2
    assert "has 1 checkpoints, and none of them is whole" in capsys.readouterr().err


def test_what_was_exported_comes_in_again_as_it_was(desk: Desk, tmp_path: Path) -> None:
    desk.run("checkpoints", "export", "--to", str(tmp_path / "kept.json"))
    (made,) = json.loads((tmp_path / "kept.json").read_text())["items"]
    with FileLog(desk.path) as log:
        settings = Settings.model_validate({"topics": {"partitions": 2}})
        (kept,) = checkpoints(log, settings)
    assert checkpoint_seen(msgspec.convert(made, CheckpointObject), vpa(), kept.at) == kept
