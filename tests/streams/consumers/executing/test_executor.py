"""The resizer and the evictor on a simulated cluster and the log in memory: what is done, and what the switch forbids."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.decisions.pod_updates import UpdateRefused
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.subjects import Subject
from schemas.units import Cores
from streams.codec.event_codec import causes
from streams.consumers.executing.executor import Post
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from streams.topics import TOPICS
from tests.support.consumer_desk import SMALL, START, BreakingLog, CountingClient, Desk, desk_at_two, eviction_of, resize_of


@pytest.fixture
def desk() -> Desk:
    return desk_at_two()


def test_a_resize_is_carried_out_and_its_outcome_names_decision_pod_and_cause(desk: Desk) -> None:
    pod = desk.pod()
    desk.plan(resize_of(pod))
    assert resizer(desk.post, desk.client).poll_once() == 1
    now = desk.client.pod(pod.pod.namespace, pod.pod.name)
    assert now is not None
    assert now.asked_requests == SMALL
    wanted = ActionFinished(
        id=f"updater/0/1/resize/x/resize/{pod.pod.uid}",
        at=START + timedelta(hours=2),
        decision="updater/0/1/resize/x",
        action=Action.RESIZE,
        result=Result.DONE,
        reason="the cluster accepted the new amounts",
        subject=Subject.of_pod(pod.workload, pod.pod),
    )
    assert desk.outcomes() == [wanted]
    (record,) = desk.records("outcomes")
    assert causes(record) == (Place("ullage.pod-updates.v1", desk.topics.partition_of("demo"), 0),)


def test_a_decision_about_another_cluster_in_the_same_partition_is_neither_carried_out_nor_answered(desk: Desk) -> None:
    plan = eviction_of(desk.pod())
    desk.plan(replace(plan, workload=replace(plan.workload, cluster="elsewhere")))
    assert evictor(desk.post, desk.client).poll_once() == 0
    assert (desk.client.acts, desk.outcomes()) == ([], [])


def test_an_eviction_is_carried_out(desk: Desk) -> None:
    pod = desk.pod()
    desk.plan(eviction_of(pod))
    evictor(desk.post, desk.client).poll_once()
    assert desk.client.pod(pod.pod.namespace, pod.pod.name) is None
    assert [(o.result, o.action) for o in desk.outcomes()] == [(Result.DONE, Action.EVICT)]


def test_each_consumer_leaves_the_others_decisions_alone(desk: Desk) -> None:
    desk.plan(eviction_of(desk.pod()))
    desk.plan(UpdateRefused("r", START, desk.pod().workload, desk.pod().pod, "budget", "no", {}))
    assert resizer(desk.post, desk.client).poll_once() == 0
    assert (desk.client.acts, desk.outcomes()) == ([], [])


def test_without_a_control_record_the_mode_is_shadow(desk: Desk) -> None:
    post = replace_cluster_control(desk)
    desk.plan(resize_of(desk.pod()))
    resizer(post, desk.client).poll_once()
    (outcome,) = desk.outcomes()
    assert (outcome.result, desk.client.acts) == (Result.REFUSED, [])
    assert outcome.reason == "nobody has set the mode of cluster 'demo' yet, so it is shadow"


def replace_cluster_control(desk: Desk) -> Post:
    """The same log, but its `control` holds ticks alone."""
    log = BreakingLog()
    for topic in TOPICS:
        log.create(desk.topics.wire(topic.name), desk.topics.partitions)
    desk.log = log
    desk.tick(desk.cluster.now)
    return desk.post


def test_in_plan_mode_a_decision_is_refused(desk: Desk) -> None:
    desk.control(Mode.PLAN)
    desk.plan(resize_of(desk.pod()))
    resizer(desk.post, desk.client).poll_once()
    assert [o.reason for o in desk.outcomes()] == ["the mode of cluster 'demo' is plan, not apply"]
    assert desk.client.acts == []


def test_a_pause_that_follows_the_decision_in_time_still_holds_it(desk: Desk) -> None:
    consumer = resizer(desk.post, desk.client)
    consumer.poll_once()
    desk.plan(resize_of(desk.pod()))
    desk.control(paused=True, reason="black friday")
    consumer.poll_once()
    assert [o.reason for o in desk.outcomes()] == ["cluster 'demo' is paused: black friday"]
    assert desk.client.acts == []


def test_a_pause_in_the_middle_of_a_batch_holds_the_rest(desk: Desk) -> None:
    pods = [p for p in desk.client.pods() if p.workload.name == "reports"]
    for pod in pods:
        desk.plan(eviction_of(pod, pod.pod.name))

    class PausingClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            super().evict(pod)
            desk.control(paused=True)

    client = PausingClient(desk.cluster)
    evictor(desk.post, client).poll_once()
    assert len(client.acts) == 1
    assert [o.result for o in desk.outcomes()] == [Result.DONE, Result.REFUSED, Result.REFUSED]


def test_the_switch_of_another_cluster_changes_nothing(desk: Desk) -> None:
    event = ControlChanged(START, "elsewhere", Mode.SHADOW, paused=True)
    for p in range(2):
        desk.log.append([desk.codec.encode(event, topic="control", key="elsewhere", partition=p, source="/test")])
    desk.plan(resize_of(desk.pod()))
    resizer(desk.post, desk.client).poll_once()
    assert [o.result for o in desk.outcomes()] == [Result.DONE]


def test_a_stale_decision_expires_by_event_time(desk: Desk) -> None:
    desk.plan(resize_of(desk.pod()))
    desk.tick(START + timedelta(hours=2, minutes=10, seconds=1))
    resizer(desk.post, desk.client).poll_once()
    (outcome,) = desk.outcomes()
    assert (outcome.result, outcome.at) == (Result.EXPIRED, START + timedelta(hours=2, minutes=10, seconds=1))
    assert desk.client.acts == []


def test_without_a_tick_nothing_is_done(desk: Desk) -> None:
    log = BreakingLog()
    for topic in TOPICS:
        log.create(desk.topics.wire(topic.name), desk.topics.partitions)
    desk.log = log
    desk.control()
    desk.plan(resize_of(desk.pod()))
    consumer = resizer(desk.post, desk.client)
    assert consumer.poll_once() == 0
    assert (desk.client.acts, desk.outcomes()) == ([], [])
    desk.tick(desk.cluster.now)
    assert consumer.poll_once() == 1


def test_a_pod_that_moved_is_refused(desk: Desk) -> None:
    pod = desk.pod()
    desk.client.resize(pod.pod, requests={"metrics": Amounts(cpu=Cores(0.7))}, limits={})
    desk.plan(resize_of(pod))
    resizer(desk.post, desk.client).poll_once()
    desk.cluster.advance(desk.cluster.now + timedelta(minutes=1))
    desk.plan(eviction_of(pod))
    evictor(desk.post, desk.client).poll_once()
    resized, evicted = desk.outcomes()
    gib = 1 << 30
    assert resized.reason == f"it moved: the pod asks for metrics 700m {gib}, expected metrics 1000m {gib}"
    assert evicted.reason == f"it moved: the pod requests metrics 700m {gib}, expected metrics 1000m {gib}"
    assert {resized.result, evicted.result} == {Result.REFUSED}


def test_another_pod_of_the_same_name_is_not_touched(desk: Desk) -> None:
    pod = replace(desk.pod(), pod=replace(desk.pod().pod, uid="of-an-earlier-pod"))
    desk.plan(resize_of(pod))
    desk.plan(eviction_of(pod))
    resizer(desk.post, desk.client).poll_once()
    evictor(desk.post, desk.client).poll_once()
    assert desk.client.acts == []
    resized, evicted = desk.outcomes()
    assert (resized.result, evicted.result) == (Result.REFUSED, Result.DONE)
    assert "of-an-earlier-pod" in resized.reason
    assert "gone already" in evicted.reason


def test_a_pod_that_goes_while_it_is_looked_at_is_gone_as_asked(desk: Desk) -> None:
    class SlowClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            desk.cluster.evict(pod)
            super().evict(pod)

    desk.plan(eviction_of(desk.pod()))
    evictor(desk.post, SlowClient(desk.cluster)).poll_once()
    (outcome,) = desk.outcomes()
    assert (outcome.result, "gone already" in outcome.reason) == (Result.DONE, True)
