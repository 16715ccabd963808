"""The patcher as the admission hook of a simulated cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from agents.logic.resources.proportional_limits import proportional
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import Pod
from streams.codec.event_codec import Codec, tick
from streams.consumers.pods import patcher
from streams.consumers.pods.patcher import Patcher
from streams.errors import LogUnavailable
from streams.log.memory_log import MemoryLog
from streams.log.port import NewRecord, Positions, Record
from streams.log_context import LogContext
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import demo_cluster
from streams.topics import TOPICS, Topics

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
WEB = Workload("demo", "shop", "Deployment", "web")
TARGET = Amounts(Cores(0.5), Bytes(256 * MIB))


class AwayLog(MemoryLog):
    """The log in memory; while `away`, it cannot be read."""

    away = False

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        if self.away:
            raise LogUnavailable("the log in this test is away")
        return super().poll(positions, wait=wait, limit=limit)

    def end(self, topic: str, partition: int) -> int:
        if self.away:
            raise LogUnavailable("the log in this test is away")
        return super().end(topic, partition)


@dataclass
class Door:
    """A cluster of which each new pod passes the patcher."""

    log: AwayLog
    context: LogContext
    known: dict[str, RequestsRecommended]
    patcher: Patcher
    cluster: SimulatedCluster

    def control(self, mode: Mode, *, paused: bool = False) -> None:
        event = ControlChanged(START, "demo", mode, paused=paused)
        records = (self.context.codec.encode(event, topic="control", key="demo", partition=p, source="/test") for p in range(2))
        self.log.append(records)

    def pod(self, name: str = "web") -> Pod:
        return next(pod for pod in self.cluster.pods() if pod.workload.name == name)

    def outcomes(self) -> list[ActionFinished]:
        records = [r for p in range(2) for r in self.log.poll({(self.context.topics.wire("outcomes"), p): 0})]
        return [event for event in map(self.context.codec.decode, records) if isinstance(event, ActionFinished)]


@pytest.fixture
def door() -> Door:
    topics, log = Topics(partitions=2), AwayLog()
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    log.append(tick(topics.wire("control"), p, int(START.timestamp() * 1000)) for p in range(2))
    context = LogContext(log, topics, Codec(topics), "demo")
    web = ContainerRecommendation("web", TARGET, TARGET, TARGET, TARGET)
    gone = ContainerRecommendation("no-such-container", TARGET, TARGET, TARGET, TARGET)
    known = {WEB.key: RequestsRecommended("recommender/0/7/requests/web", START, WEB, (web, gone), {})}
    patcher = Patcher(context, recommended=lambda workload: known.get(workload.key), limits=proportional)
    return Door(log, context, known, patcher, demo_cluster(3, start=START, admit=patcher.admit))


def test_new_pods_start_with_the_target_and_limits_keep_their_ratio(door: Door) -> None:
    door.control(Mode.APPLY)
    door.cluster.advance(START + timedelta(minutes=1))
    web, proxy = door.pod().containers
    # the template asks 2 cores and 2,048 MiB with limits of 4 cores and 4,096 MiB: limits are twice the requests
    assert (web.requests, web.limits) == (TARGET, Amounts(Cores(1.0), Bytes(512 * MIB)))
    assert proxy.requests == Amounts(Cores(0.1), Bytes(128 * MIB))
    (cart,) = door.pod("cart").containers
    assert cart.requests == Amounts(Cores(0.1), Bytes(160 * MIB))


def test_each_patched_pod_gets_one_outcome(door: Door) -> None:
    door.control(Mode.APPLY)
    door.cluster.advance(START + timedelta(minutes=1))
    assert door.outcomes() == []
    assert (door.patcher.poll_once(), door.patcher.poll_once()) == (8, 0)
    outcomes = door.outcomes()
    pods = [pod for pod in door.cluster.pods() if pod.workload == WEB]
    assert {outcome.id for outcome in outcomes} == {f"recommender/0/7/requests/web/patch/{pod.pod.uid}" for pod in pods}
    assert {(o.at, o.action, o.result) for o in outcomes} == {(START, Action.PATCH, Result.DONE)}


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.PLAN])
def test_below_apply_nobody_is_patched(door: Door, mode: Mode) -> None:
    door.control(mode)
    door.cluster.advance(START + timedelta(minutes=1))
    assert door.pod().containers[0].requests == Amounts(Cores(2.0), Bytes(2048 * MIB))
    assert door.patcher.poll_once() == 0


def test_a_pause_holds_from_the_next_pod_on(door: Door) -> None:
    door.control(Mode.APPLY)
    door.cluster.advance(START + timedelta(minutes=1))
    old = door.pod()
    door.control(Mode.APPLY, paused=True)
    door.cluster.evict(old.pod)
    door.cluster.advance(START + timedelta(minutes=2))
    new = [pod for pod in door.cluster.pods() if pod.workload == WEB and pod.created > old.created]
    assert [pod.containers[0].requests.cpu for pod in new] == [2.0]


def test_while_the_log_is_away_it_answers_from_what_it_knows_and_keeps_the_outcomes(door: Door) -> None:
    door.control(Mode.APPLY)
    door.patcher.admit(demo_pod(door))
    door.log.away = True
    door.cluster.advance(START + timedelta(minutes=1))
    assert door.pod().containers[0].requests == TARGET
    door.log.away = False
    assert door.patcher.poll_once() == 9


def demo_pod(door: Door) -> Pod:
    """A web pod as its deployment would make it."""
    unpatched = demo_cluster(9, start=START)
    unpatched.advance(START + timedelta(minutes=1))
    assert door.known
    return next(pod for pod in unpatched.pods() if pod.workload == WEB)


def test_a_pod_that_already_asks_for_the_target_is_left_alone(door: Door) -> None:
    door.control(Mode.APPLY)
    asks = Amounts(Cores(2.0), Bytes(2048 * MIB))
    same = ContainerRecommendation("web", asks, asks, asks, asks)
    door.known[WEB.key] = RequestsRecommended("recommender/0/8/requests/web", START, WEB, (same,), {})
    door.cluster.advance(START + timedelta(minutes=1))
    assert door.patcher.poll_once() == 0


def test_a_recommendation_for_cpu_alone_that_the_pod_meets_leaves_it_alone(door: Door) -> None:
    door.control(Mode.APPLY)
    cpu = Amounts(cpu=Cores(2.0))
    half = ContainerRecommendation("web", cpu, cpu, cpu, cpu)
    door.known[WEB.key] = RequestsRecommended("recommender/0/8/requests/web", START, WEB, (half,), {})
    door.cluster.advance(START + timedelta(minutes=1))
    assert door.patcher.poll_once() == 0
    assert door.pod().containers[0].requests == Amounts(Cores(2.0), Bytes(2048 * MIB))


def test_a_pod_admitted_while_outcomes_are_appended_keeps_its_outcome(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patcher, "_MOST_UNPUBLISHED", 2)
    door.control(Mode.APPLY)
    pods = [replace(demo_pod(door), pod=PodName("shop", f"web-{n}", f"uid-{n}")) for n in "abc"]

    class BusyLog(AwayLog):
        def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
            if pods:
                door.patcher.admit(pods.pop())
            return door.log.append(records)

    door.patcher.admit(pods.pop(0))
    door.patcher.admit(pods.pop(0))
    busy = replace(door.context, log=BusyLog())
    monkeypatch.setattr(door.patcher, "_context", busy)
    assert [door.patcher.poll_once(), door.patcher.poll_once()] == [2, 1]
    assert [outcome.subject.uid for outcome in door.outcomes()] == ["uid-a", "uid-b", "uid-c"]
    assert door.patcher.dropped == 1
