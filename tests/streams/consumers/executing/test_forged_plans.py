"""What somebody makes happen who may write the plans' topic and no other: nothing, whatever the record says."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from agents.telemetry.consumer_metrics import ConsumerMetrics
from agents.telemetry.observed_log import ObservedLog
from schemas.decisions.plan_attestations import PLANS
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts
from schemas.outcomes import Result
from schemas.units import Bytes, Cores
from streams.codec.plan_attestations import PLAN_TOPICS, TOPIC
from streams.consumers.evictor import evictor
from streams.consumers.executing import plan_evidence
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.plan_evidence import PATIENCE
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.expander_consumer import expander_consumer
from streams.consumers.nodes.node_removal import NodeWorld
from streams.consumers.replicas.scale_subresource import scaler
from streams.consumers.resizer import resizer
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support.attested_plans import with_attestations
from tests.support.consumer_scene import MIB, ConsumerScene, eviction_of, resize_of, scene_at_two


class Clock:
    """Real seconds, which pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    made = plan_evidence.PlanEvidence
    monkeypatch.setattr("streams.consumers.executing.executor.PlanEvidence", lambda: made(clock))
    return clock


def record_of(scene: ConsumerScene, plan: ResizePlanned | EvictionPlanned) -> NewRecord:
    """The record as a worker writes it, to the last header."""
    partition = scene.topics.partition_of("demo")
    return scene.codec.encode(plan, topic="pod-updates", key="demo", partition=partition, source="/ullage/updater/0")


def reasons(scene: ConsumerScene) -> list[str]:
    return [orjson.loads(letter.value or b"")["reason"] for letter in scene.records("dead-letters")]


def patient(consumer: Executor, clock: Clock) -> None:
    """All that the consumer does about what is in the log, however long it waits."""
    consumer.poll_once()
    clock.now += PATIENCE
    consumer.poll_once()


def other_pod(scene: ConsumerScene, plan: EvictionPlanned) -> EvictionPlanned:
    pod = scene.pod("cart")
    return replace(plan, workload=pod.workload, pod=pod.pod, expect={c.name: c.requests for c in pod.containers})


NEAR_COPIES: dict[str, Callable[[ConsumerScene, EvictionPlanned], EvictionPlanned]] = {
    "another pod": other_pod,
    "another turn": lambda _, plan: replace(plan, id=plan.id.replace("/1/", "/2/")),
    "another stage": lambda _, plan: replace(plan, id=plan.id.replace("updater", "recommender")),
    "another partition": lambda _, plan: replace(plan, id=plan.id.replace("updater/0", "updater/1")),
    "no turn": lambda _, plan: replace(plan, id="evict-it"),
    "a longer life": lambda _, plan: replace(plan, expires=plan.expires + timedelta(hours=1)),
    "another id in the same turn": lambda _, plan: replace(plan, id=f"{plan.id}-2"),
    "another recommendation": lambda _, plan: replace(plan, recommendation="recommender/0/1/requests/demo/shop/Deployment/web"),
}


@pytest.mark.parametrize("copied", NEAR_COPIES.values(), ids=NEAR_COPIES.keys())
@pytest.mark.parametrize("first", [True, False])
def test_a_near_copy_of_an_honest_plan_is_set_aside_and_the_honest_one_carried_out(
    scene: ConsumerScene, clock: Clock, copied: Callable[[ConsumerScene, EvictionPlanned], EvictionPlanned], *, first: bool
) -> None:
    honest = eviction_of(scene.pod())
    plan, forged = with_attestations([record_of(scene, honest)], scene.topics), [record_of(scene, copied(scene, honest))]
    scene.log.append([*forged, *plan] if first else [*plan, *forged])
    patient(evictor(scene.context, scene.client), clock)
    assert scene.client.acts == [f"evict {honest.pod.name}"]
    assert [outcome.result for outcome in scene.outcomes()] == [Result.DONE]
    assert len(reasons(scene)) == 1
    assert reasons(scene)[0].startswith("no turn made this plan: ")


def test_a_resize_to_another_amount_is_set_aside(scene: ConsumerScene, clock: Clock) -> None:
    honest = resize_of(scene.pod())
    scene.log.append(with_attestations([record_of(scene, honest)], scene.topics)[:1])
    scene.log.append([record_of(scene, replace(honest, requests={"metrics": Amounts(Cores(0.9), Bytes(900 * MIB))}))])
    patient(resizer(scene.context, scene.client), clock)
    assert (scene.client.acts, scene.outcomes()) == ([], [])
    assert reasons(scene) == ["no turn made this plan: turn 1 of updater/0 attests to other plans, and to none with this content"]


