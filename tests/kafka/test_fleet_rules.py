"""A fleet of one mind, on a real Kafka: workers that would decide otherwise do not start, and a change is a record for all."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.cli import run
from agents.run import rules_in_log
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas import times
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks
from tests.support.commands import Commands

T0 = 1_700_000_000_000
OTHER = ["--set", "vertical.margin=0.2"]
MISCONFIGURED = 78


@pytest.fixture
def commands(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(broker, topics_made(partitions=2), tmp_path)
    yield commands
    commands.close()


def tick(log: KafkaLog, topics: Topics, number: int) -> None:
    ticks.append(log, topics, T0 + 500 * number)


@pytest.mark.timeout(240)
def test_a_worker_that_would_decide_otherwise_ends_and_says_so_until_an_operator_changes_the_rules_of_all(
    commands: Commands, broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = commands.topics
    here = ["--brokers", broker, "--set", f"topics.prefix={topics.prefix}", "--set", "topics.partitions=2"]
    commands.start("first", "worker")
    commands.wait(lambda: '"found":"nothing"' in commands.said("first"), 60, "the first worker has its partitions")
    assert "rules set" in commands.said("first")

    commands.start("second", "worker", *OTHER)
    assert commands.running["second"].wait(60) == MISCONFIGURED
    assert "recommender: margin is 0.15 in the log and 0.2 here" in commands.said("second")
    assert "ullage settings apply" in commands.said("second")
    del commands.running["second"]

    assert run(["settings", "apply", *OTHER, *here]) == 0
    assert "recommender: margin is 0.15 in the log and 0.2 here" in capsys.readouterr().out
    commands.start("third", "worker", *OTHER)
    commands.wait(lambda: "recovered" in commands.said("third"), 60, "the third worker has partitions")
    with KafkaLog(KafkaConnection(broker)) as log:
        tick(log, topics, 1)
        context = LogContext.of(log, topics)
        newer = [replace(stage, program=stage.program + 1) for stage in stages(Settings()) if stage.name == "updater"]
        rules_in_log.publish(context, newer, times.from_ms(T0))
        tick(log, topics, 2)
    for name in ("first", "third"):
        assert commands.running[name].wait(60) == MISCONFIGURED, commands.said(name)
        versions = f"version {newer[0].program} of its rules decides, and this program has version {newer[0].program - 1}"
        assert f"from turn {T0 + 1000} on {versions}" in commands.said(name)
