"""What an operator says stands in every partition, and what was said last is found again."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.codec.event_codec import Codec, tick, tick_number
from streams.log.memory_log import MemoryLog
from streams.log.port import NewRecord
from streams.publishing import operator
from streams.publishing.operator import Operator
from streams.topics import TOPICS, Topics

START = datetime(2026, 1, 5, tzinfo=UTC)
PARTITIONS = 3


@pytest.fixture
def speaks() -> Operator:
    log, topics = MemoryLog(), Topics("ullage", PARTITIONS)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), PARTITIONS)
    return Operator(log, topics, Codec(topics))


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def ticks(speaks: Operator, *minutes: int) -> None:
    wire = speaks.topics.wire("control")
    for minute in minutes:
        number = int(at(minute).timestamp()) * 1000
        speaks.log.append([tick(wire, partition, number) for partition in range(PARTITIONS)])


def test_a_policy_and_a_switch_stand_in_every_partition(speaks: Operator) -> None:
    control, policy = ControlChanged(START, "demo", Mode.PLAN), VerticalPolicyChanged(START, "demo/*", "1")
    assert len(speaks.say(control, policy)) == 2 * PARTITIONS
    for name, event in (("control", control), ("policies", policy)):
        for partition in range(PARTITIONS):
            (record,) = speaks.log.poll({(speaks.topics.wire(name), partition): 0})
            assert speaks.codec.decode(record) == event
            assert record.key == (b"demo" if name == "control" else b"demo/*")


def test_in_a_log_that_says_nothing_there_is_no_time_no_switch_and_no_policy(speaks: Operator) -> None:
    assert speaks.tick() is None
    assert speaks.control("demo") is None
    assert speaks.policies() == {}


def test_time_is_the_newest_tick_of_all_partitions(speaks: Operator) -> None:
    ticks(speaks, 1, 2)
    speaks.log.append([tick(speaks.topics.wire("control"), 2, int(at(3).timestamp()) * 1000)])
    speaks.say(ControlChanged(START, "demo", Mode.APPLY))
    newest = speaks.tick()
    assert newest is not None
    assert newest.at == at(3)


def test_the_switch_is_what_was_said_last_of_that_cluster_however_many_ticks_came_since(
    speaks: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_FIRST_LOOK", 2)
    last = ControlChanged(at(2), "demo", Mode.PLAN, paused=True, reason="storm")
    speaks.say(ControlChanged(at(1), "demo", Mode.APPLY), last, ControlChanged(at(2), "other", Mode.SHADOW))
    ticks(speaks, *range(3, 30))
    assert speaks.control("demo") == last


def test_policies_are_those_in_force_by_target(speaks: Operator) -> None:
    old, new = (VerticalPolicyChanged(at(n), "demo/*", str(n), UpdateMode.OFF) for n in (1, 2))
    other = VerticalPolicyChanged(at(1), "demo/shop/Deployment/cart", "1")
    speaks.say(old, other, new, VerticalPolicyRemoved(at(3), "demo/nobody"))
    ticks(speaks, 4)
    assert speaks.policies() == {"demo/*": new, other.target: other}
    speaks.say(VerticalPolicyRemoved(at(5), other.target))
    assert speaks.policies() == {"demo/*": new}


def test_what_cannot_be_read_is_passed_over(speaks: Operator) -> None:
    said = ControlChanged(at(1), "demo", Mode.APPLY)
    speaks.say(said)
    bad = [NewRecord(speaks.topics.wire("control"), p, b"demo", b"{") for p in range(PARTITIONS)]
    speaks.log.append(bad)
    assert all(tick_number(r) is None for r in speaks.log.poll({(bad[0].topic, 0): 0}))
    assert speaks.control("demo") == said