def test_the_same_content_with_another_cause_is_another_plan(scene: ConsumerScene, clock: Clock) -> None:
    honest = record_of(scene, eviction_of(scene.pod()))
    scene.log.append(with_attestations([honest], scene.topics)[:1])
    cause = ("cause", b'["ullage.recommendations-by-cluster.v1:0:1"]')
    scene.log.append([replace(honest, headers=(*honest.headers, cause))])
    patient(evictor(scene.context, scene.client), clock)
    assert (scene.client.acts, len(reasons(scene))) == ([], 1)


def test_an_old_plan_that_is_replayed_is_not_carried_out_again(scene: ConsumerScene, clock: Clock) -> None:
    honest = record_of(scene, eviction_of(scene.pod()))
    scene.log.append(with_attestations([honest], scene.topics))
    consumer = evictor(scene.context, scene.client)
    patient(consumer, clock)
    scene.log.append([honest])
    patient(consumer, clock)
    patient(evictor(scene.context, scene.client), clock)
    assert len(scene.client.acts) == len(scene.outcomes()) == 1
    assert not reasons(scene)


def test_an_attestation_among_the_plans_is_none(scene: ConsumerScene, clock: Clock) -> None:
    vouching, plan = with_attestations([record_of(scene, eviction_of(scene.pod()))], scene.topics)
    scene.log.append([replace(vouching, topic=plan.topic), plan])
    patient(evictor(scene.context, scene.client), clock)
    assert (scene.client.acts, scene.outcomes()) == ([], [])
    assert len(reasons(scene)) == 2


def test_what_attests_to_plans_makes_nothing_happen_by_itself(scene: ConsumerScene, clock: Clock) -> None:
    vouching, _ = with_attestations([record_of(scene, eviction_of(scene.pod()))], scene.topics)
    nonsense = NewRecord(scene.topics.wire(TOPIC), scene.topics.partition_of("demo"), b"x", b"{}", vouching.headers)
    scene.log.append([vouching, nonsense])
    patient(evictor(scene.context, scene.client), clock)
    assert (scene.client.acts, scene.outcomes()) == ([], [])
    assert len(reasons(scene)) == 1


@pytest.mark.parametrize("late", [1.0, PATIENCE + 1.0])
def test_a_plan_whose_worker_died_before_it_attested_waits_for_the_next_one(
    scene: ConsumerScene, clock: Clock, late: float
) -> None:
    """The next worker takes the turn again and appends the same bytes; that the plan was called forged meanwhile ends nothing."""
    vouching, plan = with_attestations([record_of(scene, eviction_of(scene.pod()))], scene.topics)
    consumer = evictor(scene.context, scene.client)
    scene.log.append([plan])
    consumer.poll_once()
    clock.now += late
    consumer.poll_once()
    assert scene.client.acts == []
    scene.log.append([vouching, plan])
    consumer.poll_once()
    assert len(scene.client.acts) == len(scene.outcomes()) == 1
    assert len(reasons(scene)) == (late > PATIENCE)


def test_a_forged_plan_is_counted_and_reported_once(scene: ConsumerScene, clock: Clock) -> None:
    registry = CollectorRegistry()
    log = ObservedLog(scene.log, ConsumerMetrics(registry, scene.topics))
    consumer = evictor(replace(scene.context, log=log), scene.client)
    scene.log.append([record_of(scene, eviction_of(scene.pod()))])
    for _ in range(3):
        patient(consumer, clock)
    assert registry.get_sample_value("ullage_forged_plans_total") == 1
    assert len(reasons(scene)) == 1


def test_a_flood_of_forged_plans_is_set_aside_and_not_kept(
    scene: ConsumerScene, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_evidence, "MOST_WAITING", 10)
    pod = scene.pod()
    scene.log.append([record_of(scene, eviction_of(pod, f"flood-{number}")) for number in range(25)])
    consumer = evictor(scene.context, scene.client)
    consumer.poll_once()
    assert len(reasons(scene)) == 15
    scene.plan(eviction_of(pod))
    patient(consumer, clock)
    assert (len(scene.client.acts), len(reasons(scene))) == (1, 25)


def test_every_decision_that_a_consumer_carries_out_is_attested_to() -> None:
    context = LogContext.of(scene_at_two().log, Topics(partitions=2), "demo")
    consumers = (
        evictor(context, Any),
        resizer(context, Any),
        scaler(context, Any),
        asg_consumer(context, NodeWorld(Any, Any, Any, lambda: datetime.now(UTC))),
        expander_consumer(context, Any),
    )
    handled = {handler.decision for consumer in consumers for handler in consumer._handlers.values()}
    assert handled == set(PLANS)
    assert {handler.topic for consumer in consumers for handler in consumer._handlers.values()} == PLAN_TOPICS
