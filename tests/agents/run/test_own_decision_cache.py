"""A worker that reads its own decisions back compares bytes; what it then takes in is what reading would give."""

import gc
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.event_validation import refuse
from agents.logic.vertical import vertical_event_validation
from agents.logic.vertical.decision_builder import RecommendationBatch
from agents.run.partition_task import OwnDecisionCache, SharedRecord, Task
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas import plain_json
from schemas.catalogue import Event
from schemas.decisions.recommendations import (
    CitedRules,
    ContainerRecommendation,
    LastOomKill,
    OomSource,
    OomSourceState,
    RequestsRecommended,
)
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.ids import DecisionId
from schemas.names import Amounts, Place, PodName, Workload
from schemas.plain_json import JsonObject
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics
from tests.support import ticks

TOPICS = Topics("t", 1)
CODEC = Codec(TOPICS)
BY_CLUSTER = "recommendations-by-cluster"
WIRE = TOPICS.wire(BY_CLUSTER)
START = 1_780_000_000_000
AT = datetime.fromtimestamp(START / 1000, UTC)
WORKLOAD = Workload("prod", "shop", "Deployment", "api")
POD = PodName("shop", "api-1", "u1")


def mostly(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Odd in one of twenty draws, so that whole events are good often enough."""
    return st.integers(0, 19).flatmap(lambda n: odd if n == 7 else good)


numbers = mostly(st.floats(0, 1e11), st.sampled_from([-1.0, -0.0, float("inf"), float("nan"), 1e12, 1e17, 0, 7]))
integers = mostly(st.integers(0, 10**16), st.sampled_from([-1, 10**17, 1 << 63, 5.0, 5.5, float("inf")]))
texts = mostly(st.text('abc-äß"\u2028', min_size=1, max_size=8), st.sampled_from(["", "x" * 4096, "x" * 4097, "\u0000", "a/b"]))
zones = mostly(st.just(UTC), st.sampled_from([timezone(timedelta(hours=2)), timezone(timedelta(0), "Z")]))
years = mostly(st.integers(1970, 2199), st.integers(1950, 2300))
times = st.builds(lambda year, zone: AT.replace(year=year, tzinfo=zone), years, zones)
amounts = st.builds(Amounts, st.none() | numbers, st.none() | integers)
ids = st.builds(
    lambda turn, key: str(DecisionId("recommender", 0, turn, "requests", key)),
    mostly(st.integers(0, 10**12), st.integers(-5, 10**14)),
    texts,
)
places = st.builds(Place, texts, st.integers(0, 9), st.integers(0, 1 << 40))
workloads = st.builds(Workload, texts, texts, texts, texts) | st.just(WORKLOAD)
containers = st.builds(ContainerRecommendation, texts, amounts, amounts, amounts, amounts)
kills = st.builds(LastOomKill, times, st.builds(PodName, texts, texts, texts), texts, st.none() | integers, st.booleans(), places)
sources = st.builds(OomSource, st.sampled_from(OomSourceState), texts, st.none() | times)
events = st.builds(
    RequestsRecommended,
    id=ids,
    at=times,
    workload=workloads,
    containers=st.lists(containers, max_size=3).map(tuple),
    because=st.just({}),
    pods=st.none() | integers,
    last_oom=st.none() | kills,
    oom_source=st.none() | sources,
    rules=st.none() | st.builds(CitedRules, texts, places),
)


def record(event: Event) -> NewRecord:
    return CODEC.encode(
        event, topic=BY_CLUSTER, key="prod", partition=0, source="/ullage/recommender/0", cause=(Place("t", 0, 7),)
    )


def back(new: NewRecord, offset: int = 3) -> Record:
    """The record as the log gives it: equal bytes, other objects."""
    value = bytes(bytearray(new.value or b""))
    return Record(new.topic, new.partition, offset, new.key, value, tuple((n, bytes(bytearray(v))) for n, v in new.headers))


def deferred(event: RequestsRecommended, because: Any = None) -> RequestsRecommended:
    return replace(event, because=JsonObject(lambda: plain_json.dumps({"samples": 7} if because is None else because)))


GOOD = RequestsRecommended(
    id=f"recommender/0/{START}/requests/{WORKLOAD.key}",
    at=AT,
    workload=WORKLOAD,
    containers=(ContainerRecommendation("app", *[Amounts(Cores(0.1), Bytes(5))] * 4),),
    because={},
    pods=2,
    last_oom=LastOomKill(AT, POD, "app", Bytes(9), counted=True, place=Place("t", 0, 3)),
    oom_source=OomSource(OomSourceState.ALIVE, "kube", AT),
    rules=CitedRules("v", Place("t", 0, 1)),
)


@given(events)
def test_what_is_vouched_for_is_what_reading_gives_and_accepts(event: RequestsRecommended) -> None:
    if not vertical_event_validation.is_surely_good(event):
        return
    read = CODEC.decode(back(record(event)))
    assert read == event
    assert refuse(read) is None
    assert record(read) == record(event)
    vouched_for.append(event)


vouched_for: list[Event] = []


def test_the_property_looks_at_many_whole_events() -> None:
    test_what_is_vouched_for_is_what_reading_gives_and_accepts()
    assert len(vouched_for) >= 5


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, containers=(replace(GOOD.containers[0], upper=Amounts(Cores(float("inf")), None)),)),
        replace(GOOD, containers=(replace(GOOD.containers[0], lower=Amounts(Cores(float("nan")), None)),)),
        replace(GOOD, containers=(replace(GOOD.containers[0], target=Amounts(Cores(-0.1), None)),)),
        replace(GOOD, containers=(replace(GOOD.containers[0], uncapped=Amounts(None, Bytes(10**17))),)),
        replace(GOOD, containers=(replace(GOOD.containers[0], container="x" * 4097),)),
        replace(GOOD, containers=GOOD.containers * 1001),
        replace(GOOD, id="recommender/0/x/requests/y"),
        replace(GOOD, at=AT.replace(year=2300)),
        replace(GOOD, pods=10**17),
        replace(GOOD, workload=replace(WORKLOAD, name="a/b")),
        replace(GOOD, rules=CitedRules("v" * 4097, Place("t", 0, 1))),
        replace(GOOD, oom_source=OomSource(OomSourceState.ALIVE, "x" * 4097)),
        replace(GOOD, last_oom=LastOomKill(AT.replace(year=1960), POD, "app", None, counted=True, place=Place("t", 0, 3))),
    ],
)
def test_what_a_reader_would_refuse_is_never_vouched_for(bad: RequestsRecommended) -> None:
    assert vertical_event_validation.is_surely_good(GOOD)
    assert not vertical_event_validation.is_surely_good(bad)
    try:
        read = CODEC.decode(back(record(bad)))
    except BadRecord:
        return
    assert refuse(read) is not None or read != bad


LATER = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "equal",
    [
        replace(GOOD, at=AT.astimezone(LATER)),
        replace(GOOD, containers=(replace(GOOD.containers[0], lower=Amounts(0, Bytes(5))),)),  # type: ignore[arg-type]  # mypy knows better
        replace(GOOD, containers=(replace(GOOD.containers[0], lower=Amounts(Cores(0.1), 5.0)),)),  # type: ignore[arg-type]  # as above
        replace(GOOD, last_oom=LastOomKill(AT.astimezone(LATER), POD, "app", Bytes(9), counted=True, place=Place("t", 0, 3))),
        replace(GOOD, last_oom=LastOomKill(AT, POD, "app", 9.0, counted=True, place=Place("t", 0, 3))),  # type: ignore[arg-type]  # as above
        replace(GOOD, oom_source=OomSource(OomSourceState.ALIVE, "kube", AT.astimezone(LATER))),
    ],
)
def test_what_reading_gives_in_another_kind_is_not_vouched_for(equal: RequestsRecommended) -> None:
    assert vertical_event_validation.is_surely_good(GOOD)  # so that equal parts have been judged before
    assert not vertical_event_validation.is_surely_good(equal)


def flying(*published: RequestsRecommended, most: int = 1 << 20) -> OwnDecisionCache:
    found = OwnDecisionCache(most)
    found.follow([(WIRE, 0)])
    for each in published:
        if found.follows(new := record(each)):
            found.publish(new, each, refuse)
    return found


def test_because_is_what_the_record_says() -> None:
    event = deferred(GOOD, {"shares": (0.5, float("nan")), "policy": {"at": AT}})
    new = record(event)
    read = flying(event).land(back(new), refuse)
    assert read == CODEC.decode(back(new))
    assert dict(read.because) == {"shares": [0.5, None], "policy": {"at": AT.isoformat().replace("+00:00", "Z")}}  # type: ignore[union-attr]  # a recommendation


def test_a_decision_lands_once_and_frees_its_memory() -> None:
    found = flying(deferred(GOOD))
    assert found.size > 0
    assert found.land(back(record(deferred(GOOD))), refuse) == deferred(GOOD)
    assert found.size == 0
    assert found.land(back(record(deferred(GOOD))), refuse) is None


def test_a_record_that_differs_in_one_byte_is_read() -> None:
    event = deferred(GOOD)
    came = back(record(event))
    others = [
        replace(came, value=(came.value or b"").replace(b'"pods":2', b'"pods":3')),
        replace(came, key=b"prot"),
        replace(came, headers=came.headers[:-1]),
        replace(came, headers=(*came.headers[:-1], ("cause", b'["t:0:8"]'))),
        replace(came, partition=1),
    ]
    found = flying(event)
    assert [found.land(other, refuse) for other in others] == [None] * len(others)
    assert found.land(came, lambda _event: None) is None  # another check has not accepted it
    assert found.land(came, refuse) is not None


def test_what_was_published_before_will_not_come_any_more() -> None:
    first, second, third = (deferred(replace(GOOD, pods=pods)) for pods in (1, 2, 3))
    found = flying(first, second, third)
    assert found.land(back(record(second)), refuse) == second
    assert found.land(back(record(first)), refuse) is None
    assert found.land(back(record(third)), refuse) == third
    assert found.size == 0


def test_memory_is_bounded_and_what_came_first_stays() -> None:
    some = [deferred(replace(GOOD, pods=pods)) for pods in range(100)]
    found = flying(*some, most=20_000)
    assert found.size < 20_000 + 5_000
    landed = [found.land(back(record(each)), refuse) is not None for each in some]
    assert landed[:5] == [True] * 5
    assert not any(landed[20:])


def test_a_rebalance_forgets_what_is_in_flight() -> None:
    found = flying(deferred(GOOD))
    found.follow([(WIRE, 0)])
    assert found.size == 0
    assert found.land(back(record(deferred(GOOD))), refuse) is None


class World:
    """All stages on one partition, over bytes. Their own decisions come back a turn later; `forged` may change a record."""

    def __init__(self, in_flight: OwnDecisionCache | None) -> None:
        self.in_flight = in_flight
        if in_flight is not None:
            in_flight.follow([(WIRE, 0)])
        self.tasks = [
            Task(s, 0, topics=TOPICS, codec=Codec(TOPICS), positions=dict.fromkeys(s.reads, 0), in_flight=in_flight)
            for s in stages(Settings(topics={"partitions": 1}))
        ]
        self.ends = dict.fromkeys(sorted({name for task in self.tasks for name in task.stage.reads}), 0)
        self.published: list[NewRecord] = []
        self.dead: list[NewRecord] = []

    def put(self, new: NewRecord) -> None:
        name = TOPICS.short(new.topic)
        if name in self.ends:
            readers = [task for task in self.tasks if name in task.stage.reads]
            came = SharedRecord.of(back(new, self.ends[name]))
            self.ends[name] += 1
            for task in readers:
                task.feed(name, came)

    def turn(self, number: int, *new: NewRecord) -> None:
        for each in new:
            self.put(each)
        for task in self.tasks:
            task.take_tick(ticks.of(task, number))
        decided = []
        for task in self.tasks:
            done = task.next_turn()
            assert done is not None
            decided += done.decisions
            self.dead += done.dead
        self.published += decided
        for each in decided:
            self.put(each)

    def seen(self) -> object:
        states = [{chunk: task.state.dump(chunk) for chunk in task.state.chunks()} for task in self.tasks]
        return self.published, self.dead, states, [task.inputs for task in self.tasks]


def facts(n: int) -> list[NewRecord]:
    """What is seen in minute `n`."""
    at = datetime.fromtimestamp(START / 1000 + n * 60, UTC)
    keys = tuple(Workload("prod", "shop", "Deployment", f"api-{i}").key for i in range(3))
    scrape = MetricsScraped(at, "prod", keys, ("p",) * 3, ("app",) * 3, (0.1 + n, 0.2, 0.3), (1e8, 2e8 + n * 1e8, 3e8))
    kill = ContainerOOMKilled(at, Workload.parse(keys[0]), POD, "app", n, Bytes(1 << 27), Bytes(1 << 27))
    seen = (("pod-metrics", scrape), *((("oom-events", kill),) if n == 2 else ()))
    return [CODEC.encode(event, topic=topic, key=keys[0], partition=0, source="/test") for topic, event in seen]


def test_what_a_turn_decided_is_freed_without_a_look_for_cycles() -> None:
    world = World(OwnDecisionCache())
    gc.collect()
    gc.disable()
    try:
        for n in range(6):
            world.turn(START + n * 60_000, *facts(n))
        left = [thing for thing in gc.get_objects() if isinstance(thing, RecommendationBatch)]
    finally:
        gc.enable()
    assert len(world.published) > 6
    assert not left


def test_a_pipeline_that_knows_its_own_decisions_decides_and_remembers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = Codec.decode

    def counted(self: Codec, came: Record) -> Event:
        decoded.append(came.topic)
        return decode(self, came)

    monkeypatch.setattr(Codec, "decode", counted)
    seen, counts = [], []
    for in_flight in (None, OwnDecisionCache()):
        world = World(in_flight)
        decoded.clear()
        for n in range(6):
            world.turn(START + n * 60_000, *facts(n))
        seen.append(world.seen())
        counts.append(decoded.count(WIRE))
    assert seen[0] == seen[1]
    assert counts[0] >= 6
    assert counts[1] == 0  # every recommendation of the recommender is vouched for, and was not read anew
