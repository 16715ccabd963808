"""Views: the newest turn of each key, whatever the order of the log."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Decision
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Place, Workload
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.decision_view import View
from streams.log.memory_log import MemoryLog
from streams.log.port import NewRecord, Positions, Record
from streams.topics import Topics
from tests.support.examples import EVENTS

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000
TOPICS = Topics("ullage", 2)
CODEC = Codec(TOPICS)
WIRE = TOPICS.wire("recommendations")


def recommended(name: str, turn: int, what: str = "requests") -> RequestsRecommended:
    workload = Workload("demo", "shop", "Deployment", name)
    decision_id = f"recommender/0/{START_MS + turn}/{what}/{workload.key}"
    return RequestsRecommended(decision_id, START + timedelta(milliseconds=turn), workload, (), {"turn": turn})


def record(event: Decision, partition: int = 0) -> NewRecord:
    key = event.workload.key
    return CODEC.encode(event, topic="recommendations", key=key, partition=partition, source="/ullage/recommender/0")


def view_of(*records: NewRecord) -> tuple[MemoryLog, View]:
    log = MemoryLog()
    log.create(WIRE, 2)
    log.append(records)
    view = View(log, CODEC, WIRE)
    view.refresh()
    return log, view


def test_the_newest_turn_wins_also_when_an_older_one_comes_after_it() -> None:
    _, view = view_of(record(recommended("web", 7)), record(recommended("web", 9)), record(recommended("web", 8)))
    seen = view.get("demo/shop/Deployment/web")
    assert seen is not None
    assert (seen.turn, seen.decision, seen.place) == (START_MS + 9, recommended("web", 9), Place(WIRE, 0, 1))
    assert len(view) == 1


def test_turns_are_compared_as_numbers_not_as_text() -> None:
    small, large = recommended("web", 5 - START_MS), recommended("web", 10 - START_MS)
    small = dataclasses.replace(small, at=START)
    large = dataclasses.replace(large, at=START)
    _, view = view_of(record(large), record(small))
    seen = view.get("demo/shop/Deployment/web")
    assert seen is not None
    assert seen.turn == 10


def test_keys_do_not_touch_each_other_and_come_in_order() -> None:
    _, view = view_of(record(recommended("web", 7), 1), record(recommended("till", 9), 0))
    assert [(key, seen.turn - START_MS) for key, seen in view.items()] == [
        ("demo/shop/Deployment/till", 9),
        ("demo/shop/Deployment/web", 7),
    ]
    assert view.get("demo/shop/Deployment/none") is None


def test_refreshing_takes_in_only_what_is_new() -> None:
    log, view = view_of(record(recommended("web", 7)))
    assert view.refresh() == 0
    log.append([record(recommended("web", 8)), record(recommended("web", 9), 1)])
    assert view.refresh() == 2
    seen = view.get("demo/shop/Deployment/web")
    assert seen is not None
    assert seen.turn == START_MS + 9


def test_of_repeats_the_first_place_is_shown() -> None:
    one = record(recommended("web", 7))
    _, view = view_of(one, one, record(recommended("web", 6)), one)
    (seen,) = [seen for _, seen in view.items()]
    assert seen.place == Place(WIRE, 0, 0)


def test_a_refresh_waits_only_for_the_first_records() -> None:
    waits: list[float] = []

    class Listening(MemoryLog):
        def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
            waits.append(wait)
            return super().poll(positions, limit=limit)

    log = Listening()
    log.create(WIRE, 2)
    log.append([record(recommended("web", 7))])
    assert View(log, CODEC, WIRE).refresh(wait=5) == 1
    assert waits == [5, 0]


def test_what_retention_took_is_not_waited_for() -> None:
    log = MemoryLog()
    log.create(WIRE, 2)
    log.append([record(recommended("web", 7)), record(recommended("till", 8))])
    log.truncate(WIRE, 0, 1)
    view = View(log, CODEC, WIRE)
    assert view.refresh() == 1
    assert [key for key, _ in view.items()] == ["demo/shop/Deployment/till"]


def test_the_age_is_counted_in_event_time_from_the_newest_decision_or_tick() -> None:
    now = START + timedelta(seconds=60)
    log, view = view_of()
    assert view.age(now) is None
    log.append([record(recommended("web", 10_000))])
    view.refresh()
    assert view.age(now) == 50
    log.append([event_codec.tick(WIRE, 0, START_MS + 58_500), record(recommended("web", 9_000))])
    view.refresh()
    assert view.age(now) == 1.5
    assert view.age(START) == 0


def test_what_is_no_decision_is_counted_and_harms_nothing() -> None:
    strange = dataclasses.replace(recommended("web", 8), id="made-up")
    halfway = dataclasses.replace(recommended("web", 8), id="recommender/0/soon/requests/demo/shop/Deployment/web")
    _, view = view_of(
        record(recommended("web", 7)),
        NewRecord(WIRE, 0, b"k", b"not json"),
        record(strange),
        record(halfway),
        NewRecord(WIRE, 0, b"demo/shop/Deployment/web", None),
    )
    assert view.bad == 3
    assert [(key, seen.turn) for key, seen in view.items()] == [("demo/shop/Deployment/web", START_MS + 7)]


def test_facts_are_no_decisions() -> None:
    wire = TOPICS.wire("pod-changes")
    log = MemoryLog()
    log.create(wire, 2)
    pod = next(event for event in EVENTS if type(event).__name__ == "PodDeleted")
    log.append([CODEC.encode(pod, topic="pod-changes", key="k", partition=0, source="/ullage/source/x")])
    view = View(log, CODEC, wire)
    view.refresh()
    assert (view.bad, len(view)) == (1, 0)


_decisions = st.builds(
    recommended, st.sampled_from(["web", "till", "cart"]), st.integers(0, 4), st.sampled_from(["requests", "again"])
)


@given(decisions=st.lists(_decisions, max_size=12), repeats=st.lists(st.integers(0, 11), max_size=8), order=st.randoms())
def test_any_order_and_repetition_of_records_gives_the_same_view(
    decisions: list[RequestsRecommended], repeats: list[int], order: Random
) -> None:
    records = []
    for offset, decision in enumerate(decisions):
        new = record(decision)
        records.append(Record(new.topic, new.partition, offset, new.key, new.value, new.headers))
    mixed = records + [records[n] for n in repeats if n < len(records)]
    order.shuffle(mixed)
    log = MemoryLog()
    log.create(WIRE, 2)
    straight, shuffled = View(log, CODEC, WIRE), View(log, CODEC, WIRE)
    for one in records:
        straight.take(one)
    for one in mixed:
        shuffled.take(one)
    assert list(shuffled.items()) == list(straight.items())
    assert shuffled.newest == straight.newest
    best = {d.workload.key: max(e.because["turn"] for e in decisions if e.workload == d.workload) for d in decisions}
    assert {key: seen.turn - START_MS for key, seen in straight.items()} == best
