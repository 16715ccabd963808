"""A small pipeline for the tests of task, runner and drivers: two stages whose every sum a reader can do in the head.

`adder` sums a workload's cores and, in each turn that brings samples, recommends the sum as CPU (memory: the highest seen).
`evictor` plans one eviction for each recommendation it gets. It is not the real pipeline and borrows nothing from it.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agents.engine.stage import Stage
from agents.engine.turn import Decided, Turn
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.ids import DecisionId
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.topics import TOPICS, Topics
from tests.support import ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
WEB = Workload("demo", "shop", "Deployment", "web")
TILL = Workload("demo", "shop", "Deployment", "till")
"""In another partition than WEB, of 2 and of 4."""


class AdderState:
    """Sum of cores, highest memory and number of samples by workload."""

    def __init__(self, partition: int, factor: float) -> None:
        self.partition, self.factor = partition, factor
        self.sums: dict[str, list[float]] = {}
        self.dirty: set[str] = set()

    def step(self, turn: Turn) -> Sequence[Decided]:
        causes: dict[str, list[object]] = {}
        for recorded in turn.of("pod-metrics"):
            assert isinstance(recorded.event, MetricsScraped)
            event = recorded.event
            for workload, cores, memory in zip(event.workloads, event.cores, event.memory, strict=True):
                row = self.sums.setdefault(workload, [0.0, 0.0, 0])
                row[0], row[1], row[2] = row[0] + float(cores), max(row[1], float(memory)), row[2] + 1
                causes.setdefault(workload, []).append(recorded.place)
                self.dirty.add(workload)
        decided = []
        for key in sorted(causes):
            event = self._recommend(turn, key)
            cause = tuple(dict.fromkeys(causes[key]))
            decided.append(Decided("recommendations", key, event, cause))
            decided.append(Decided("recommendations-by-cluster", event.workload.cluster, event, cause))
        return decided

    def _recommend(self, turn: Turn, key: str) -> RequestsRecommended:
        cores, memory, samples = self.sums[key]
        target = Amounts(Cores(cores * self.factor), Bytes(int(memory)))
        return RequestsRecommended(
            str(DecisionId("adder", self.partition, turn.number, "recommended", key)),
            turn.at,
            Workload.parse(key),
            (ContainerRecommendation("main", target, target, target, target),),
            {"samples": samples, "factor": self.factor},
        )

    def chunks(self) -> Sequence[str]:
        return list(self.sums)

    def take_dirty(self) -> set[str]:
        dirty, self.dirty = self.dirty, set()
        return dirty

    def dump(self, chunk: str) -> bytes:
        return json.dumps(self.sums[chunk]).encode()

    def load(self, chunk: str, data: bytes) -> None:
        self.sums[chunk] = json.loads(data)


class EvictorState:
    """Counts the recommendations it answered."""

    def __init__(self, partition: int) -> None:
        self.partition, self.count = partition, 0

    def step(self, turn: Turn) -> Sequence[Decided]:
        decided = []
        for recorded in turn.of("recommendations-by-cluster"):
            event = recorded.event
            assert isinstance(event, RequestsRecommended)
            self.count += 1
            plan = EvictionPlanned(
                str(DecisionId("evictor", self.partition, turn.number, "evict", event.workload.key)),
                turn.at,
                turn.at + timedelta(minutes=5),
                event.workload,
                PodName(event.workload.namespace, f"{event.workload.name}-0", f"uid-{event.workload.name}"),
                {},
                {"count": self.count},
                event.id,
            )
            decided.append(Decided("pod-updates", event.workload.cluster, plan, (recorded.place,)))
        return decided

    def chunks(self) -> Sequence[str]:
        return ["count"]

    def take_dirty(self) -> set[str]:
        return {"count"}

    def dump(self, chunk: str) -> bytes:
        assert chunk == "count"
        return str(self.count).encode()

    def load(self, chunk: str, data: bytes) -> None:
        assert chunk == "count"
        self.count = int(data)


def refuse(event: Event) -> str | None:
    if isinstance(event, ContainerOOMKilled) and event.restarts > 1000:
        return f"{event.restarts} restarts cannot be"
    return None


def stages(factor: float = 1.0) -> tuple[Stage, Stage]:
    adder = Stage(
        "adder",
        ("oom-events", "pod-metrics"),
        ("recommendations", "recommendations-by-cluster"),
        lambda partition: AdderState(partition, factor),
        refuse,
    )
    evictor = Stage("evictor", ("recommendations-by-cluster", "outcomes"), ("pod-updates",), EvictorState)
    return adder, evictor


def scrape(minute: int, rows: Sequence[tuple[Workload, float, float]]) -> MetricsScraped:
    """Rows are (workload, cores, bytes), each of one pod `<name>-0` with a container `main`."""
    return MetricsScraped(
        START + timedelta(minutes=minute),
        "demo",
        tuple(w.key for w, _, _ in rows),
        tuple(f"{w.name}-0" for w, _, _ in rows),
        tuple("main" for _ in rows),
        [Cores(c) for _, c, _ in rows],
        [Bytes(int(m)) for _, _, m in rows],
    )


class PipelineLog:
    """A log in memory with all topics, and short ways to put facts and ticks into it."""

    def __init__(self, partitions: int = 2, topics: Topics | None = None) -> None:
        self.topics = topics or Topics(partitions=partitions)
        self.codec = Codec(self.topics)
        self.log = MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)

    def metrics(self, minute: int, *rows: tuple[Workload, float, float]) -> list[NewRecord]:
        """One record for each row, in the workload's partition."""
        return [
            self.codec.encode(
                scrape(minute, [row]),
                topic="pod-metrics",
                key=row[0].key,
                partition=self.topics.partition_of(row[0].key),
                source="/ullage/source/test",
            )
            for row in rows
        ]

    def oom(self, minute: int, workload: Workload, restarts: int) -> NewRecord:
        pod = PodName(workload.namespace, f"{workload.name}-0", "u1")
        event = ContainerOOMKilled(START + timedelta(minutes=minute), workload, pod, "main", restarts, None, None)
        partition = self.topics.partition_of(workload.key)
        return self.codec.encode(event, topic="oom-events", key=workload.key, partition=partition, source="/ullage/source/test")

    def seen(self, minute: int, workload: Workload, cores: float, memory: int, limit: int | None = None) -> list[NewRecord]:
        """The pod `<name>-0` of a workload as its spec stands, in both topics."""
        spec = ContainerSeen("main", Amounts(Cores(cores), Bytes(memory)), Amounts(None, None if limit is None else Bytes(limit)))
        at = START + timedelta(minutes=minute)
        event = PodChanged(at, workload, self.pod(workload), PodPhase.RUNNING, START, (spec,))
        return self.pod_fact(event)

    def deleted(self, minute: int, workload: Workload) -> list[NewRecord]:
        """The pod `<name>-0` of a workload is gone."""
        return self.pod_fact(PodDeleted(START + timedelta(minutes=minute), workload, self.pod(workload)))

    def pod(self, workload: Workload) -> PodName:
        return PodName(workload.namespace, f"{workload.name}-0", f"uid-{workload.name}")

    def pod_fact(self, event: PodChanged | PodDeleted) -> list[NewRecord]:
        keys = {"pod-changes": event.workload.key, "pod-changes-by-cluster": event.workload.cluster}
        return [
            self.codec.encode(event, topic=topic, key=key, partition=self.topics.partition_of(key), source="/ullage/source/test")
            for topic, key in keys.items()
        ]

    def tick(self, minute: int) -> None:
        """Append the tick of a minute."""
        ticks.append(self.log, self.topics, START_MS + minute * 60_000)

    def all_records(self, short: str) -> list[Record]:
        wire = self.topics.wire(short)
        return [r for p in range(self.topics.partitions) for r in self.log.poll({(wire, p): 0}, limit=1_000_000)]
