"""Rules take over at one turn that is in the log: under load, with two workers, and back again.

The turn is that of the record in every partition, whoever decides: a worker that runs on, one that was started anew with the
settings, and one that takes the log again from a checkpoint decide the same, byte for byte.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agents.cli import run
from agents.run import rules_in_log
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from agents.verify.committed_turns import committed
from schemas.decisions.recommendations import RequestsRecommended
from schemas.ids import DecisionId
from streams import clock_log
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.log_range import read_range
from streams.topics import Topics
from tests.support.commands import Commands

MARGINS = ("0.15", "0.2", "0.15")
"""What is in force, one after the other."""
HOUR_IN_SECONDS = 6.0
LOAD = {"CLOCK__SPEED": f"{3600 / HOUR_IN_SECONDS}", "CLOCK__PERIOD_MS": "15000", "CLOCK__ORIGIN_MS": "1700000000000"}
"""Every workload is stated again each hour of the log's time."""


@pytest.fixture
def commands(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Commands]:
    now = {"CLOCK__ANCHOR_MS": str(time.time_ns() // 1_000_000)}
    commands = Commands(broker, topics_made(partitions=2), tmp_path, {**LOAD, **now})
    yield commands
    commands.close()


def recommendations(broker: str, topics: Topics) -> list[tuple[int, int, RequestsRecommended]]:
    """Partition, turn and decision, in the order of each partition."""
    codec, found = Codec(topics), []
    with KafkaLog(KafkaConnection(broker)) as log:
        for record in read_range(log, [topics.wire("recommendations")]):
            event = None if is_of_a_clock(record) else codec.decode(record)
            if isinstance(event, RequestsRecommended):
                found.append((record.partition, DecisionId.parse(event.id).turn, event))
    return found


def versions(broker: str, topics: Topics) -> list[list[str]]:
    """The versions of the rules that decisions of each partition cite, in the order of turns, each once in a row."""
    decided = recommendations(broker, topics)
    in_order: list[list[str]] = []
    for partition in range(topics.partitions):
        rows: list[str] = []
        for _, _, event in sorted((row for row in decided if row[0] == partition), key=lambda row: row[1]):
            version = "" if event.rules is None else event.rules.version
            if not rows or rows[-1] != version:
                rows.append(version)
        in_order.append(rows)
    return in_order


def have_changed(broker: str, topics: Topics, times: int) -> bool:
    return all(len(rows) > times for rows in versions(broker, topics))


def has_rules(broker: str, topics: Topics) -> bool:
    with KafkaLog(KafkaConnection(broker)) as log:
        return bool(rules_in_log.in_log(LogContext.of(log, topics)))


def recovered(commands: Commands, name: str) -> bool:
    return '"recovered"' in commands.said(name)


def level(broker: str, topics: Topics) -> bool:
    """Whether the marks of all partitions name the newest tick that all inputs have: a clock ticks the rules last."""
    listed = stages(Settings())
    with KafkaLog(KafkaConnection(broker)) as log:
        newest = clock_log.newest(log, topics)
        marks = committed(LogContext.of(log, topics), topics.prefix, listed)
    parts = [(stage.name, p) for stage in listed for p in range(topics.partitions)]
    return all(part in marks and newest is not None and marks[part].turn == newest.number for part in parts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_other_rules_take_over_at_one_turn_under_load_with_two_workers_and_back(
    commands: Commands, broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = commands.topics
    here = ["--brokers", broker, "--set", f"topics.prefix={topics.prefix}", "--set", "topics.partitions=2"]
    here += ["--set", f"worker.name={topics.prefix}"]
    for name in ("one", "two"):
        commands.start(f"{name} by {MARGINS[0]}", "worker")
    # Turns before the first rules cite none. On a slow machine there were such, and a fourth version in the list below.
    commands.wait(partial(has_rules, broker, topics), 120, "a worker put its rules into the log")
    commands.start("load", "source", "simulated", "--port", "0")
    commands.start("clock", "source", "clock")
    commands.wait(lambda: all(versions(broker, topics)), 90, "both partitions decide")
    for step, margin in enumerate(MARGINS[1:], start=1):
        wanted = ["--set", f"vertical.margin={margin}"]
        assert run(["settings", "apply", *wanted, *here]) == 0
        assert f"margin is {MARGINS[step - 1]} in the log and {margin} here" in capsys.readouterr().out
        commands.wait(partial(have_changed, broker, topics, step), 120, "both partitions decide by the new")
        for name in ("one", "two"):  # the roll: one after the other begins anew with the settings that are in force
            commands.kill(f"{name} by {MARGINS[step - 1]}")
            commands.start(f"{name} by {margin}", "worker", *wanted)
            commands.wait(partial(recovered, commands, f"{name} by {margin}"), 120, f"worker {name} has a partition again")
    cited = versions(broker, topics)
    assert [len(rows) for rows in cited] == [3, 3]
    assert cited[0] == cited[1]
    assert cited[0][0] == cited[0][2] != cited[0][1]
    for name in ("clock", "load"):
        commands.end(name)
    commands.wait(partial(level, broker, topics), 120, "all turns are taken and marked")
    for name in ("one by 0.15", "two by 0.15"):
        commands.end(name)
    said = run(["replay", "--verify", *wanted, *here])
    assert said == 0, capsys.readouterr()
