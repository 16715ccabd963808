"""Consumers that are killed at any moment: every decision ends with one outcome, and no pod is acted on twice."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Cores
from streams.clients.cluster_port import Pod
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.consumers.executing.executor import Executor
from streams.consumers.resizer import resizer
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.simulated.api_server import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.attested_plans import with_attestations
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
TOPICS_2 = Topics(partitions=2)
CODEC = Codec(TOPICS_2)
HOME = TOPICS_2.partition_of("demo")


class Killed(BaseException):
    """The process ends here."""


class Fate:
    """Lets a process live for so many dangerous moments, then kills it; after the last kill it lives for good."""

    def __init__(self, lives: list[int]) -> None:
        self.lives = list(lives)
        self.kills = 0

    def danger(self) -> None:
        if not self.lives:
            return
        self.lives[0] -= 1
        if self.lives[0] < 0:
            self.lives.pop(0)
            self.kills += 1
            raise Killed


class FatefulLog(MemoryLog):
    """Appending outcomes is dangerous before and after."""

    fate: Fate | None = None

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        if self.fate is None:
            return super().append(records)
        self.fate.danger()
        places = super().append(records)
        self.fate.danger()
        return places


class FatefulClient(SimulatedClient):
    """Acting is dangerous before and after; what the cluster accepted is noted."""

    def __init__(self, simulated: SimulatedCluster, fate: Fate) -> None:
        super().__init__(simulated)
        self.simulated, self.fate, self.accepted = simulated, fate, list[str]()

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        self.fate.danger()
        super().resize(pod, requests=requests, limits=limits)
        self.accepted.append(pod.pod.uid)
        self.fate.danger()

    def evict(self, pod: PodName) -> None:
        self.fate.danger()
        super().evict(pod)
        self.accepted.append(pod.uid)
        self.fate.danger()


def decision(number: int, verb: str, pod: Pod, at: datetime) -> ResizePlanned | EvictionPlanned:
    identifier, expires = f"updater/0/{number}/{verb}/x", at + timedelta(minutes=5)
    expect = {c.name: c.requests for c in pod.containers}
    if verb == "evict":
        return EvictionPlanned(identifier, at, expires, pod.workload, pod.pod, expect, {})
    requests = {pod.containers[0].name: Amounts(cpu=Cores(0.05))}
    return ResizePlanned(identifier, at, expires, pod.workload, pod.pod, requests, {}, expect, {})


def new_log() -> FatefulLog:
    log = FatefulLog()
    for topic in TOPICS:
        log.create(TOPICS_2.wire(topic.name), 2)
    return log


PLANS = st.lists(st.tuples(st.sampled_from(["resize", "evict"]), st.integers(0, 35), st.booleans()), min_size=1, max_size=8)


@given(PLANS, st.lists(st.integers(0, 12), max_size=10))
def test_every_decision_ends_with_one_outcome_and_no_pod_is_acted_on_twice(
    plans: list[tuple[str, int, bool]], lives: list[int]
) -> None:
    log, cluster, fate = new_log(), demo_cluster(1, start=START), Fate(lives)
    cluster.advance(START + timedelta(minutes=2))
    client, context = FatefulClient(cluster, fate), LogContext(log, TOPICS_2, CODEC, "demo")
    at, pods = cluster.now, cluster.pods()
    control = ControlChanged(START, "demo", Mode.APPLY)
    log.append([CODEC.encode(control, topic="control", key="demo", partition=HOME, source="/test")])
    ticks.append(log, TOPICS_2, int(at.timestamp() * 1000))
    chosen = {which: verb for verb, which, _ in plans}
    decisions = [decision(which, verb, pods[which], at) for which, verb in chosen.items()]
    for planned, (_, _, repeated) in zip(decisions, plans, strict=False):
        record = CODEC.encode(planned, topic="pod-updates", key="demo", partition=HOME, source="/test")
        log.append(with_attestations([record] * (2 if repeated else 1), TOPICS_2))
    log.fate = fate
    live_on(context, client, log, at)
    outcomes = [CODEC.decode(r) for r in log.poll({(TOPICS_2.wire("outcomes"), HOME): 0})]
    finished = [o for o in outcomes if isinstance(o, ActionFinished)]
    assert sorted(o.decision for o in finished) == sorted(planned.id for planned in decisions)
    assert len(client.accepted) == len(set(client.accepted))
    done = {o.subject.uid for o in finished if o.result is Result.DONE}
    assert set(client.accepted) == done


def live_on(context: LogContext, client: FatefulClient, log: FatefulLog, at: datetime) -> None:
    """Both consumers, restarted after each kill, while ticks go on until every decision has expired."""
    makers = (resizer, evictor)
    alive: list[Executor] = [make(context, client) for make in makers]
    for step in range(40):
        for i, make in enumerate(makers):
            try:
                alive[i].poll_once()
            except Killed:
                alive[i] = make(context, client)
        now = at + step * timedelta(seconds=10)
        fate, log.fate = log.fate, None
        client.simulated.advance(now)
        ticks.append(log, context.topics, int(now.timestamp() * 1000))
        log.fate = fate
