from datetime import UTC, datetime

from streams import clock_log
from streams.clock_rules import ClockRecord
from streams.consumers.executing.control_state import TickSilence
from streams.log.memory_log import MemoryLog
from streams.topics import Topics
from tests.support import ticks


def test_a_log_without_ticks_says_so_and_a_clock_that_stops_does_after_a_while() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    assert silence.reasons() == ["the log has no tick yet: is `ullage source clock` at work?"]
    assert silence.reasons_once_heard() == []
    silence.moved_on(1_000)
    silence.moved_on(1_500)
    now[0] = 20.0
    assert silence.reasons() == []
    now[0] = 21.0
    assert silence.reasons() == silence.reasons_once_heard() == ["no tick has come for 21 s: is `ullage source clock` at work?"]
    silence.moved_on(22_500)
    assert silence.reasons() == []


def test_a_clock_that_ticks_once_a_minute_is_not_silent_for_three() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    for tick in (0, 60_000, 120_000):
        silence.moved_on(tick)
    now[0] = 180.0
    assert silence.reasons() == []
    now[0] = 181.0
    assert silence.reasons() != []


def test_a_jump_in_time_is_no_period() -> None:
    now = [0.0]
    silence = TickSilence(lambda: now[0])
    for tick in (0, 500, 3_540_500):
        silence.moved_on(tick)
    now[0] = 20.0
    assert silence.reasons() == []
    now[0] = 21.0
    assert silence.reasons() == ["no tick has come for 21 s: is `ullage source clock` at work?"]


def test_a_tick_that_does_not_count_moves_nothing_on() -> None:
    log, topics = MemoryLog(), Topics(partitions=1)
    log.create(topics.wire("clock"), 1)
    ticks.append(log, topics, 1_000)
    silence = TickSilence()
    positions = silence.begin(log, topics)
    late = ClockRecord(9_000, "late", (7, "nobody"), {})
    log.append([late.encode(topics.wire("clock"))])
    ticks.append(log, topics, 2_000)
    assert all(silence.take(record) for record in log.poll(positions))
    assert silence.now == datetime.fromtimestamp(2, UTC)


def test_what_is_read_anew_after_a_silence_does_not_end_it() -> None:
    log, topics, now = MemoryLog(), Topics(partitions=1), [0.0]
    log.create(topics.wire("clock"), 1)
    for number in (1_000, 2_000, 3_000):
        ticks.append(log, topics, number)
    silence = TickSilence(lambda: now[0])
    positions = silence.begin(log, topics)
    assert all(silence.take(record) for record in log.poll(positions))
    for passed in (21.0, 42.0, 63.0):
        now[0] = passed
        positions = silence.begin_again(log, topics)
        assert positions
        again = log.poll(positions)
        assert again
        assert all(silence.take(record) for record in again)
        assert silence.reasons() == [f"no tick has come for {passed:.0f} s: is `ullage source clock` at work?"]
    ticks.append(log, topics, 4_000)
    assert all(silence.take(record) for record in log.poll({clock_log.place(topics): again[-1].offset + 1}))
    assert silence.reasons() == []


def test_who_acts_waits_while_a_clock_makes_up_for_ticks_of_before() -> None:
    """What was planned before the clock went away has not expired yet by their time."""
    log, topics = MemoryLog(), Topics(partitions=1)
    log.create(topics.wire("clock"), 1)
    ticks.append(log, topics, 1_000)
    silence = TickSilence()
    positions, place = silence.begin(log, topics), clock_log.newest(log, topics).place
    late = ClockRecord(9_000, "late", place, {}, more=True).encode(topics.wire("clock"))
    log.append([late])
    says = ["the clock makes up for what came while none was at work, and has not reached the present"]
    assert all(silence.take(record) for record in log.poll(positions))
    assert silence.reasons() == silence.reasons_once_heard() == says
    ticks.append(log, topics, 10_000)
    assert all(silence.take(record) for record in log.poll(positions))
    assert silence.reasons() == []


def test_who_starts_while_a_clock_makes_up_for_ticks_waits_too() -> None:
    log, topics = MemoryLog(), Topics(partitions=1)
    log.create(topics.wire("clock"), 1)
    ticks.append(log, topics, 1_000)
    for number in (61_000, 121_000):
        late = ClockRecord(number, f"late-{number}", clock_log.newest(log, topics).place, {}, full=True, more=True)
        log.append([late.encode(topics.wire("clock"))])
    silence = TickSilence()
    silence.begin(log, topics)
    assert silence.reasons() != []
