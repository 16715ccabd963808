"""A scene for consumers: the simulated cluster at two in the morning, a log in memory, and decisions to put into it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import Pod
from streams.codec.event_codec import Codec
from streams.consumers.executing.handler import ActPermit
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.simulated.api_server import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.attested_plans import with_attestations
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
SMALL = {"metrics": Amounts(Cores(0.3), Bytes(600 * MIB))}


class CountingClient(SimulatedClient):
    """The simulated cluster, with every act counted."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        super().__init__(simulated)
        self.acts: list[str] = []

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        self.acts.append(f"resize {pod.pod.name}")
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
class ConsumerScene:
    """A cluster at two in the morning, a log with a tick of that time, and mode apply."""

    log: BreakingLog
    topics: Topics
    codec: Codec
    cluster: SimulatedCluster
    client: CountingClient

    @property
    def context(self) -> LogContext:
        return LogContext(self.log, self.topics, self.codec, "demo")

    def tick(self, at: datetime) -> None:
        number = int(at.timestamp() * 1000)
        ticks.append(self.log, self.topics, number)

    def settle(self) -> None:
        """A minute goes by in the cluster and in the log: the kubelet does what it was asked to do."""
        self.cluster.advance(self.cluster.now + timedelta(minutes=1))
        self.tick(self.cluster.now)

    def control(self, mode: Mode = Mode.APPLY, *, paused: bool = False, reason: str = "") -> None:
        event = ControlChanged(START, "demo", mode, paused=paused, reason=reason)
        self.log.append(
            self.codec.encode(event, topic="control", key="demo", partition=p, source="/test")
            for p in range(self.topics.partitions)
        )

    def plan(self, decision: ResizePlanned | EvictionPlanned | UpdateRefused) -> None:
        partition = self.topics.partition_of("demo")
        record = self.codec.encode(decision, topic="pod-updates", key="demo", partition=partition, source="/test")
        self.log.append(with_attestations([record], self.topics))

    def records(self, topic: str) -> list[Record]:
        wire = self.topics.wire(topic)
        return [r for p in range(self.topics.partitions) for r in self.log.poll({(wire, p): 0})]

    def outcomes(self) -> list[ActionFinished]:
        events = [self.codec.decode(record) for record in self.records("outcomes")]
        return [event for event in events if isinstance(event, ActionFinished)]

    def pod(self, workload: str = "metrics") -> Pod:
        return next(p for p in self.client.pods() if p.workload.name == workload and all(c.ready for c in p.containers))


def scene_at_two() -> ConsumerScene:
    """Mode apply, and a tick of two o'clock."""
    topics, log, cluster = Topics(partitions=2), BreakingLog(), demo_cluster(3, start=START + timedelta(hours=1, minutes=50))
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    cluster.advance(START + timedelta(hours=2))
    scene = ConsumerScene(log, topics, Codec(topics), cluster, CountingClient(cluster))
    scene.control()
    scene.tick(cluster.now)
    return scene


def resize_of(pod: Pod, key: str = "x") -> ResizePlanned:
    return ResizePlanned(
        id=f"updater/0/1/resize/{key}",
        at=START + timedelta(hours=2),
        expires=START + timedelta(hours=2, minutes=10),
        workload=pod.workload,
        pod=pod.pod,
        requests=SMALL,
        limits={},
        expect={c.name: c.requests for c in pod.containers},
        because={},
    )


def eviction_of(pod: Pod, key: str = "x") -> EvictionPlanned:
    return EvictionPlanned(
        id=f"updater/0/1/evict/{key}",
        at=START + timedelta(hours=2),
        expires=START + timedelta(hours=2, minutes=10),
        workload=pod.workload,
        pod=pod.pod,
        expect={c.name: c.requests for c in pod.containers},
        because={},
    )


def open_permit() -> ActPermit:
    """The permit of an executor that has just looked at the log."""
    permit = ActPermit()
    permit.open()
    return permit
