"""The consumer of autoscalers, killed at every step it takes: the next one ends where an unharmed one does."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.replica_plans import HpaConditions, ReplicasPlanned, ReplicasRefused, ScalingMode
from schemas.facts.replica_scaling import ScaleSeen
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, ObjectWritten, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import CronTrigger, ScaleStrategy
from schemas.policies.vpa import TargetRef
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.scale_subresource import scaler
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import ehpa_manifests, ticks
from tests.support.attested_plans import with_attestations
from tests.support.replica_scene import DSP, MONDAY, RATE
from tests.support.scaled_world import DeadlyLog, Killed, KillSwitch, ScaledWorld

T = Topics(partitions=2)
CODEC = Codec(T)
ONE = AutoscalerOptions(resync=1e9, preview=1e9, writers=1)
CART = EhpaChanged(
    MONDAY,
    "prod",
    "shop",
    "cart",
    MONDAY,
    TargetRef("Deployment", "cart", "apps/v1"),
    max_replicas=20,
    min_replicas=1,
    metrics=(RATE,),
    crons=(CronTrigger("day", "0 8 * * *", "0 20 * * *", 3),),
    prediction=DSP,
    uid="u-cart",
    generation=1,
)


class Site:
    """A log and a world, and consumers that come and go."""

    def __init__(self) -> None:
        self.switch = KillSwitch()
        self.log, self.world = DeadlyLog(), ScaledWorld(self.switch)
        self.log.switch = KillSwitch()  # what the test itself writes is no step
        for topic in TOPICS:
            self.log.create(T.wire(topic.name), T.partitions)
        self.put("control", "prod", ControlChanged(MONDAY, "prod", Mode.APPLY))
        self.tick(MONDAY)
        self.world.has("cart", 2)
        self.say(CART)

    def put(self, topic: str, key: str, event: Event) -> None:
        self.log.append(CODEC.encode_for_all(event, topic=topic, key=key, source="/test"))

    def say(self, ehpa: EhpaChanged) -> None:
        """The EHPA is in the cluster, and the log knows."""
        manifest = ehpa_manifests.manifest_of(ehpa)
        key = ehpa.namespace, ehpa.name
        before = self.world.ehpas.held.get(key, {})
        self.world.ehpas.held[key] = {**before, **manifest}
        self.put("policies", ehpa.key, ehpa)

    def tick(self, at: datetime) -> None:
        number = int(at.timestamp() * 1000)
        ticks.append(self.log, T, number)

    def consumer(self) -> AutoscalerConsumer:
        context = LogContext.of(self.log, T, "prod")
        return AutoscalerConsumer(context, EhpaReconciler(self.world.clients, EhpaObjectGenerator(LabelPropagation())), ONE)

    def run(self, work: Callable[[], object]) -> bool:
        """Work to the end as a process of its own; False if it was killed."""
        self.log.switch = self.switch
        try:
            work()
        except Killed:
            return False
        finally:
            self.log.switch = KillSwitch()
        return True

    def settle(self) -> None:
        """A consumer until it has nothing more to do."""
        consumer = self.consumer()
        for _ in range(4):
            consumer.poll_once()

    def events(self, topic: str) -> list[Event]:
        return [
            CODEC.decode(record)
            for partition in range(2)
            for record in self.log.poll({(T.wire(topic), partition): 0}, wait=0.0)
            if not is_of_a_clock(record)
        ]

    def objects(self) -> dict[str, object]:
        """What there is in the end, without what only tells of the way there."""
        kinds = (self.world.hpas, self.world.tsps, self.world.substitutes)
        return {f"{kept.kind}/{name}": found["spec"] for kept in kinds for (_, name), found in sorted(kept.held.items())}


CHANGES = {
    "made": CART,
    "previewed": replace(CART, strategy=ScaleStrategy.PREVIEW, generation=2),
    "without a forecast": replace(CART, prediction=None, generation=2),
}


def _unharmed(name: str) -> tuple[Site, int]:
    """The end that is to be reached, and the steps to it."""
    site = Site()
    if name != "made":
        site.settle()
        site.say(CHANGES[name])
    site.switch.steps = 0
    assert site.run(site.settle)
    return site, site.switch.steps


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_step_it_ends_where_an_unharmed_one_does(name: str, *, after: bool) -> None:
    whole, steps = _unharmed(name)
    assert steps >= 3
    for number in range(steps):
        site = Site()
        if name != "made":
            site.settle()
            site.say(CHANGES[name])
        site.switch.arm(number, after=after)
        assert not site.run(site.settle)
        site.switch.disarm()
        assert site.run(site.settle)
        assert site.objects() == whole.objects()
        done = [event for event in site.events("outcomes") if isinstance(event, ObjectWritten) and event.result is Result.DONE]
        told = {(event.object_kind, event.name, event.id.rpartition("/")[2]) for event in done}
        accepted = {(each.kind, each.name, each.version) for each in site.world.written}
        assert told <= accepted, "an outcome says done, and the cluster knows nothing of it"


def test_objects_about_which_there_is_always_news_do_not_keep_others_from_being_looked_at() -> None:
    site = Site()
    names = [f"app-{number:03}" for number in range(150)]
    for name in names:
        site.world.has(name, 2)
        target = TargetRef("Deployment", name, "apps/v1")
        site.say(replace(CART, name=name, uid=f"u-{name}", target_ref=target, prediction=None))
    consumer = site.consumer()
    for number in range(3):
        for name in names[:100]:
            workload = Workload("prod", "shop", "Deployment", name)
            site.put("pod-changes-by-cluster", "prod", ScaleSeen(MONDAY, workload, 2, number, f"app={name}"))
        consumer.poll_once()
    assert all(("shop", f"ehpa-{name}") in site.world.hpas.held for name in names)


def test_an_ehpa_says_what_became_of_its_plans_until_they_are_carried_out() -> None:
    site = Site()
    direct = replace(CART, annotations={"ullage/scaling": "direct"})
    site.say(direct)
    site.put("replica-plans", CART.target, _plan(MONDAY))
    consumer = site.consumer()
    consumer.poll_once()
    found = []
    for number, (result, detail) in enumerate(
        [
            (Result.DONE, OutcomeDetail.APPLIED),
            (Result.FAILED, OutcomeDetail.FORBIDDEN),
            (Result.REFUSED, OutcomeDetail.MOVED),
            (Result.DONE, OutcomeDetail.ALREADY_DONE),
            (Result.REFUSED, OutcomeDetail.NOT_ALLOWED),
            (Result.REFUSED, OutcomeDetail.INVALID),
            (Result.DONE, OutcomeDetail.ALREADY_DONE),
            (Result.EXPIRED, OutcomeDetail.SERVER_ERROR),
            (Result.DONE, OutcomeDetail.APPLIED),
        ]
    ):
        subject = Subject.of_workload(Workload("prod", "shop", "Deployment", "cart"))
        site.put("outcomes", "prod", ActionFinished(f"o{number}", MONDAY, "d", Action.SCALE, result, "why", subject, detail))
        site.put("policies", CART.key, replace(direct, resource_version=str(number)))
        consumer.poll_once()
        status: Any = site.world.ehpas.held["shop", "cart"]["status"]
        found.append(next(each["reason"] for each in status["conditions"] if each["type"] == "Ready"))
        assert status["lastScaleTime"] == "2026-01-05T00:00:00Z"
    ready = "EffectiveHorizontalPodAutoscalerReady"
    assert found == [ready, "FailedScale", "FailedScale", ready, ready, "FailedScale", ready, "FailedScale", ready]


def test_an_ehpa_says_why_nothing_is_planned_until_something_is_whoever_keeps_it() -> None:
    site = Site()
    site.say(replace(CART, annotations={"ullage/scaling": "direct"}))
    workload = Workload("prod", "shop", "Deployment", "cart")

    def ready() -> tuple[str, str]:
        status: Any = site.world.ehpas.held["shop", "cart"]["status"]
        return next((each["reason"], each["message"]) for each in status["conditions"] if each["type"] == "Ready")

    site.settle()
    well = ready()
    assert well[0] == "EffectiveHorizontalPodAutoscalerReady"
    consumer = site.consumer()
    consumer.poll_once()
    unseen = "nobody has seen the target's scale yet"
    for number, guard in enumerate(("rival", "scale", "paused", "scale")):
        refused = ReplicasRefused(f"r{number}", MONDAY, workload, CART.key, guard, unseen, {})
        site.put("replica-plans", workload.key, refused)
        consumer.poll_once()
        assert ready() == (("FailedScale", unseen) if guard == "scale" else well)
    for partition in range(2):
        site.log.truncate(T.wire("replica-plans"), partition, site.log.end(T.wire("replica-plans"), partition))
    site.settle()  # a new process, which the log no longer tells of it
    assert ready() == ("FailedScale", unseen)
    site.put("replica-plans", workload.key, _plan(MONDAY))
    site.settle()
    assert ready() == well


def test_a_decision_that_tells_other_conditions_is_shown_at_once_and_one_that_tells_the_same_writes_nothing() -> None:
    site = Site()
    site.say(replace(CART, annotations={"ullage/scaling": "direct"}))
    site.settle()
    consumer = site.consumer()
    consumer.poll_once()
    found, versions = list[str](), list[str]()
    for number, limited in enumerate(("False/DesiredWithinRange", "True/TooManyReplicas", "True/TooManyReplicas")):
        told = HpaConditions("True/ReadyForNewScale", "True/ValidMetricFound", limited)
        plan = replace(_plan(MONDAY), id=f"p{number}", current=2, replicas=2, conditions=told)
        site.put("replica-plans", plan.workload.key, plan)
        consumer.poll_once()
        held: Any = site.world.ehpas.held["shop", "cart"]
        versions.append(held["metadata"]["resourceVersion"])
        found += [each["reason"] for each in held["status"]["conditions"] if each["type"] == "ScalingLimited"]
    assert found == ["DesiredWithinRange", "TooManyReplicas", "TooManyReplicas"]
    assert versions[0] != versions[1] == versions[2]


def _plan(at: datetime) -> ReplicasPlanned:
    workload = Workload("prod", "shop", "Deployment", "cart")
    return ReplicasPlanned(
        id=f"forecaster/0/1/replicas/{CART.key}",
        at=at,
        expires=at + timedelta(minutes=2),
        workload=workload,
        target_ref=TargetRef("Deployment", "cart", "apps/v1"),
        ehpa=CART.key,
        uid="u-cart",
        generation=1,
        current=2,
        replicas=7,
        least=1,
        most=20,
        proposals=(),
        stabilized=None,
        carried_out_by=ScalingMode.DIRECT,
        because={},
    )


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_a_plan_is_carried_out_once_wherever_the_scaler_is_killed(number: int, *, after: bool) -> None:
    site = Site()
    plan = _plan(MONDAY)
    partition = T.partition_of(plan.workload.key)
    record = CODEC.encode(plan, topic="replica-plans", key=plan.workload.key, partition=partition, source="/test")
    site.log.append(with_attestations([record], T))

    def work() -> None:
        consumer = scaler(LogContext.of(site.log, T, "prod"), site.world)  # type: ignore[arg-type]  # a client in memory
        for _ in range(3):
            consumer.poll_once()

    site.switch.arm(number, after=after)
    assert not site.run(work)
    site.switch.disarm()
    assert site.run(work)
    assert site.world.sets == [7]
    outcomes = [event for event in site.events("outcomes") if isinstance(event, ActionFinished)]
    assert {(event.decision, event.result) for event in outcomes} == {(plan.id, Result.DONE)}
