"""The resizer and the evictor on a simulated cluster and the log in memory: what is done, and what the switch forbids."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from schemas.catalogue import CATALOGUE, Kind
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, UpdateRefused
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Cores
from streams.codec.event_codec import Codec, causes
from streams.consumers.evictor import Evictions, evictor
from streams.consumers.executing.acting_consumer import AT_REST
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import Handler, HandlerResult
from streams.consumers.resizer import resizer
from streams.log_context import LogContext
from streams.topics import TOPICS
from tests.support.attested_plans import with_attestations
from tests.support.consumer_scene import (
    SMALL,
    START,
    BreakingLog,
    ConsumerScene,
    CountingClient,
    eviction_of,
    open_permit,
    resize_of,
    scene_at_two,
)


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def test_a_resize_is_carried_out_and_its_outcome_names_decision_pod_and_cause(scene: ConsumerScene) -> None:
    pod = scene.pod()
    scene.plan(resize_of(pod))
    consumer = resizer(scene.context, scene.client)
    assert consumer.poll_once() == 0
    scene.settle()
    assert consumer.poll_once() == 1
    now = scene.client.pod(pod.pod.namespace, pod.pod.name)
    assert now is not None
    assert now.asked_requests == SMALL
    wanted = ActionFinished(
        id=f"updater/0/1/resize/x/resize/{pod.pod.uid}",
        at=START + timedelta(hours=2, minutes=1),
        decision="updater/0/1/resize/x",
        action=Action.RESIZE,
        result=Result.DONE,
        reason="the new amounts are in force",
        subject=Subject.of_pod(pod.workload, pod.pod),
        detail=OutcomeDetail.APPLIED,
    )
    assert scene.outcomes() == [wanted]
    (record,) = scene.records("outcomes")
    assert causes(record) == (Place("ullage.pod-updates.v1", scene.topics.partition_of("demo"), 0),)


def test_a_decision_about_another_cluster_in_the_same_partition_is_neither_carried_out_nor_answered(scene: ConsumerScene) -> None:
    plan = eviction_of(scene.pod())
    scene.plan(replace(plan, workload=replace(plan.workload, cluster="elsewhere")))
    assert evictor(scene.context, scene.client).poll_once() == 0
    assert (scene.client.acts, scene.outcomes()) == ([], [])


def test_an_eviction_is_carried_out(scene: ConsumerScene) -> None:
    pod = scene.pod()
    scene.plan(eviction_of(pod))
    evictor(scene.context, scene.client).poll_once()
    assert scene.client.pod(pod.pod.namespace, pod.pod.name) is None
    assert [(o.result, o.action) for o in scene.outcomes()] == [(Result.DONE, Action.EVICT)]


def test_each_consumer_leaves_the_others_decisions_alone(scene: ConsumerScene) -> None:
    scene.plan(eviction_of(scene.pod()))
    scene.plan(UpdateRefused("r", START, scene.pod().workload, scene.pod().pod, "budget", "no", {}))
    assert resizer(scene.context, scene.client).poll_once() == 0
    assert (scene.client.acts, scene.outcomes()) == ([], [])


def test_without_a_control_record_the_mode_is_shadow(scene: ConsumerScene) -> None:
    context = replace_cluster_control(scene)
    scene.plan(resize_of(scene.pod()))
    resizer(context, scene.client).poll_once()
    (outcome,) = scene.outcomes()
    assert (outcome.result, scene.client.acts) == (Result.REFUSED, [])
    assert outcome.reason == "nobody has set the mode of cluster 'demo' yet, so it is shadow"


def replace_cluster_control(scene: ConsumerScene) -> LogContext:
    """The same log, but its `control` holds ticks alone."""
    log = BreakingLog()
    for topic in TOPICS:
        log.create(scene.topics.wire(topic.name), scene.topics.partitions)
    scene.log = log
    scene.tick(scene.cluster.now)
    return scene.context


def test_in_plan_mode_a_decision_is_refused(scene: ConsumerScene) -> None:
    scene.control(Mode.PLAN)
    scene.plan(resize_of(scene.pod()))
    resizer(scene.context, scene.client).poll_once()
    assert [o.reason for o in scene.outcomes()] == ["the mode of cluster 'demo' is plan, not apply"]
    assert scene.client.acts == []


def test_a_pause_that_follows_the_decision_in_time_still_holds_it(scene: ConsumerScene) -> None:
    consumer = resizer(scene.context, scene.client)
    consumer.poll_once()
    scene.plan(resize_of(scene.pod()))
    scene.control(paused=True, reason="black friday")
    consumer.poll_once()
    assert [o.reason for o in scene.outcomes()] == ["cluster 'demo' is paused: black friday"]
    assert scene.client.acts == []


def test_a_pause_in_the_middle_of_a_batch_holds_the_rest(scene: ConsumerScene) -> None:
    pods = [p for p in scene.client.pods() if p.workload.name == "reports"]
    for pod in pods:
        scene.plan(eviction_of(pod, pod.pod.name))

    class PausingClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            super().evict(pod)
            scene.control(paused=True)

    client = PausingClient(scene.cluster)
    evictor(scene.context, client).poll_once()
    assert len(client.acts) == 1
    assert [o.result for o in scene.outcomes()] == [Result.DONE, Result.REFUSED, Result.REFUSED]


def test_the_switch_of_another_cluster_changes_nothing(scene: ConsumerScene) -> None:
    event = ControlChanged(START, "elsewhere", Mode.SHADOW, paused=True)
    for p in range(2):
        scene.log.append([scene.codec.encode(event, topic="control", key="elsewhere", partition=p, source="/test")])
    scene.plan(resize_of(scene.pod()))
    resizer(scene.context, scene.client).poll_once()
    assert len(scene.client.acts) == 1


def test_a_stale_decision_expires_by_event_time(scene: ConsumerScene) -> None:
    scene.plan(resize_of(scene.pod()))
    scene.tick(START + timedelta(hours=2, minutes=10, seconds=1))
    resizer(scene.context, scene.client).poll_once()
    (outcome,) = scene.outcomes()
    assert (outcome.result, outcome.at) == (Result.EXPIRED, START + timedelta(hours=2, minutes=10, seconds=1))
    assert scene.client.acts == []


def test_without_a_tick_nothing_is_done(scene: ConsumerScene) -> None:
    log = BreakingLog()
    for topic in TOPICS:
        log.create(scene.topics.wire(topic.name), scene.topics.partitions)
    scene.log = log
    scene.control()
    scene.plan(resize_of(scene.pod()))
    consumer = resizer(scene.context, scene.client)
    assert consumer.poll_once() == 0
    assert (scene.client.acts, scene.outcomes()) == ([], [])
    scene.tick(scene.cluster.now)
    consumer.poll_once()
    assert len(scene.client.acts) == 1


def test_a_pod_that_moved_is_refused(scene: ConsumerScene) -> None:
    pod = scene.pod()
    scene.client.resize(pod, requests={"metrics": Amounts(cpu=Cores(0.7))}, limits={})
    scene.plan(resize_of(pod))
    resizer(scene.context, scene.client).poll_once()
    scene.cluster.advance(scene.cluster.now + timedelta(minutes=1))
    scene.plan(eviction_of(pod))
    evictor(scene.context, scene.client).poll_once()
    resized, evicted = scene.outcomes()
    assert resized.reason == "it moved: the pod asks for metrics 700m / 1.00 GiB, expected metrics 1000m / 1.00 GiB"
    assert evicted.reason == "it moved: the pod requests metrics 700m / 1.00 GiB, expected metrics 1000m / 1.00 GiB"
    assert {resized.result, evicted.result} == {Result.REFUSED}


def test_another_pod_of_the_same_name_is_not_touched(scene: ConsumerScene) -> None:
    pod = replace(scene.pod(), pod=replace(scene.pod().pod, uid="of-an-earlier-pod"))
    scene.plan(resize_of(pod))
    scene.plan(eviction_of(pod))
    resizer(scene.context, scene.client).poll_once()
    evictor(scene.context, scene.client).poll_once()
    assert scene.client.acts == []
    resized, evicted = scene.outcomes()
    assert (resized.result, evicted.detail) == (Result.REFUSED, OutcomeDetail.ALREADY_DONE)
    assert "of-an-earlier-pod" in resized.reason


def test_a_pod_that_goes_while_it_is_looked_at_is_gone_as_asked(scene: ConsumerScene) -> None:
    class SlowClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            scene.cluster.evict(pod)
            super().evict(pod)

    scene.plan(eviction_of(scene.pod()))
    evictor(scene.context, SlowClient(scene.cluster)).poll_once()
    (outcome,) = scene.outcomes()
    assert (outcome.result, outcome.detail) == (Result.DONE, OutcomeDetail.ALREADY_DONE)


def test_a_plan_is_not_carried_out_after_what_it_rests_on_became_stale(scene: ConsumerScene) -> None:
    pod, stale = scene.pod(), START + timedelta(hours=2, minutes=3)
    scene.plan(replace(eviction_of(pod), stale_after=stale))
    scene.tick(stale + timedelta(milliseconds=1))
    assert evictor(scene.context, scene.client).poll_once() == 1
    [outcome] = scene.outcomes()
    assert (outcome.result, scene.client.acts) == (Result.EXPIRED, [])
    assert outcome.reason.startswith(f"void since {stale.isoformat()}, it is ")


@dataclass(frozen=True)
class NodeDrained:
    """A decision of another stage, about a node."""

    id: str
    at: datetime
    void_after: datetime
    cluster: str
    node: str

    @property
    def subject(self) -> Subject:
        return Subject.of_node(self.cluster, self.node, f"uid-{self.node}")


def test_one_executor_runs_decisions_of_several_stages_from_several_topics_about_any_subject(scene: ConsumerScene) -> None:
    kind = Kind("node-drained", NodeDrained, ("cluster-changes",))  # type: ignore[arg-type]  # an event of this test alone
    codec = Codec(scene.topics, replace(CATALOGUE, kinds=(*CATALOGUE.kinds, kind)))
    context, home = LogContext(scene.log, scene.topics, codec, "demo"), scene.topics.partition_of("demo")
    drained: list[str] = []

    def drain(decision: NodeDrained) -> HandlerResult:
        drained.append(decision.node)
        return HandlerResult(Result.DONE, "the node is empty")

    pod, at = scene.pod(), START + timedelta(hours=2)
    evictions = Evictions(scene.client, open_permit())
    scene.plan(eviction_of(pod))
    for cluster in ("demo", "elsewhere"):
        decision = NodeDrained(f"scaler/0/1/drain/{cluster}", at, at + timedelta(hours=1), cluster, "node-1")
        record = codec.encode(decision, topic="cluster-changes", key="demo", partition=home, source="/test")  # type: ignore[arg-type]  # as above
        scene.log.append(with_attestations([record], scene.topics))
    executor = Executor(
        context,
        Handler("pod-updates", EvictionPlanned, Action.EVICT, evictions.act, evictions.look),
        Handler("cluster-changes", NodeDrained, Action.PATCH, drain),
    )
    assert [executor.poll_once(), executor.poll_once()] == [2, 0]
    assert (drained, scene.client.acts) == (["node-1"], [f"evict {pod.pod.name}"])
    assert [(o.action, o.subject) for o in scene.outcomes()] == [
        (Action.EVICT, Subject.of_pod(pod.workload, pod.pod)),
        (Action.PATCH, Subject.of_node("demo", "node-1", "uid-node-1")),
    ]
    assert Executor(context, Handler("cluster-changes", NodeDrained, Action.PATCH, drain)).poll_once() == 0


class Looks(threading.Event):
    """A stop that comes after so many looks at the log, with something to do before some of them."""

    def __init__(self, looks: int, before: Mapping[int, Callable[[], object]]) -> None:
        super().__init__()
        self._looks, self._before, self.pauses = looks, before, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self._before.get(len(self.pauses), lambda: None)()
        if len(self.pauses) >= self._looks:
            self.set()
        return self.is_set()


def test_at_rest_most_looks_only_ask_for_decisions_and_one_is_carried_out_in_the_next_look(
    scene: ConsumerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, end, pod = list[str](), scene.log.end, scene.pod()
    monkeypatch.setattr(scene.log, "end", lambda topic, partition: asked.append(topic) or end(topic, partition))
    stop = Looks(14, {4: asked.clear, 12: lambda: [asked.append("12"), scene.plan(eviction_of(pod))]})
    evictor(scene.context, scene.client).run(stop)
    asked = asked[: asked.index("12")]
    counts = [asked.count(scene.topics.wire(topic)) for topic in ("pod-updates", "control")]
    assert counts == [8, 2], "in eight looks"
    assert set(stop.pauses[4:12]) == {AT_REST}
    assert scene.client.pod(pod.pod.namespace, pod.pod.name) is None


def test_a_pause_that_came_at_rest_counts_before_anything_is_begun(scene: ConsumerScene) -> None:
    pod = scene.pod()

    def pause_and_plan() -> None:
        scene.control(Mode.APPLY, paused=True)
        scene.plan(eviction_of(pod))

    evictor(scene.context, scene.client).run(Looks(12, {9: pause_and_plan}))
    assert scene.client.acts == []
    assert [outcome.detail for outcome in scene.outcomes()] == [OutcomeDetail.NOT_ALLOWED]
