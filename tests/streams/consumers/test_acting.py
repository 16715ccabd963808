"""The resizer and the evictor on a simulated cluster and the log in memory: once per decision, whatever happens."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.decisions import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies import ControlChanged, Mode
from schemas.units import Bytes, Cores, Seconds
from streams.clients import Pod
from streams.codec import Codec, causes, tick
from streams.consumers.acting import Post
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.errors import LogUnavailable, Unreachable
from streams.log import NewRecord, Positions, Record
from streams.log.memory import MemoryLog
from streams.simulated.client import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo import demo_cluster
from streams.topics import TOPICS, Topics

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
SMALL = {"metrics": Amounts(Cores(0.3), Bytes(600 * MIB))}


class CountingClient(SimulatedClient):
    """The simulated cluster, with every act counted."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        super().__init__(simulated)
        self.acts: list[str] = []

    def resize(self, pod: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        self.acts.append(f"resize {pod.name}")
        super().resize(pod, requests=requests, limits=limits)

    def evict(self, pod: PodName) -> None:
        self.acts.append(f"evict {pod.name}")
        super().evict(pod)


class BreakingLog(MemoryLog):
    """The log in memory; while `broken`, it takes nothing from consumers."""

    broken = False

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        batch = list(records)
        if self.broken and any("outcomes" in record.topic or "dead-letters" in record.topic for record in batch):
            raise LogUnavailable("the log in this test is away")
        return super().append(batch)


@dataclass
class Desk:
    """A cluster at two in the morning, a log with a tick of that time, and mode apply."""

    log: BreakingLog
    topics: Topics
    codec: Codec
    cluster: SimulatedCluster
    client: CountingClient

    @property
    def post(self) -> Post:
        return Post(self.log, self.topics, self.codec, "demo")

    def tick(self, at: datetime) -> None:
        number = int(at.timestamp() * 1000)
        self.log.append([tick(self.topics.wire("control"), p, number) for p in range(self.topics.partitions)])

    def control(self, mode: Mode = Mode.APPLY, *, paused: bool = False, reason: str = "") -> None:
        event = ControlChanged(START, "demo", mode, paused=paused, reason=reason)
        self.log.append(
            self.codec.encode(event, topic="control", key="demo", partition=p, source="/test")
            for p in range(self.topics.partitions)
        )

    def plan(self, decision: ResizePlanned | EvictionPlanned | UpdateRefused) -> None:
        partition = self.topics.partition_of("demo")
        self.log.append([self.codec.encode(decision, topic="pod-updates", key="demo", partition=partition, source="/test")])

    def records(self, topic: str) -> list[Record]:
        wire = self.topics.wire(topic)
        return [r for p in range(self.topics.partitions) for r in self.log.poll({(wire, p): 0})]

    def outcomes(self) -> list[ActionFinished]:
        events = [self.codec.decode(record) for record in self.records("outcomes")]
        return [event for event in events if isinstance(event, ActionFinished)]

    def pod(self, workload: str = "metrics") -> Pod:
        return next(p for p in self.client.pods() if p.workload.name == workload and all(c.ready for c in p.containers))


@pytest.fixture
def desk() -> Desk:
    topics, log, cluster = Topics(partitions=2), BreakingLog(), demo_cluster(3, start=START + timedelta(hours=1, minutes=50))
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    cluster.advance(START + timedelta(hours=2))
    desk = Desk(log, topics, Codec(topics), cluster, CountingClient(cluster))
    desk.control()
    desk.tick(cluster.now)
    return desk


def resize_of(pod: Pod, identifier: str = "updater/0/1/resize/x") -> ResizePlanned:
    return ResizePlanned(
        id=identifier,
        at=START + timedelta(hours=2),
        expires=START + timedelta(hours=2, minutes=10),
        workload=pod.workload,
        pod=pod.pod,
        requests=SMALL,
        limits={},
        expect={c.name: c.requests for c in pod.containers},
        because={},
    )


def eviction_of(pod: Pod, identifier: str = "updater/0/1/evict/x") -> EvictionPlanned:
    return EvictionPlanned(
        id=identifier,
        at=START + timedelta(hours=2),
        expires=START + timedelta(hours=2, minutes=10),
        workload=pod.workload,
        pod=pod.pod,
        expect={c.name: c.requests for c in pod.containers},
        because={},
    )


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
        workload=pod.workload,
        pod=pod.pod,
    )
    assert desk.outcomes() == [wanted]
    (record,) = desk.records("outcomes")
    assert causes(record) == (Place("ullage.pod-updates.v1", desk.topics.partition_of("demo"), 0),)


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


def test_a_repeated_decision_is_acted_on_once(desk: Desk) -> None:
    pod = desk.pod()
    consumer = evictor(desk.post, desk.client)
    for _ in range(3):
        desk.plan(eviction_of(pod))
        consumer.poll_once()
    assert desk.client.acts == [f"evict {pod.pod.name}"]
    assert len(desk.outcomes()) == 1


