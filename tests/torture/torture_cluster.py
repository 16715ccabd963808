"""A simulated cluster that lives through the torture, with consumers of its own, and remembers what they did to it.

It stands in the driver's process behind HTTP, follows the log's ticks and publishes its facts; its consumers are a process that
gets killed, also between an act and its outcome. Its load swings within minutes, so that there is always something to do. The
pods of one namespace are only ever evicted. Two instances of its consumers share a Lease. New pods are reviewed by the webhook of
one of them; one that does not answer within a second is passed over, as `failurePolicy: Ignore` has it.
"""

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from agents.logic.vertical.vertical_settings import ADAPTIVE
from agents.processes.simulated_cluster import SimulatedConstraints
from agents.processes.source_simulated import SimulationLoop
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.outcomes import Action, ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.simulated.api_server import SimulatedClient, SimulatedServer
from streams.simulated.cluster_spec import (
    MIB,
    ContainerTemplate,
    Load,
    LoadMoment,
    Shape,
    SimulatedDeployment,
    SimulatedNode,
    amounts,
)
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import Topics
from tests.torture import cluster_verdict, kafka_topics
from tests.torture.fast_pipeline_settings import UPDATES
from tests.torture.judge import ConsumerHistory, Pause
from tests.torture.lease_server import LeaseServer
from tests.torture.recording_cluster import RecordingCluster
from tests.torture.review_service import ReviewService

SWING = 300.0
"""Seconds of event time in which the load of a deployment rises and falls once."""
NODES = tuple(SimulatedNode(f"node-{i}", Cores(64.0), Bytes(256 << 30)) for i in range(1, 5))
INSTANCES = 2
"""Instances of the consumers, at most."""
SCRAPES = timedelta(seconds=15)
FRESH = timedelta(seconds=150)
"""Event time that a plan must still hold to count as one that could be carried out."""
DELETED = 40
"""Seconds of event time between two pods that are deleted where consumers are wrong on purpose."""
NEEDED = Bytes(400 << 20)
LOOPS = "loops"
"""The namespace whose pods need `NEEDED` at each start, and have less."""
EVICTED = "recreate"
"""The namespace whose pods are evicted and never resized."""
ADAPTIVE_TARGET = "{}/resize/Deployment/d1*"
"""The Deployments of a cluster, near half of those that are resized, for which `adaptive` decides."""


def swinging(cores: float, mib: float, phase: float) -> Shape:
    """Between a third of so much and all of it."""

    def shape(moment: LoadMoment) -> Load:
        share = (2 + math.sin(2 * math.pi * (moment.time / SWING + phase))) / 3
        return Load(Cores(cores * share), Bytes(int(mib * share * MIB)))

    return shape


def deployments(count: int) -> tuple[SimulatedDeployment, ...]:
    """Every third is evicted. Four pods each; no limits, so nothing is throttled or killed."""
    return tuple(
        SimulatedDeployment(
            EVICTED if n % 3 == 0 else "resize",
            f"d{n}",
            4,
            (ContainerTemplate("main", swinging(0.5 + 0.2 * (n % 6), 400 + 100 * (n % 6), n / count), amounts(0.1, 128)),),
        )
        for n in range(count)
    )


def looping() -> SimulatedDeployment:
    """Two pods that are OOM-killed at each start until their limit has been raised to what they need."""
    needs = ContainerTemplate("main", lambda _: Load(Cores(0.2), NEEDED), amounts(0.1, 128), amounts(None, 256))
    return SimulatedDeployment(LOOPS, "looping", 2, (needs,))


def still_looping(cluster: RecordingCluster) -> Iterator[str]:
    """The pods of that deployment whose loop of kills has not ended."""
    for pod in list(cluster.pods_by_name.values()):
        limits = [container.limits.memory for container in pod.containers]
        if pod.name.namespace == LOOPS and any(limit is not None and limit < NEEDED for limit in limits):
            yield f"{pod.name.name} needs {NEEDED} bytes at each start, and may have {limits}"


def policies(cluster: str, at: datetime, *, off: bool = False) -> list[VerticalPolicyChanged]:
    """What allows changes of all pods, and of some by eviction alone; or, when `off`, of none."""
    modes = {f"{cluster}/*": UpdateMode.IN_PLACE_OR_RECREATE, f"{cluster}/{EVICTED}/*": UpdateMode.RECREATE}
    modes[ADAPTIVE_TARGET.format(cluster)] = UpdateMode.IN_PLACE_OR_RECREATE
    decides = {ADAPTIVE_TARGET.format(cluster): (ContainerPolicy(policy=ADAPTIVE),)}
    return [
        VerticalPolicyChanged(at, target, "v1", UpdateMode.OFF if off else mode, decides.get(target, ()))
        for target, mode in modes.items()
    ]


def allowed(cluster: str, at: datetime, *, paused: bool) -> ControlChanged:
    """Mode apply, with or without a pause."""
    return ControlChanged(at, cluster, Mode.APPLY, paused=paused, budget=Fraction(0.5))


