"""On a Kafka with access rules: whoever may write every topic but the clock's moves no time and makes no turn."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.run.pipeline import stages
from agents.run.stage_topics import stage_names
from agents.settings.all_settings import Settings
from agents.verify.committed_turns import committed
from schemas import times
from streams import clock_log
from streams.clock_rules import FILL, PARTITION, PROBE, ClockRecord
from streams.consumers.executing.control_state import ControlState
from streams.errors import LogUnavailable
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.topics import CLOCK, TOPICS, Topics, changelog_specs
from tests.support import ticks
from tests.support.commands import Commands
from tests.support.documented_rights import PREFIX, documented_rights, wire
from tests.support.secured_kafka import Grant, SecuredKafka, secured_kafka

OURS = Topics(PREFIX, 2)
T0 = 1_700_000_000_000
OTHERS = tuple(topic.name for topic in TOPICS if topic.name != CLOCK)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured"), ("worker", "mallory")) as kafka:
        kafka.make_topics([*OURS.specs(1), *changelog_specs(PREFIX, stage_names(), 2, 1)])
        mallory = [Grant("Write", "topic", wire(name)) for name in OTHERS]
        kafka.allow({"worker": documented_rights()["worker"], "mallory": mallory})
        yield kafka


@pytest.fixture
def commands(kafka: SecuredKafka, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(kafka.broker.bootstrap, OURS, tmp_path, kafka.settings())
    yield commands
    commands.close()


def test_clocks_alone_write_the_clock_and_whoever_reads_anything_reads_it() -> None:
    rights, clock = documented_rights(), wire(CLOCK)
    assert {user for user, grants in rights.items() if Grant("Write", "topic", clock) in grants} == {"clock", "traces"}
    readers = {user for user, grants in rights.items() if any(g.operation == "Read" and g.resource == "topic" for g in grants)}
    knowing = {
        user
        for user, grants in rights.items()
        if {Grant("Read", "topic", clock), Grant("Read", "topic", f"{PREFIX}*")} & {*grants}
    }
    assert readers - knowing == {"topics"}  # it copies what is in force, whatever the time is


@pytest.mark.timeout(400)
def test_who_may_write_every_topic_but_the_clock_moves_no_time_and_makes_no_turn(kafka: SecuredKafka, commands: Commands) -> None:
    commands.start("worker", "worker", "--set", "log.security.username=worker")
    with KafkaLog(kafka.connection()) as log, KafkaLog(kafka.connection("mallory")) as mallory:
        ticks.append(log, OURS, T0)
        with pytest.raises(LogUnavailable, match=f"user 'mallory' lacks the right (Describe|Write) on topic '{wire(CLOCK)}'"):
            mallory.append(forged(log, wire(CLOCK), PARTITION))
        for name in OTHERS:
            for partition in range(OURS.partitions):
                mallory.append(forged(log, wire(name), partition))
        control = ControlState(LogContext.of(log, OURS, "demo"))
        control.catch_up()
        assert control.now == times.from_ms(T0)
        last = T0 + 500
        ticks.append(log, OURS, last)
        wanted = {(stage.name, partition): last for stage in stages(Settings()) for partition in range(OURS.partitions)}
        commands.wait(lambda: marked(log) == wanted, 180, "the marks name the clock's last tick")
        newest = clock_log.newest(log, OURS)
        assert newest is not None
        assert newest.number == last
        control.catch_up()
        assert control.now == times.from_ms(last)
        assert commands.running["worker"].poll() is None


def forged(log: KafkaLog, topic: str, partition: int) -> list[NewRecord]:
    """What would be the next tick if it stood in the clock's topic: the honest chain, one from the beginning, and no ticks."""
    last = clock_log.newest(log, OURS)
    assert last is not None
    ends = {(name, p): 10**6 for name in OTHERS for p in range(OURS.partitions)}
    said = ClockRecord(last.number + 60_000, "mallory", last.place, ends, full=True)
    records = [each.encode(wire(CLOCK)) for each in (said, replace(said, after=None), replace(said, full=False))]
    records += [replace(records[0], key=key) for key in (PROBE, FILL, b"demo")]
    return [replace(record, topic=topic, partition=partition) for record in records]


def marked(log: KafkaLog) -> dict[tuple[str, int], int]:
    """The turn of each newest mark."""
    marks = committed(LogContext.of(log, OURS), PREFIX, stages(Settings()))
    return {part: mark.turn for part, mark in marks.items()}