def test_after_a_restart_nothing_finished_is_done_again(desk: Desk) -> None:
    first, second = [p for p in desk.client.pods() if p.workload.name == "reports"][:2]
    desk.plan(eviction_of(first, "one"))
    evictor(desk.post, desk.client).poll_once()
    desk.plan(eviction_of(second, "two"))
    evictor(desk.post, desk.client).poll_once()
    evictor(desk.post, desk.client).poll_once()
    assert desk.client.acts == [f"evict {first.pod.name}", f"evict {second.pod.name}"]
    assert [o.decision for o in desk.outcomes()] == ["one", "two"]


@pytest.mark.parametrize("kind", ["resize", "evict"])
def test_a_crash_between_act_and_outcome_leads_to_one_act_and_one_outcome(desk: Desk, kind: str) -> None:
    pod = desk.pod()
    make = (lambda: resizer(desk.post, desk.client)) if kind == "resize" else (lambda: evictor(desk.post, desk.client))
    desk.plan(resize_of(pod) if kind == "resize" else eviction_of(pod))
    desk.log.broken = True
    with pytest.raises(LogUnavailable):
        make().poll_once()
    desk.log.broken = False
    make().poll_once()
    assert desk.client.acts == [f"{kind} {pod.pod.name}"]
    (outcome,) = desk.outcomes()
    assert outcome.result is Result.DONE
    assert "already" in outcome.reason


def test_while_the_log_takes_no_outcome_nothing_else_is_begun(desk: Desk) -> None:
    first, second = [p for p in desk.client.pods() if p.workload.name == "reports"][:2]
    desk.plan(eviction_of(first, "one"))
    desk.plan(eviction_of(second, "two"))
    consumer = evictor(desk.post, desk.client)
    desk.log.broken = True
    for _ in range(3):
        with pytest.raises(LogUnavailable):
            consumer.poll_once()
    assert desk.client.acts == [f"evict {first.pod.name}"]
    desk.log.broken = False
    assert consumer.poll_once() == 2
    assert [o.decision for o in desk.outcomes()] == ["one", "two"]


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


def test_what_the_cluster_will_never_do_has_failed(desk: Desk) -> None:
    plan = replace(resize_of(desk.pod("cart")), requests={"cart": Amounts(memory=Bytes(1 << 30))})
    desk.plan(plan)
    resizer(desk.post, desk.client).poll_once()
    (outcome,) = desk.outcomes()
    assert outcome.result is Result.FAILED
    assert outcome.reason.startswith(f"resizing 'shop/{plan.pod.name}' did not work: 422 ")


def test_a_pod_that_goes_while_it_is_looked_at_is_gone_as_asked(desk: Desk) -> None:
    class SlowClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            desk.cluster.evict(pod)
            super().evict(pod)

    desk.plan(eviction_of(desk.pod()))
    evictor(desk.post, SlowClient(desk.cluster)).poll_once()
    (outcome,) = desk.outcomes()
    assert (outcome.result, "gone already" in outcome.reason) == (Result.DONE, True)


def test_a_used_up_budget_is_tried_again_after_the_delay_and_then_done(desk: Desk) -> None:
    pods = [p for p in desk.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, desk.client)
    assert consumer.poll_once() == 2
    assert consumer.poll_once() == 0
    assert len(desk.client.acts) == 3
    desk.cluster.advance(desk.cluster.now + timedelta(minutes=1))
    desk.tick(START + timedelta(hours=2, seconds=9))
    assert consumer.poll_once() == 0
    assert len(desk.client.acts) == 3
    desk.tick(START + timedelta(hours=2, seconds=10))
    assert consumer.poll_once() == 1
    assert [o.result for o in desk.outcomes()] == [Result.DONE] * 3


def test_trying_again_ends_with_the_decision_and_the_outcome_says_what_was_answered(desk: Desk) -> None:
    pods = [p for p in desk.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, desk.client)
    consumer.poll_once()
    desk.tick(START + timedelta(hours=3))
    consumer.poll_once()
    last = desk.outcomes()[-1]
    assert last.result is Result.EXPIRED
    assert "6 pods must stay ready" in last.reason


class SilentClient(CountingClient):
    """The simulated cluster; while `silent` it does not answer, and each question is counted."""

    silent = True
    asked = 0

    def pod(self, namespace: str, name: str) -> Pod | None:
        self.asked += 1
        if self.silent:
            raise Unreachable(doing="reading pod", to=name, answer="timed out", after=Seconds(10.0))
        return super().pod(namespace, name)


def test_a_cluster_that_does_not_answer_is_asked_once_and_everything_waits(desk: Desk) -> None:
    for pod in [p for p in desk.client.pods() if p.workload.name == "reports"]:
        desk.plan(eviction_of(pod, pod.pod.name))
    client = SilentClient(desk.cluster)
    consumer = evictor(desk.post, client)
    assert [consumer.poll_once() for _ in range(5)] == [0] * 5
    assert client.asked == 1
    desk.tick(START + timedelta(hours=2, seconds=10))
    consumer.poll_once()
    assert client.asked == 2
    client.silent = False
    desk.tick(START + timedelta(hours=2, seconds=20))
    assert consumer.poll_once() == 3
    assert [o.result for o in desk.outcomes()] == [Result.DONE] * 3


