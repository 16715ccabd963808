from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import Place
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams import compacted_copy
from streams.clock_rules import FILL
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.topics import Topics

AT = datetime(2026, 11, 22, tzinfo=UTC)
TOPICS = Topics("t", 3)
CODEC = Codec(TOPICS)


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    for spec in TOPICS.specs():
        made.create(spec.name, spec.partitions)
    return made


def vpa(name: str, generation: int = 1) -> list[NewRecord]:
    event = VpaChanged(AT, "c", "shop", name, AT, generation=generation)
    return CODEC.encode_for_all(event, topic="policies", key=event.key, source="/test")


def gone(name: str) -> list[NewRecord]:
    event = VpaRemoved(AT, "c", "shop", name)
    return CODEC.encode_for_all(event, topic="policies", key=event.key, source="/test")


def control(cluster: str, mode: Mode, *, paused: bool = False) -> list[NewRecord]:
    event = ControlChanged(AT, cluster, mode, paused=paused)
    return CODEC.encode_for_all(event, topic="control", key=cluster, source="/test")


def fill(log: MemoryLog, name: str, count: int) -> None:
    """So many records that are nothing."""
    wire = TOPICS.wire(name)
    log.append(NewRecord(wire, p, FILL, b"") for _ in range(count) for p in range(3))


def both(log: MemoryLog, records: list[NewRecord]) -> None:
    log.append(records)
    log.append(compacted_copy.copies_of(records, TOPICS))


def in_force(log: MemoryLog, name: str, partition: int = 0) -> dict[str, object]:
    """What a reader that applies the present knows, by key."""
    known: dict[str, object] = {}
    for record in compacted_copy.read_present(log, TOPICS, name, partition):
        event = CODEC.decode_or_none(record)
        if isinstance(event, VpaRemoved):
            known.pop(event.key, None)
        elif isinstance(event, VpaChanged):
            known[event.key] = event.generation
        elif isinstance(event, ControlChanged):
            known[event.cluster] = (event.mode, event.paused)
    return known


def test_without_a_complete_copy_the_topic_is_read_from_its_beginning(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_copy, "TAIL", 5)
    both(log, vpa("a"))
    log.append(vpa("b") * 50)
    present = compacted_copy.read_present(log, TOPICS, "policies")
    assert present.copied == ()
    assert len(present.tail) == 51
    assert in_force(log, "policies") == {"c/shop/a": 1, "c/shop/b": 1}


def test_a_complete_copy_spares_what_is_old(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_copy, "TAIL", 5)
    both(log, [*vpa("a"), *vpa("b")])
    both(log, gone("b"))
    assert compacted_copy.complete(log, TOPICS, "policies")
    log.append(vpa("c") * 1000)
    present = compacted_copy.read_present(log, TOPICS, "policies", 2)
    assert (len(present.copied), len(present.tail), present.position) == (1, 5, 1003)
    assert in_force(log, "policies") == {"c/shop/a": 1, "c/shop/c": 1}


def test_a_copy_made_later_holds_what_stood_in_the_topic_before_there_were_copies(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_copy, "TAIL", 5)
    log.append([*vpa("a"), *vpa("b"), *vpa("a", 2), *gone("b")])
    fill(log, "policies", 100)
    assert compacted_copy.complete(log, TOPICS, "policies")
    assert not compacted_copy.complete(log, TOPICS, "policies"), "it is complete now"
    copied = compacted_copy.latest_of_copy(log, TOPICS, "policies")
    assert copied is not None
    assert [r.key for r in copied] == [b"c/shop/a"]
    assert in_force(log, "policies") == {"c/shop/a": 2}


def test_a_change_that_only_the_topic_has_is_read_from_its_tail(log: MemoryLog) -> None:
    compacted_copy.complete(log, TOPICS, "policies")
    both(log, vpa("a"))
    log.append(vpa("a", 2))
    log.append(gone("b"))
    assert in_force(log, "policies") == {"c/shop/a": 2}


def test_what_a_source_has_not_copied_is_missing_in_the_copy_so_that_it_publishes_again(log: MemoryLog) -> None:
    compacted_copy.complete(log, TOPICS, "policies")
    both(log, vpa("a"))
    log.append(vpa("b"))  # the source died before it wrote the copy
    copied = compacted_copy.latest_of_copy(log, TOPICS, "policies")
    assert copied is not None
    assert [r.key for r in copied] == [b"c/shop/a"]


