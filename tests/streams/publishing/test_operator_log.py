"""What an operator publishes is in every partition, and what was published last is found again."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.topics import TOPICS, Topics
from tests.support import ticks

START = datetime(2026, 1, 5, tzinfo=UTC)
PARTITIONS = 3


@pytest.fixture
def operator_log() -> OperatorLog:
    log, topics = MemoryLog(), Topics("ullage", PARTITIONS)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), PARTITIONS)
    return OperatorLog(LogContext.of(log, topics))


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def tick(operator_log: OperatorLog, *minutes: int) -> None:
    for minute in minutes:
        ticks.append(operator_log.context.log, operator_log.context.topics, int(at(minute).timestamp()) * 1000)


def test_a_policy_and_a_control_are_in_every_partition(operator_log: OperatorLog) -> None:
    control, policy = ControlChanged(START, "demo", Mode.PLAN), VerticalPolicyChanged(START, "demo/*", "1")
    assert len(operator_log.publish(control, policy)) == 2 * PARTITIONS
    for name, event in (("control", control), ("rules", policy)):
        for partition in range(PARTITIONS):
            (record,) = operator_log.context.log.poll({(operator_log.context.topics.wire(name), partition): 0})
            assert operator_log.context.codec.decode(record) == event
            assert record.key == (b"demo" if name == "control" else b"demo/*")


def test_in_an_empty_log_there_is_no_time_no_control_and_no_policy(operator_log: OperatorLog) -> None:
    assert operator_log.newest_tick() is None
    assert operator_log.control("demo") is None
    assert operator_log.policies() == {}


def test_time_is_the_newest_tick_of_all_partitions(operator_log: OperatorLog) -> None:
    tick(operator_log, 1, 2)
    ticks.append(operator_log.context.log, operator_log.context.topics, int(at(3).timestamp()) * 1000)
    operator_log.publish(ControlChanged(START, "demo", Mode.APPLY))
    newest = operator_log.newest_tick()
    assert newest is not None
    assert newest.at == at(3)


def test_control_is_what_was_published_last_for_that_cluster_however_many_ticks_came_since(operator_log: OperatorLog) -> None:
    last = ControlChanged(at(2), "demo", Mode.PLAN, paused=True, reason="storm")
    operator_log.publish(ControlChanged(at(1), "demo", Mode.APPLY), last, ControlChanged(at(2), "other", Mode.SHADOW))
    tick(operator_log, *range(3, 30))
    assert operator_log.control("demo") == last


def test_policies_are_those_in_force_by_target(operator_log: OperatorLog) -> None:
    old, new = (VerticalPolicyChanged(at(n), "demo/*", str(n), UpdateMode.OFF) for n in (1, 2))
    other = VerticalPolicyChanged(at(1), "demo/shop/Deployment/cart", "1")
    operator_log.publish(old, other, new, VerticalPolicyRemoved(at(3), "demo/nobody"))
    tick(operator_log, 4)
    assert operator_log.policies() == {"demo/*": new, other.target: other}
    operator_log.publish(VerticalPolicyRemoved(at(5), other.target))
    assert operator_log.policies() == {"demo/*": new}


def test_what_cannot_be_read_is_passed_over(operator_log: OperatorLog) -> None:
    control = ControlChanged(at(1), "demo", Mode.APPLY)
    operator_log.publish(control)
    bad = [NewRecord(operator_log.context.topics.wire("control"), p, b"demo", b"{") for p in range(PARTITIONS)]
    operator_log.context.log.append(bad)
    assert all(not is_of_a_clock(r) for r in operator_log.context.log.poll({(bad[0].topic, 0): 0}))
    assert operator_log.control("demo") == control
