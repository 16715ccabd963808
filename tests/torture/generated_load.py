"""Generated load: pods that come and go, scrapes, OOM kills, policies that change, and bad records now and then. Seeded."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from aiokafka import AIOKafkaProducer

from agents.logic.vertical.vertical_settings import ADAPTIVE
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.units import Bytes, Cores, Fraction
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.torture import faulty_clock

CLUSTERS = ("north", "kiosk", "east")
MB = 1 << 20


@dataclass
class Pod:
    workload: Workload
    name: PodName
    created: datetime
    cores: float
    memory: float


@dataclass
class Load:
    """Makes events of one moment after another; `sent` counts what was made."""

    topics: Topics
    seed: int
    workloads: int = 60
    pods: dict[str, Pod] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance, self.codec = random.Random(self.seed), Codec(self.topics)
        self.names = [Workload(CLUSTERS[i % 3], f"ns{i % 7}", "Deployment", f"w{i}") for i in range(self.workloads)]
        self.uid = 0

    def at(self, moment: datetime) -> list[NewRecord]:
        """What happens now."""
        records: list[NewRecord] = []
        c = self.chance
        if len(self.pods) < 3 * self.workloads or c.random() < 0.2:
            for _ in range(20 if len(self.pods) < 3 * self.workloads else 1):
                records += self._born(moment)
        if c.random() < 0.1 and self.pods:
            records += self._gone(moment)
        for _ in range(c.randrange(3)):
            records += self._oom(moment)
        if c.random() < 0.15:
            records += self._policy(moment)
        if c.random() < 0.03:
            records += self._control(moment)
        if c.random() < 0.02:
            records.append(NewRecord(self.topics.wire("pod-metrics"), c.randrange(self.topics.partitions), b"x", b'{"at": 3'))
        return records + self._scrape(moment)

    def _born(self, moment: datetime) -> list[NewRecord]:
        self.uid += 1
        w = self.chance.choice(self.names)
        name = PodName(w.namespace, f"{w.name}-{self.uid}", f"uid{self.seed}-{self.uid}")
        pod = Pod(w, name, moment - timedelta(hours=13), self.chance.uniform(0.05, 2.0), self.chance.uniform(20, 900) * MB)
        self.pods[name.uid] = pod
        asked = Amounts(Cores(1.0), Bytes(256 * MB))
        event = PodChanged(
            at=moment, workload=w, pod=name, phase=PodPhase.RUNNING, created=pod.created, started=pod.created, node="n1",
            containers=(ContainerSeen("main", requests=asked, ready=True),),
        )  # fmt: skip
        return self._twice(event, w)

    def _gone(self, moment: datetime) -> list[NewRecord]:
        uid = self.chance.choice(sorted(self.pods))
        pod = self.pods.pop(uid)
        return self._twice(PodDeleted(at=moment, workload=pod.workload, pod=pod.name), pod.workload)

    def _oom(self, moment: datetime) -> list[NewRecord]:
        if not self.pods:
            return []
        pod = self.pods[self.chance.choice(sorted(self.pods))]
        event = ContainerOOMKilled(
            at=moment, workload=pod.workload, pod=pod.name, container="main", restarts=self.chance.randrange(9),
            memory_request=Bytes(256 * MB), memory_limit=Bytes(512 * MB),
        )  # fmt: skip
        return [self._record(event, "oom-events", pod.workload.key)]

    def _policy(self, moment: datetime) -> list[NewRecord]:
        target = self.chance.choice(["*", "north/*", "kiosk/*", self.chance.choice(self.names).key])
        if self.chance.random() < 0.2:
            return self._everywhere(VerticalPolicyRemoved(at=moment, target=target), "rules", target)
        mode = self.chance.choice(list(UpdateMode))
        decides = ContainerPolicy(policy=ADAPTIVE if self.chance.random() < 0.5 else None)
        version = f"v{self.chance.randrange(10**6)}"
        return self._everywhere(
            VerticalPolicyChanged(at=moment, target=target, version=version, update_mode=mode, containers=(decides,)),
            "rules",
            target,
        )

    def _control(self, moment: datetime) -> list[NewRecord]:
        cluster = self.chance.choice(CLUSTERS)
        paused = self.chance.random() < 0.2
        event = ControlChanged(
            at=moment, cluster=cluster, mode=Mode.APPLY, paused=paused, budget=Fraction(self.chance.uniform(0.1, 0.5))
        )
        return self._everywhere(event, "control", cluster)

    def _scrape(self, moment: datetime) -> list[NewRecord]:
        rows: dict[int, list[Pod]] = {}
        for pod in self.pods.values():
            rows.setdefault(self.topics.partition_of(pod.workload.key), []).append(pod)
        records = []
        for partition, pods in rows.items():
            noise = np.random.default_rng(self.chance.randrange(1 << 30)).lognormal(0.0, 0.5, (2, len(pods)))
            names = tuple(p.workload.key for p in pods), tuple(p.name.name for p in pods), ("main",) * len(pods)
            cores, memory = np.array([p.cores for p in pods]) * noise[0], np.array([p.memory for p in pods]) * noise[1]
            event = MetricsScraped(moment, "north", *names, cores, memory)
            records.append(self._record(event, "pod-metrics", pods[0].workload.key, partition))
            self.sent["samples"] = self.sent.get("samples", 0) + 2 * len(pods)
        return records

    def _twice(self, event: PodChanged | PodDeleted, w: Workload) -> list[NewRecord]:
        return [self._record(event, "pod-changes", w.key), self._record(event, "pod-changes-by-cluster", w.cluster)]

    def _everywhere(self, event: object, topic: str, key: str) -> list[NewRecord]:
        return [self._record(event, topic, key, p) for p in range(self.topics.partitions)]

    def _record(self, event: object, topic: str, key: str, partition: int | None = None) -> NewRecord:
        self.sent[topic] = self.sent.get(topic, 0) + 1
        to = self.topics.partition_of(key) if partition is None else partition
        return self.codec.encode(event, topic=topic, key=key, partition=to, source="/ullage/source/torture")


async def keep_sending(brokers: str, load: Load, now: "Clock", stop: asyncio.Event, *, every: float) -> None:
    """Send what happens, on average each so many seconds, until told to stop."""
    producer = AIOKafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True, max_request_size=8 << 20)
    await producer.start()
    try:
        while not stop.is_set():
            moment = datetime.fromtimestamp(now() / 1000, UTC)
            sent = [
                await producer.send(r.topic, key=r.key, value=r.value, partition=r.partition, headers=list(r.headers))
                for r in load.at(moment)
            ]
            await asyncio.gather(*sent)
            await asyncio.sleep(load.chance.uniform(0.1 * every, 1.9 * every))
    finally:
        await producer.stop()


class Clock:
    """Milliseconds of simulated time."""

    def __init__(self, epoch: float, speed: float) -> None:
        self.epoch, self.speed = epoch, speed
        self.origin = faulty_clock.event_time(epoch, epoch, speed)

    def __call__(self) -> int:
        return faulty_clock.now(self.epoch, self.speed)