@dataclass
class TortureCluster:
    """The cluster at work, between `open` and `close`. `mutant` is what is wrong with its consumers on purpose."""

    name: str
    brokers: str
    topics: Topics
    start_ms: int
    size: int = 6
    mutant: str = ""
    history: ConsumerHistory = field(default_factory=ConsumerHistory)

    def __post_init__(self) -> None:
        self._planned: set[str] = set()
        self._finished: set[str] = set()
        partition = self.topics.partition_of(self.name)
        self._next = {(self.topics.wire(name), partition): 0 for name in ("pod-updates", "outcomes")}
        self.start = datetime.fromtimestamp(self.start_ms / 1000, UTC)
        self.codec = Codec(self.topics)
        self.log, self.operator = (KafkaLog(KafkaConnection(self.brokers)) for _ in range(2))
        self.leases, self._webhooks = LeaseServer(), free_ports(INSTANCES)
        load = (*deployments(self.size), looping())
        self.cluster = RecordingCluster(name=self.name, seed=1, start=self.start, nodes=NODES, deployments=load)
        self.cluster.most_missing = UPDATES.eviction_tolerance
        self.cluster.reviewed_by(ReviewService(self._webhooks))
        if self.mutant:
            # Once a webhook gives nothing, nobody is evicted for 20 minutes, and so it would be asked too seldom to be found.
            self.cluster.deletes = DELETED
        self.server = SimulatedServer(self.cluster)
        self.stop = threading.Event()
        context = LogContext(self.log, self.topics, Codec(self.topics), self.name)
        poller = SimulatedClusterPoller(SimulatedClient(self.cluster), context)
        constraints = SimulatedConstraints(self.cluster, context)

        def scrape(at: datetime) -> None:
            # How many pods are wanted comes with the pods, as a source tells it: else those that never came are not missing.
            constraints.publish(at)
            poller.scrape(at)

        loop = SimulationLoop(self.cluster, self.log, self.topics, scrape, period=SCRAPES)
        self.thread = threading.Thread(target=loop.run, args=(self.stop,), daemon=True)

    def told(self, instance: int) -> dict[str, object]:
        """What an instance of the consumers is to know."""
        return {
            "cluster": self.name, "url": self.server.url, "leases": self.leases.url, "identity": f"{instance}-",
            "webhook": self._webhooks[instance], "mutant": self.mutant,
        }  # fmt: skip

    def holder(self) -> int | None:
        """Which instance of the resizer has its Lease."""
        identity = self.leases.holder(f"ullage-{Action.RESIZE.value}")
        return int(identity.partition("-")[0]) if identity else None

    def open(self) -> None:
        """Allow changes, and live."""
        self._set_policies()
        self.control(paused=False)
        self.server.__enter__()
        self.leases.open()
        self.thread.start()

    def plan_no_more(self) -> None:
        """From here on nothing is planned; what is planned already is carried out."""
        self.history.off_since = time.time()
        self._set_policies(off=True)

    def _set_policies(self, *, off: bool = False) -> None:
        for policy in policies(self.name, self.start, off=off):
            self._publish("rules", policy.target, policy)

    def control(self, *, paused: bool) -> None:
        """Switch the pause on or off; returns when it is in the log."""
        self._publish("control", self.name, allowed(self.name, self.start, paused=paused))

    def pause(self) -> None:
        """Write a pause, which holds until `resume`."""
        self.control(paused=True)
        self.history.pauses.append(Pause(time.time(), math.inf))

    def resume(self) -> None:
        """Lift the pause."""
        self.history.pauses[-1].end = time.time()
        self.control(paused=False)

    def planned(self) -> int:
        """How many plans the log holds for this cluster that were not nearly void when they were read, as far as it goes now."""
        self._read_on()
        return len(self._planned)

    def finished(self) -> int:
        """How many of its plans have outcomes, as far as the log goes now."""
        self._read_on()
        return len(self._finished)

    def _read_on(self) -> None:
        with contextlib.suppress(LogUnavailable):
            for record in self.operator.poll(dict(self._next), limit=100_000):
                self._next[record.topic, record.partition] = record.offset + 1
                event = self.codec.decode_or_none(record)
                if isinstance(event, ResizePlanned | EvictionPlanned) and event.workload.cluster == self.name:
                    self._planned |= {event.id} if event.void_after > self.cluster.now + FRESH else set()
                if isinstance(event, ActionFinished) and event.subject.cluster == self.name and event.action is not Action.PATCH:
                    self._finished.add(event.decision)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(10)
        self.server.__exit__(None, None, None)
        self.leases.close()
        self.log.close()
        self.operator.close()

    def _publish(self, topic: str, key: str, event: object) -> None:
        """To every partition. While the broker is away, again, for a minute; a repeat changes nothing."""
        places = range(self.topics.partitions)
        records = [self.codec.encode(event, topic=topic, key=key, partition=p, source="/ullage/source/t") for p in places]
        until = time.monotonic() + 60
        while True:
            try:
                self.operator.append(records)
            except LogUnavailable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
            else:
                return

    async def judged(self) -> tuple[Counter[str], list[str]]:
        """Figures, and what is wrong."""
        records: list[Record] = []
        for name in cluster_verdict.READ:
            for found in await kafka_topics.whole(self.brokers, self.topics.wire(name), self.topics.partitions):
                records += found
        figures, wrong = cluster_verdict.verdict(self.cluster, records, self.codec, self.history)
        return figures, [*wrong, *still_looping(self.cluster)]
