"""Views: the newest turn of each key, whatever the order of the log."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.catalogue import Event
from schemas.decisions import Decision
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Place, Workload
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.decision_view import LATEST_REPEAT, DecisionView
from streams.log.log_port import NewRecord, Positions, Record
from streams.log.memory_log import MemoryLog
from streams.topics import Topics
from tests.support.examples import EVENTS

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000
TOPICS = Topics("ullage", 2)
CODEC = Codec(TOPICS)
WIRE = TOPICS.wire("recommendations")
WITHDRAWN = "withdrawn"


def recommended(name: str, turn: int, what: str = "requests") -> RequestsRecommended:
    workload = Workload("demo", "shop", "Deployment", name)
    decision_id = f"recommender/0/{START_MS + turn}/{what}/{workload.key}"
    containers = () if what == WITHDRAWN else (ContainerRecommendation("main", *[Amounts(Cores(0.1), Bytes(1))] * 4),)
    return RequestsRecommended(decision_id, START + timedelta(milliseconds=turn), workload, containers, {"turn": turn})


def record(event: Decision, partition: int = 0) -> NewRecord:
    key = event.workload.key
    return CODEC.encode(event, topic="recommendations", key=key, partition=partition, source="/ullage/recommender/0")


def view_of(*records: NewRecord) -> tuple[MemoryLog, DecisionView]:
    log = MemoryLog()
    log.create(WIRE, 2)
    log.append(records)
    view = DecisionView(log, CODEC, WIRE)
    view.catch_up()
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


def test_catching_up_reads_only_what_is_new() -> None:
    log, view = view_of(record(recommended("web", 7)))
    assert view.catch_up() == 0
    log.append([record(recommended("web", 8)), record(recommended("web", 9), 1)])
    assert view.catch_up() == 2
    seen = view.get("demo/shop/Deployment/web")
    assert seen is not None
    assert seen.turn == START_MS + 9


def test_of_repeats_the_first_place_is_shown() -> None:
    one = record(recommended("web", 7))
    _, view = view_of(one, one, record(recommended("web", 6)), one)
    (seen,) = [seen for _, seen in view.items()]
    assert seen.place == Place(WIRE, 0, 0)


def test_catching_up_waits_only_for_the_first_records() -> None:
    waits: list[float] = []

    class Listening(MemoryLog):
        def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
            waits.append(wait)
            return super().poll(positions, limit=limit)

    log = Listening()
    log.create(WIRE, 2)
    log.append([record(recommended("web", 7))])
    assert DecisionView(log, CODEC, WIRE).catch_up(wait=5) == 1
    assert waits == [5, 0]


def test_what_retention_took_is_not_waited_for() -> None:
    log = MemoryLog()
    log.create(WIRE, 2)
    log.append([record(recommended("web", 7)), record(recommended("till", 8))])
    log.truncate(WIRE, 0, 1)
    view = DecisionView(log, CODEC, WIRE)
    assert view.catch_up() == 1
    assert [key for key, _ in view.items()] == ["demo/shop/Deployment/till"]


def test_the_age_is_counted_in_event_time_from_the_newest_decision_or_tick() -> None:
    now = START + timedelta(seconds=60)
    log, view = view_of()
    assert view.age(now) is None
    log.append([record(recommended("web", 10_000))])
    view.catch_up()
    assert view.age(now) == 50
    log.append([record(recommended("till", 58_500)), record(recommended("web", 9_000))])
    view.catch_up()
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
    view = DecisionView(log, CODEC, wire)
    view.catch_up()
    assert (view.bad, len(view)) == (1, 0)


def test_a_withdrawn_recommendation_is_forgotten_and_an_older_repeat_does_not_bring_it_back() -> None:
    log, view = view_of(record(recommended("web", 7)), record(recommended("web", 9, WITHDRAWN)))
    assert view.get("demo/shop/Deployment/web") is None
    assert len(view) == 0
    log.append([record(recommended("web", 8)), record(recommended("web", 9, WITHDRAWN)), record(recommended("web", 7))])
    view.catch_up()
    assert len(view) == 0
    log.append([record(recommended("web", 10))])
    view.catch_up()
    assert [seen.turn for _, seen in view.items()] == [START_MS + 10]


def test_nothing_is_kept_of_workloads_that_were_withdrawn_long_ago() -> None:
    day = int(LATEST_REPEAT.total_seconds() * 1000)
    log, view = view_of(*(record(recommended(f"job-{n}", n)) for n in range(50)))
    log.append([record(recommended(f"job-{n}", 100 + n, WITHDRAWN)) for n in range(50)])
    log.append([record(recommended("later", 100 + day + 25, WITHDRAWN))])
    view.catch_up()
    assert (len(view), len(view._withdrawn), len(view._withdrawals)) == (0, 26, 26)  # those of 100 + 0 to 24 are older than a day
    log.append([record(recommended("last", 200 + 2 * day))])
    view.catch_up()
    assert (len(view._withdrawn), len(view._withdrawals)) == (0, 0)


def test_what_was_withdrawn_twice_is_remembered_for_a_day_after_the_second_time() -> None:
    hour = 3_600_000
    log, view = view_of(
        record(recommended("web", 0, WITHDRAWN)),
        record(recommended("web", hour)),
        record(recommended("web", 2 * hour, WITHDRAWN)),
    )
    log.append([record(recommended("other", 25 * hour, WITHDRAWN)), record(recommended("web", hour))])
    view.catch_up()
    assert len(view) == 0


_decisions = st.builds(
    recommended, st.sampled_from(["web", "till", "cart"]), st.integers(0, 4), st.sampled_from(["requests", "again", WITHDRAWN])
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
    straight, shuffled = DecisionView(log, CODEC, WIRE), DecisionView(log, CODEC, WIRE)
    for one in records:
        straight.apply(one)
    for one in mixed:
        shuffled.apply(one)
    assert list(shuffled.items()) == list(straight.items())
    assert shuffled.newest == straight.newest
    newest: dict[str, RequestsRecommended] = {}
    for decision in decisions:
        if decision.workload.key not in newest or decision.at > newest[decision.workload.key].at:
            newest[decision.workload.key] = decision  # of one turn the first
    assert {key: seen.decision for key, seen in straight.items()} == {k: d for k, d in newest.items() if d.containers}


def test_what_the_headers_show_to_be_older_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = list[int]()
    read = Codec.decode

    def counted(codec: Codec, each: Record) -> Event:
        decoded.append(each.offset)
        return read(codec, each)

    monkeypatch.setattr(Codec, "decode", counted)
    unnamed = dataclasses.replace(record(recommended("web", 6)), headers=())
    _, view = view_of(
        record(recommended("web", 9)),
        record(recommended("web", 8)),
        record(recommended("gone", 7, WITHDRAWN)),
        record(recommended("gone", 6)),
        unnamed,
        record(recommended("web", 10)),
    )
    seen = view.get("demo/shop/Deployment/web")
    assert (seen and seen.turn, view.get("demo/shop/Deployment/gone"), len(view)) == (START_MS + 10, None, 1)
    assert decoded == [0, 2, 4, 5]