def test_a_pause_that_only_the_copy_has_holds_for_who_starts_later(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_copy, "TAIL", 5)
    compacted_copy.complete(log, TOPICS, "control")
    both(log, control("c", Mode.APPLY))
    fill(log, "control", 10)
    log.append(compacted_copy.copies_of(control("c", Mode.APPLY, paused=True), TOPICS))
    assert in_force(log, "control") == {"c": (Mode.APPLY, True)}


def test_copies_of_one_key_stand_in_one_partition_and_what_is_nothing_has_none() -> None:
    records = [*vpa("a"), *vpa("a", 2), NewRecord(TOPICS.wire("policies"), 0, FILL, b"")]
    copies = compacted_copy.copies_of(records, TOPICS)
    assert {(c.topic, c.partition) for c in copies} == {("t.policies-latest.v1", TOPICS.partition_of("c/shop/a"))}
    assert len(copies) == 2
    assert copies[0].value == records[0].value


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.sampled_from(["both", "topic", "fill"])), max_size=30))
def test_the_present_equals_the_whole_topic_wherever_writers_died(changes: list[tuple[str, int, str]]) -> None:
    """A change that only the topic got is made good by the tail; here the tail is everything since."""
    log = MemoryLog()
    for spec in TOPICS.specs():
        log.create(spec.name, spec.partitions)
    compacted_copy.complete(log, TOPICS, "policies")
    expected: dict[str, object] = {}
    for name, generation, how in changes:
        if how == "fill":
            fill(log, "policies", 3)
            continue
        records = vpa(name, generation) if generation else gone(name)
        log.append(records)
        if how == "both":
            log.append(compacted_copy.copies_of(records, TOPICS))
        expected[f"c/shop/{name}"] = generation
    assert in_force(log, "policies") == {key: value for key, value in expected.items() if value}


class CutLog:
    """A log that takes only so many appends and is then away, as when the process dies in between."""

    def __init__(self, log: MemoryLog, appends: int) -> None:
        self._log, self._left = log, appends

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        if self._left == 0:
            raise LogUnavailable("cut")
        self._left -= 1
        return self._log.append(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


def test_facts_about_the_cluster_go_to_the_topic_before_the_copy(log: MemoryLog) -> None:
    compacted_copy.complete(log, TOPICS, "policies")
    with pytest.raises(LogUnavailable):
        compacted_copy.append_with_copies(CutLog(log, 1), TOPICS, vpa("a"))  # type: ignore[arg-type]  # the rest is delegated
    assert compacted_copy.latest_of_copy(log, TOPICS, "policies") == [], "so a source that starts again publishes it again"
    assert in_force(log, "policies") == {"c/shop/a": 1}


def test_control_goes_to_the_copy_before_the_topic(log: MemoryLog) -> None:
    compacted_copy.complete(log, TOPICS, "control")
    pause = control("c", Mode.APPLY, paused=True)
    with pytest.raises(LogUnavailable):
        compacted_copy.append_with_copies(CutLog(log, 1), TOPICS, pause)  # type: ignore[arg-type]  # the rest is delegated
    assert log.end(TOPICS.wire("control"), 0) == 0
    assert in_force(log, "control") == {"c": (Mode.APPLY, True)}


class MeetingLog:
    """A log in which another writer does all of its own just before the nth append of this one."""

    def __init__(self, log: MemoryLog, nth: int, other: Callable[[], object]) -> None:
        self._log, self._nth, self._other, self._appends = log, nth, other, 0

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        self._appends += 1
        if self._appends == self._nth:
            self._other()
        return self._log.append(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["control", "policies"])
def test_where_two_write_at_one_time_the_copy_has_what_the_topic_has(
    log: MemoryLog, name: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a consumer that starts an hour later would not obey the pause that all others obey."""
    compacted_copy.complete(log, TOPICS, name)
    changes = (
        (control("c", Mode.APPLY), control("c", Mode.APPLY, paused=True)) if name == "control" else (vpa("c", 1), vpa("c", 2))
    )
    one, other = (lambda to, records=records: compacted_copy.append_settled(to, TOPICS, records) for records in changes)
    one(MeetingLog(log, nth, lambda: other(log)))
    partition = TOPICS.partition_of("c") if name == "control" else 0
    whole = in_force(log, name, partition)
    fill(log, name, 100)
    monkeypatch.setattr(compacted_copy, "TAIL", 5)
    assert in_force(log, name, partition) == whole


def test_a_log_without_copies_takes_the_records_alone() -> None:
    old = MemoryLog()
    old.create(TOPICS.wire("policies"), 3)
    assert len(compacted_copy.append_with_copies(old, TOPICS, vpa("a"))) == 3
    assert in_force(old, "policies") == {"c/shop/a": 1}