def test_while_a_cluster_does_not_answer_decisions_still_expire_and_say_so(desk: Desk) -> None:
    for pod in [p for p in desk.client.pods() if p.workload.name == "reports"]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, SilentClient(desk.cluster))
    consumer.poll_once()
    desk.tick(START + timedelta(hours=3))
    assert consumer.poll_once() == 3
    assert {o.result for o in desk.outcomes()} == {Result.EXPIRED}
    assert all(o.reason.endswith("did not work: timed out") for o in desk.outcomes())


def test_a_decision_that_cannot_be_read_is_set_aside_and_the_next_is_done(desk: Desk) -> None:
    partition = desk.topics.partition_of("demo")
    kind = ("ce_type", b"ullage.resize-planned.v1")
    desk.log.append([NewRecord(desk.topics.wire("pod-updates"), partition, b"demo", b'{"id": 5}', (kind,))])
    desk.plan(resize_of(desk.pod()))
    resizer(desk.post, desk.client).poll_once()
    assert [o.result for o in desk.outcomes()] == [Result.DONE]
    assert len(desk.records("dead-letters")) == 1


def test_a_bad_decision_met_while_the_log_takes_nothing_is_set_aside_later(desk: Desk) -> None:
    partition = desk.topics.partition_of("demo")
    desk.log.append([NewRecord(desk.topics.wire("pod-updates"), partition, b"demo", b"nonsense")])
    consumer = resizer(desk.post, desk.client)
    desk.log.broken = True
    with pytest.raises(LogUnavailable):
        consumer.poll_once()
    desk.log.broken = False
    assert consumer.poll_once() == 0
    assert len(desk.records("dead-letters")) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_decided_out_of_reach_is_neither_answered_nor_answered_again(desk: Desk, *, restarted: bool) -> None:
    done, late, old = (p for p in desk.client.pods() if p.workload.name == "reports")
    consumer = evictor(desk.post, desk.client)
    desk.plan(eviction_of(done, "done"))
    consumer.poll_once()
    desk.tick(START + timedelta(days=14, hours=3))
    consumer.poll_once()
    if restarted:
        consumer = evictor(desk.post, desk.client)
    desk.plan(eviction_of(done, "done"))
    desk.plan(eviction_of(old, "old"))
    desk.plan(replace(eviction_of(late, "late"), at=START + timedelta(hours=4)))
    assert consumer.poll_once() == 1
    assert [(o.decision, o.result) for o in desk.outcomes()] == [("done", Result.DONE), ("late", Result.EXPIRED)]
    assert desk.client.acts == [f"evict {done.pod.name}"]


class MeasuredLog(BreakingLog):
    """Counts the decisions it gives."""

    given = 0

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        records = super().poll(positions, wait=wait, limit=limit)
        self.given += sum("pod-updates" in record.topic for record in records)
        return records


def test_a_start_reads_what_is_in_reach_and_not_the_years_before(desk: Desk) -> None:
    log = MeasuredLog()
    for topic in TOPICS:
        log.create(desk.topics.wire(topic.name), desk.topics.partitions)
    desk.log, pod = log, desk.pod()
    for hour in range(24 * 60):
        at = START + timedelta(hours=hour)
        desk.plan(replace(eviction_of(pod, f"e{hour}"), at=at, expires=at + timedelta(minutes=5)))
    desk.control()
    desk.tick(START + timedelta(days=60))
    assert evictor(desk.post, desk.client).poll_once() == 24 * 14
    assert log.given < 24 * 15 + 20


def test_it_runs_until_told_to_stop_and_waits_while_the_log_is_away(desk: Desk) -> None:
    stop, pod = threading.Event(), desk.pod()
    desk.plan(eviction_of(pod))
    desk.log.broken = True
    thread = threading.Thread(target=evictor(desk.post, desk.client).run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 10
    while not desk.client.acts and time.monotonic() < deadline:
        time.sleep(0.01)
    desk.log.broken = False
    while not desk.outcomes() and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    thread.join(10)
    assert desk.client.acts == [f"evict {pod.pod.name}"]
    assert [o.result for o in desk.outcomes()] == [Result.DONE]
    assert not thread.is_alive()


class HidingLog(BreakingLog):
    """Names an end that it does not deliver."""

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        return [] if any("outcomes" in topic for topic, _ in positions) else super().poll(positions, wait=wait, limit=limit)


def test_nothing_is_done_before_the_whole_log_was_read(desk: Desk) -> None:
    log = HidingLog()
    for topic in TOPICS:
        log.create(desk.topics.wire(topic.name), desk.topics.partitions)
    desk.log = log
    desk.control()
    desk.tick(desk.cluster.now)
    pod = desk.pod()
    other = ActionFinished("i", START, "other", Action.EVICT, Result.DONE, "", pod.workload, pod.pod)
    log.append([desk.post.outcome(other, cause=())])
    desk.plan(eviction_of(pod))
    with pytest.raises(LogUnavailable, match="delivered nothing"):
        evictor(desk.post, desk.client).poll_once()
    assert desk.client.acts == []
