from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.names import Place
from schemas.policies.control import ControlChanged, ControlSchedule, Mode
from streams import compacted_copy
from streams.consumers.executing.control_state import ControlState, TickSilence
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Positions, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog, policy_records
from streams.sources.clock import TickWriter
from streams.topics import Topics
from tests.support import ticks
from tests.support.lossy_log import LossyLog

AT = datetime(2026, 11, 22, tzinfo=UTC)
TOPICS = Topics("t", 2)


class CountingLog(MemoryLog):
    """Counts the records that it delivers."""

    delivered = 0

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> list[Record]:
        records = list(super().poll(positions, wait=wait, limit=limit))
        self.delivered += len(records)
        return records


@pytest.fixture
def context() -> LogContext:
    log = CountingLog()
    for spec in TOPICS.specs():
        log.create(spec.name, spec.partitions)
    return LogContext.of(log, TOPICS, "prod")


def tick(context: LogContext, first: int, last: int) -> None:
    clock = TickWriter(context.log, TOPICS)
    for number in range(first, last):
        clock.write(500 * number)


def test_a_consumer_that_starts_reads_the_copy_and_the_newest_ticks_and_not_weeks_of_them(context: LogContext) -> None:
    compacted_copy.complete(context.log, TOPICS, "control")
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY, paused=True, reason="INC-1"))
    tick(context, 1, 1_000)
    log = context.log
    assert isinstance(log, CountingLog)
    log.delivered = 0
    state = ControlState(context)
    state.catch_up()
    assert log.delivered <= 300 + 5
    assert state.objection() == "cluster 'prod' is paused: INC-1"
    assert state.now == datetime.fromtimestamp(999 * 0.5, UTC)


def test_what_is_published_after_the_start_is_read_from_the_topic(context: LogContext) -> None:
    compacted_copy.complete(context.log, TOPICS, "control")
    state = ControlState(context)
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY))
    tick(context, 1, 3)
    state.catch_up()
    assert state.objection() is None
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY, paused=True))
    state.catch_up()
    assert state.objection() == "cluster 'prod' is paused"


def test_a_pause_that_was_half_written_is_obeyed_by_a_consumer_that_starts(context: LogContext) -> None:
    compacted_copy.complete(context.log, TOPICS, "control")
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY))
    tick(context, 1, 10)
    pause = policy_records([ControlChanged(AT + timedelta(seconds=1), "prod", Mode.APPLY, paused=True)], context.codec)
    context.log.append(compacted_copy.copies_of(pause, TOPICS))  # the operator's process died before it wrote the topic
    state = ControlState(context)
    state.catch_up()
    assert state.objection() == "cluster 'prod' is paused"


class DyingOperator:
    """The log of an operator's process that dies after so many appends."""

    def __init__(self, log: MemoryLog, appends: int) -> None:
        self._log, self._left = log, appends

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        if self._left == 0:
            raise LogUnavailable("it died")
        self._left -= 1
        return self._log.append(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


@pytest.mark.parametrize("appends", range(4))
@pytest.mark.parametrize("paused", [True, False])
def test_wherever_an_operator_died_a_consumer_that_starts_acts_only_if_those_at_work_do(
    context: LogContext, paused: bool, appends: int
) -> None:
    compacted_copy.complete(context.log, TOPICS, "control")
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY, paused=not paused))
    tick(context, 1, 10)
    at_work = ControlState(context)
    at_work.catch_up()
    dying = DyingOperator(context.log, appends)  # type: ignore[arg-type]  # a log in memory
    with suppress(LogUnavailable):
        OperatorLog(replace(context, log=dying)).publish(ControlChanged(AT, "prod", Mode.APPLY, paused=paused))
    tick(context, 10, 20)
    at_work.catch_up()
    starting = ControlState(context)
    starting.catch_up()
    assert starting.objection() is not None or at_work.objection() is None


def test_a_schedule_holds_by_the_time_of_the_newest_tick_and_a_record_with_a_fault_is_not_obeyed(context: LogContext) -> None:
    compacted_copy.complete(context.log, TOPICS, "control")
    freeze = ControlSchedule("1 0 1 1 *", 1, paused=True, reason="freeze")
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.APPLY, schedules=(freeze,)))
    odd = ControlSchedule("never", 1, mode=Mode.SHADOW)
    OperatorLog(context).publish(ControlChanged(AT, "prod", Mode.SHADOW, schedules=(odd,)))
    state, said = ControlState(context), list[str | None]()
    clock = TickWriter(context.log, TOPICS)
    for seconds in (59, 60, 119, 120):
        clock.write(1000 * seconds)
        state.catch_up()
        said.append(state.objection())
    assert said == [None, "cluster 'prod' is paused: freeze", "cluster 'prod' is paused: freeze", None]
    control = OperatorLog(context).control("prod")
    assert control is not None
    assert control.schedules == (freeze,)


@pytest.mark.parametrize("grown", [False, True])
def test_time_goes_on_for_who_has_read_a_tick_that_the_log_lost(grown: bool) -> None:
    log, topics, now = LossyLog(), Topics(partitions=1), [0.0]
    for name in ("clock", "control", "control-latest"):
        log.create(topics.wire(name), 1)
    for number in range(1_000, 10_000, 1_000):
        ticks.append(log, topics, number)
    state = ControlState(LogContext.of(log, topics, "demo"), TickSilence(lambda: now[0]))
    state.catch_up()
    log.elect(topics.wire("clock"), 0, losing=5)
    for number in range(10_000, 20_000 if grown else 12_000, 1_000):
        ticks.append(log, topics, number)
    now[0] = 21.0
    state.catch_up()
    assert state.now == datetime.fromtimestamp(19 if grown else 11, UTC)
    assert state.silence.reasons() == []
