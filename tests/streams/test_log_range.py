"""Stretches of the log: their bounds, their order, following, and copies with the old places."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import to_ms
from streams import log_range
from streams.clock_rules import ClockRecord
from streams.codec import event_codec
from streams.errors import BadInput
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def said(topic: str, partition: int, seconds: float, value: str) -> NewRecord:
    """A record whose `ce_time` is so many seconds after the start."""
    return NewRecord(topic, partition, b"k", value.encode(), (("ce_time", at(seconds).isoformat().encode()),))


def tick(topic: str, partition: int, seconds: int) -> NewRecord:
    said = ClockRecord(START_MS + seconds * 1000, "name", None, {}).encode(topic)
    return replace(said, partition=partition)


def texts(records: Sequence[Record]) -> list[str]:
    return [(r.value or b"").decode() for r in records]


@pytest.fixture
def log() -> MemoryLog:
    """Topic `facts` (2 partitions, ticks at 10, 20, 30) and topic `decisions` (1 partition, no ticks)."""
    log = MemoryLog()
    log.create("facts", 2)
    log.create("decisions", 1)
    for p in (0, 1):
        for n in (10, 20, 30):
            log.append([said("facts", p, n - 5, f"f{p}@{n - 5}"), tick("facts", p, n)])
    log.append([said("decisions", 0, n, f"d@{n}") for n in (10, 20, 30)])
    return log


def test_a_stretch_is_topic_after_topic_and_partition_after_partition(log: MemoryLog) -> None:
    places = [(r.topic, r.partition, r.offset) for r in log_range.read_range(log, ["decisions", "facts"])]
    assert places == [
        *[("decisions", 0, n) for n in range(3)],
        *[("facts", 0, n) for n in range(6)],
        *[("facts", 1, n) for n in range(6)],
    ]


def test_merged_a_decision_follows_the_ticks_of_its_turn_and_comes_before_what_is_later(log: MemoryLog) -> None:
    events = [r for r in log_range.read_range(log, ["facts", "decisions"], merged=True) if not event_codec.is_of_a_clock(r)]
    assert texts(events) == ["f0@5", "f1@5", "d@10", "f0@15", "f1@15", "d@20", "f0@25", "f1@25", "d@30"]


def test_merged_a_late_record_stays_after_what_stands_before_it() -> None:
    log = MemoryLog()
    log.create("t", 2)
    log.append([said("t", 0, 30, "a"), said("t", 0, 10, "late"), said("t", 1, 20, "b"), said("t", 1, 30, "c")])
    assert texts(list(log_range.read_range(log, ["t"], merged=True))) == ["b", "a", "late", "c"]


def test_a_stretch_of_time_holds_what_is_at_or_after_its_begin_and_before_its_end(log: MemoryLog) -> None:
    found = list(log_range.read_range(log, ["facts", "decisions"], since=at(10), until=at(20), merged=True))
    assert [tick.number if (tick := ClockRecord.decode(r)) else (r.value or b"").decode() for r in found] == [
        START_MS + 10_000,
        START_MS + 10_000,
        "d@10",
        "f0@15",
        "f1@15",
    ]


def test_a_stretch_of_offsets_leaves_partitions_that_are_not_named_whole(log: MemoryLog) -> None:
    found = log_range.read_range(log, ["facts"], since={("facts", 0): 5}, until={("facts", 1): 1})
    assert [(r.partition, r.offset) for r in found] == [(0, 5), (1, 0)]


def test_bounds_outside_of_the_log_mean_its_begin_and_its_end(log: MemoryLog) -> None:
    log.truncate("decisions", 0, 1)
    assert texts(list(log_range.read_range(log, ["decisions"], since=at(-99), until=at(999)))) == ["d@20", "d@30"]
    assert texts(list(log_range.read_range(log, ["decisions"], since={("decisions", 0): 0}, until={("decisions", 0): 99}))) == [
        "d@20",
        "d@30",
    ]
    assert list(log_range.read_range(log, ["decisions"], since=at(20), until=at(10))) == []


def test_an_unknown_topic_is_named(log: MemoryLog) -> None:
    with pytest.raises(BadInput, match="'nowhere'"):
        list(log_range.read_range(log, ["nowhere"]))


def test_a_stretch_ends_where_the_log_ended_when_it_began(log: MemoryLog) -> None:
    stretches = [log_range.read_range(log, ["decisions"], until=until) for until in (None, {("decisions", 0): 99}, at(999))]
    firsts = [next(found) for found in stretches]
    log.append([said("decisions", 0, 40, "d@40")])
    for first, found in zip(firsts, stretches, strict=True):
        assert texts([first, *found]) == ["d@10", "d@20", "d@30"]


def test_time_is_the_tick_then_ce_time_then_when_the_log_took_it() -> None:
    plain = Record("t", 0, 0, b"k", b"v", (), 77)
    assert log_range.event_time_ms(plain) == 77
    assert log_range.event_time_ms(Record("t", 0, 0, b"k", b"v", (("ce_time", b"1970-01-01T00:00:01.5Z"),), 77)) == 1500
    assert log_range.event_time_ms(Record("t", 0, 0, b"tick", b'{"at":5,"name":"a","ends":{}}', (), 77)) == 5
    for broken in (b"yesterday", b"2026-01-01T00:00:00", b"\xff", b""):
        assert log_range.event_time_ms(Record("t", 0, 0, b"k", b"v", (("ce_time", broken),), 77)) == 77
    for made_up in (-(1 << 63), 7_258_118_400_000, (1 << 63) - 1):
        assert log_range.event_time_ms(Record("t", 0, 0, b"k", b"v", (), made_up)) == -1


def test_the_position_of_a_moment_is_found_over_holes_and_records_without_a_time() -> None:
    log = MemoryLog()
    log.create("t", 1)
    log.import_records(
        [Record("t", 0, offset, b"k", b"v", (), time) for offset, time in ((3, 100), (7, -1), (8, -1), (20, 200), (21, -1))]
    )
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def position(ms: int) -> int:
        return log_range.offset_at(log, "t", 0, epoch + timedelta(milliseconds=ms))

    assert [r.offset for r in log.poll({("t", 0): position(100)}, limit=1)] == [3]
    assert position(101) in range(4, 21)
    assert [r.offset for r in log.poll({("t", 0): position(201)})] in ([], [21])


@given(times=st.lists(st.integers(0, 50), max_size=40).map(sorted), wanted=st.integers(0, 51))
def test_the_position_of_a_moment_is_that_of_the_first_record_at_or_after_it(times: list[int], wanted: int) -> None:
    log = MemoryLog()
    log.create("t", 1)
    log.append([said("t", 0, t, str(t)) for t in times])
    assert log_range.offset_at(log, "t", 0, at(wanted)) == sum(1 for t in times if t < wanted)


@given(
    parts=st.lists(st.lists(st.integers(0, 30), max_size=8), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    at_once=st.integers(1, 5),
)
def test_the_merged_order_does_not_depend_on_how_the_partitions_were_interleaved_or_read(
    parts: list[list[int]], order: Random, at_once: int
) -> None:
    def written(shuffled: bool) -> MemoryLog:
        log = MemoryLog()
        log.create("t", len(parts))
        turns = [p for p, times in enumerate(parts) for _ in times]
        if shuffled:
            order.shuffle(turns)
        left = [iter(enumerate(times)) for times in parts]
        for p in turns:
            n, time = next(left[p])
            log.append([said("t", p, time, f"{p}.{n}")])
        return log

    plain = texts(list(log_range.read_range(written(shuffled=False), ["t"], merged=True)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_range, "AT_ONCE", at_once)
        assert texts(list(log_range.read_range(written(shuffled=True), ["t"], merged=True))) == plain
    assert sorted(plain) == sorted(f"{p}.{n}" for p, times in enumerate(parts) for n in range(len(times)))


def test_following_goes_on_with_what_is_appended_and_leaves_nothing_out(log: MemoryLog) -> None:
    found = log_range.follow(log, ["decisions"], since=at(20), merged=True)
    assert texts([next(found)]) == ["d@20"]
    log.append([said("decisions", 0, 40, "d@40")])
    assert texts(list(itertools.islice(found, 2))) == ["d@30", "d@40"]
    poll, looks = log.poll, itertools.count()

    def looked_at(*asked: Any, **more: Any) -> Any:
        """What is appended comes after it was looked for in vain."""
        records = poll(*asked, **more)
        if next(looks) == 0:
            assert list(records) == []
            log.append([said("decisions", 0, 50, "d@50")])
        return records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "poll", looked_at)
        assert texts([next(found)]) == ["d@50"]


def test_an_export_can_be_read_like_the_log_it_came_from(log: MemoryLog, tmp_path: Path) -> None:
    log.truncate("facts", 1, 2)
    with FileLog.open_or_create(tmp_path / "incident.jsonl") as file:
        assert log_range.copy_range(log, file, ["facts", "decisions"], until=at(25)) == {"facts": 6, "decisions": 2}
    with FileLog(tmp_path / "incident.jsonl") as file:
        assert list(log_range.read_range(file, ["facts", "decisions"])) == list(
            log_range.read_range(log, ["facts", "decisions"], until=at(25))
        )
        back = MemoryLog()
        log_range.copy_range(file, back, file.topics())
        assert list(log_range.read_range(back, ["facts", "decisions"], merged=True)) == list(
            log_range.read_range(file, ["facts", "decisions"], merged=True)
        )
        assert back.begin("facts", 1) == 2


def test_exporting_again_adds_only_what_is_new(log: MemoryLog, tmp_path: Path) -> None:
    with FileLog.open_or_create(tmp_path / "log.jsonl") as file:
        assert log_range.copy_range(log, file, ["decisions"]) == {"decisions": 3}
        assert log_range.copy_range(log, file, ["decisions"]) == {"decisions": 0}
        log.append([said("decisions", 0, 40, "d@40")])
        assert log_range.copy_range(log, file, ["decisions"]) == {"decisions": 1}
        assert texts(list(log_range.read_range(file, ["decisions"]))) == ["d@10", "d@20", "d@30", "d@40"]


def claims(said: bytes) -> NewRecord:
    return NewRecord("t", 0, b"k", b"v", (("ce_time", said),))


@pytest.mark.parametrize("odd", [b"9999-12-31T00:00:00Z", b"2199-01-01T00:00:00Z", b"0001-01-01T00:00:00+14:00"])
@pytest.mark.parametrize("timed", [True, False])
def test_one_record_with_an_odd_time_at_the_end_hides_nothing_of_the_last_span(odd: bytes, *, timed: bool) -> None:
    now = [0]
    log = MemoryLog(lambda: now[0]) if timed else MemoryLog()
    log.create("t", 1)
    for hour in range(100):
        now[0] = to_ms(at(hour * 3600))
        log.append([said("t", 0, hour * 3600, "")])
    log.append([claims(odd)])
    found = log_range.offset_before_end(log, "t", 0, timedelta(hours=10))
    assert 80 <= found <= 89


@pytest.mark.parametrize("odd", [b"2199-01-01T00:00:00Z", b"1970-01-01T00:00:00Z"])
def test_odd_times_in_the_middle_do_not_move_the_place_of_a_moment(odd: bytes) -> None:
    log = MemoryLog()
    log.create("t", 1)
    for number in range(4_000):
        log.append([claims(odd) if number % 4 == 3 else said("t", 0, number, "")])
    for wanted in range(0, 4_000, 41):
        assert abs(log_range.offset_at(log, "t", 0, at(wanted)) - wanted) <= 2


def test_many_records_of_the_past_in_the_middle_hide_nothing_that_the_log_took_lately() -> None:
    now = [0]
    log = MemoryLog(lambda: now[0])
    log.create("t", 1)
    for number in range(2_000):
        now[0] = to_ms(at(number))
        log.append([claims(b"1970-01-01T00:00:00Z") if 900 <= number < 1_300 else said("t", 0, number, "")])
    assert 800 <= log_range.offset_before_end(log, "t", 0, timedelta(seconds=1_199)) <= 801
