"""Nothing that stands in the log ends a stage or a consumer: each record is folded or set aside, and never an exception."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.stage import Stage
from agents.run import pipeline
from agents.run.partition_task import Task
from agents.settings.all_settings import Settings
from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.vpa_conditions import MemoryLimitFound, VpaConditionsDecided
from schemas.facts.replica_scaling import LoadScraped
from schemas.names import Workload
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.times import from_ms, to_ms
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.decision_view import DecisionView
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.publishing.operator_log import OperatorLog
from streams.publishing.published_state import read_all
from streams.topics import Topics
from tests.support import examples, ticks
from tests.support.admission_scene import CLUSTER, NAMES, AdmissionScene
from tests.support.consumer_scene import scene_at_two
from tests.support.corrupt_events import EVENTS, Poison
from tests.support.status_scene import StatusScene
from tests.support.vpa_server import VpaServer

TOPICS = Topics("ullage", 1)
POISON = Poison(TOPICS)
STAGES = pipeline.stages(Settings())
TURN = to_ms(examples.AT) + 60_000
(LOAD,) = (event for event in EVENTS if isinstance(event, LoadScraped))


def fed(task: Task, new: NewRecord, offset: int) -> int:
    task.feed(TOPICS.short(new.topic), Record(new.topic, 0, offset, new.key, new.value, new.headers))
    return offset + 1


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@given(data=st.data())
def test_every_record_is_folded_or_set_aside(stage: Stage, data: st.DataObject) -> None:
    task = Task(stage, 0, topics=TOPICS, codec=Codec(TOPICS), positions=dict.fromkeys(stage.reads, 0))
    offsets = dict.fromkeys(stage.reads, 0)
    for turn in (TURN, TURN + 500, TURN + 3_600_000):
        records = data.draw(st.lists(POISON.records(*stage.reads), max_size=6))
        for record in records:
            name = TOPICS.short(record.topic)
            offsets[name] = fed(task, record, offsets[name])
        task.take_tick(ticks.of(task, turn))
        taken = task.next_turn()
        assert taken is not None
        assert taken.records + len(taken.dead) == len(records)
    for chunk in task.state.chunks():
        assert task.state.dump(chunk) is not None


def feed(task: Task, offsets: dict[str, int], new: NewRecord) -> None:
    name = TOPICS.short(new.topic)
    offsets[name] = fed(task, new, offsets[name])


def take_texts(stage: Stage, every: int, *kinds: type[Event]) -> int:
    """Give a stage everything that is good, then every so-manieth hostile text in a turn of its own; how many there were."""
    task = Task(stage, 0, topics=TOPICS, codec=Codec(TOPICS), positions=dict.fromkeys(stage.reads, 0))
    offsets, turn, count = dict.fromkeys(stage.reads, 0), TURN, 0
    for event in EVENTS:
        for topic in set(CATALOGUE.of(type(event)).topics) & set(stage.reads):
            feed(task, offsets, POISON.good(event, topic))
    for spoiled in [None, *islice(POISON.each_text(*stage.reads, kinds=kinds), 0, None, every)]:
        if spoiled is not None:
            feed(task, offsets, spoiled)
            count += 1
        if "load-metrics" in stage.reads:  # so that there is something to fit a forecast to
            feed(task, offsets, POISON.good(replace(LOAD, at=from_ms(turn)), "load-metrics"))
        task.take_tick(ticks.of(task, turn))
        try:
            assert task.next_turn() is not None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"{stage.name} ended with {error!r} after {spoiled and spoiled.value}")
        turn += 15_000
    return count


def test_no_text_of_an_object_that_scales_ends_the_forecaster() -> None:
    (forecaster,) = (stage for stage in STAGES if stage.name == "forecaster")
    assert take_texts(forecaster, 37, EhpaChanged, TimeSeriesPredictionChanged) > 100


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_no_text_of_any_event_ends_a_stage(stage: Stage) -> None:
    assert take_texts(stage, 23) > 100


PLANS = POISON.records("pod-updates", "outcomes", "control")


@given(st.lists(PLANS, max_size=8))
def test_no_record_ends_a_consumer_that_acts(records: list[NewRecord]) -> None:
    scene = scene_at_two()
    place = scene.topics.partition_of("demo")
    scene.log.append([replace(r, partition=place, value=(r.value or b"").replace(b'"prod"', b'"demo"')) for r in records])
    for consumer in (resizer(scene.context, scene.client), evictor(scene.context, scene.client)):
        for _ in range(3):
            consumer.poll_once()
    assert scene.client.acts == []


@given(st.lists(POISON.records("policies", "control", "recommendations", "pod-changes-by-cluster", "oom-events"), max_size=8))
def test_no_record_ends_a_reader(records: list[NewRecord]) -> None:
    scene = scene_at_two()
    for partition in range(scene.topics.partitions):
        scene.log.append([replace(r, partition=partition) for r in records])
    context = replace(scene.context, cluster="prod")
    read_all(context)
    operator = OperatorLog(context)
    operator.policies()
    operator.control("prod")
    view = DecisionView(scene.log, scene.codec, scene.topics.wire("recommendations"))
    assert view.catch_up() >= 0


@pytest.fixture(scope="module")
def server() -> Iterator[VpaServer]:
    """An API that has the VPA object of the examples."""
    with VpaServer() as server:
        (decided,) = (event for event in examples.EVENTS if isinstance(event, VpaConditionsDecided))
        server.make(f"{decided.namespace}/{decided.name}", uid=decided.uid)
        yield server


def unreadable(record: Record) -> bool:
    """Whether a decision cannot be read, or has an id without a turn."""
    try:
        event = Codec(TOPICS).decode(record)
    except BadRecord:
        return True
    match event:
        case VpaConditionsDecided(cluster="demo") | MemoryLimitFound(workload=Workload(cluster="demo")):
            return event.id.count("/") < 4
    return False


@given(records=st.lists(POISON.records("vpa-conditions", "policies"), max_size=8))
def test_no_record_ends_the_status_consumer_and_each_decision_is_written_or_set_aside(
    server: VpaServer, records: list[NewRecord]
) -> None:
    scene = StatusScene(server.url, topics=TOPICS)
    scene.tick()
    before = scene.log.end(TOPICS.wire("dead-letters"), 0)
    scene.log.append([replace(r, value=(r.value or b"").replace(b'"prod"', b'"demo"')) for r in records])
    consumer = scene.consumer().alone
    for _ in range(3):
        consumer.poll_once()
    wire = TOPICS.wire("vpa-conditions")
    assert scene.log.end(TOPICS.wire("dead-letters"), 0) - before == sum(
        unreadable(record) for record in scene.log.poll({(wire, 0): 0}) if record.key != b"tick"
    )


@given(st.lists(POISON.records("policies", "control", "recommendations"), max_size=8))
def test_no_record_ends_the_webhook_and_each_pod_is_let_in(records: list[NewRecord]) -> None:
    scene = AdmissionScene()
    for partition in range(NAMES.partitions):
        for r in records:
            topic, value = NAMES.wire(TOPICS.short(r.topic)), (r.value or b"").replace(b'"prod"', f'"{CLUSTER}"'.encode())
            scene.log.append([replace(r, topic=topic, partition=partition, value=value)])
    scene.vpa()
    scene.recommend()
    scene.view.catch_up()
    response = scene.ask()
    assert response["allowed"] is True
    assert scene.view.caught_up
    scene.finished()
