"""Generated EHPAs, their load, and their targets' scales: what `source kube`, `source usage` and `source load` would publish.

Eight deployments, each with an EHPA and a load that swings with a period of an hour: by requests, or by the CPU of pods that come
and go with the scale. Half of the EHPAs scale directly, half have a generated HPA; these change now and then, and somebody
changes an HPA by hand. Seeded.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.replica_scaling import LoadHistoryRead, LoadScraped, ScaleSeen, series_id
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    DspOptions,
    MetricSpec,
    MetricTarget,
    PredictionOptions,
    ScaleStrategy,
)
from schemas.policies.vpa import TargetRef
from schemas.units import Bytes, Cores, Seconds
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support import ehpa_manifests
from tests.torture.replica_api import NAMESPACE, ReplicaApi

CLUSTER = "replicas"
WINDOW = 600
DIRECT, KEPT = ("d0", "d1", "d2", "d3"), ("h0", "h1", "h2", "h3")
BY_CPU = ("d3", "h3")
CRON = 4
BEGIN = 3
"""Replicas that each deployment asks for at first."""
PERIOD, STEP, DAYS = 3600.0, 300, 7
QUERY = "metric-query.autoscaling.crane.io/pods.http_requests"
RATE = MetricSpec("Pods", "http_requests", MetricTarget("AverageValue", average_value="10"))
CPU = MetricSpec("Resource", "cpu", MetricTarget("AverageValue", average_value="500m"))
PREDICTED = PredictionOptions(WINDOW, AlgorithmOptions("dsp", DspOptions("1m", f"{DAYS}d")))


def identifier(name: str) -> str:
    """The metric by which a deployment is scaled."""
    return "resource.cpu" if name in BY_CPU else "pods.http_requests"


def load_at(name: str, seconds: float) -> float:
    """How many replicas the load is good for."""
    phase = (DIRECT + KEPT).index(name) / 8
    return 6.0 + 4.5 * math.sin(2 * math.pi * (seconds / PERIOD + phase))


def ehpa(name: str, at: datetime) -> EhpaChanged:
    """As it is in the beginning."""
    annotations = {} if name in BY_CPU else {QUERY: f"q-{name}"}
    if name in DIRECT:
        annotations["ullage/scaling"] = "direct"
    return EhpaChanged(
        at, CLUSTER, NAMESPACE, name, at, TargetRef("Deployment", name, "apps/v1"), max_replicas=20, min_replicas=1,
        metrics=(CPU if name in BY_CPU else RATE,), prediction=PREDICTED, annotations=annotations, uid=f"u-{name}", generation=1,
        crons=(CronTrigger("always", "0 0 * * *", "0 0 31 2 *", CRON),) if name == "h0" else (),
    )  # fmt: skip


@dataclass
class ReplicaLoad:
    """Makes the records of one moment after another; the API gets what people write there."""

    topics: Topics
    api: ReplicaApi
    seed: int
    start: datetime
    changes: int = 0
    by_hand: int = 0
    _scales: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, list[PodName]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance, self.codec = random.Random(self.seed), Codec(self.topics)
        self.noise = random.Random(self.seed + 1)
        self.ehpas = {name: ehpa(name, self.start) for name in DIRECT + KEPT}
        self._born = 0

    def begin(self) -> list[NewRecord]:
        """The EHPAs, and that there are their targets."""
        for name in self.ehpas:
            self.api.has(name, BEGIN)
        return [record for one in self.ehpas.values() for record in self._policy(one)]

    def past(self) -> list[NewRecord]:
        """What a metrics store remembers. To be said once the policies are in force."""
        first = self.start - timedelta(days=DAYS)
        return [self._record(event, "load-metrics") for name in self.ehpas for event in self._history(name, first)]

    def at(self, moment: datetime) -> list[NewRecord]:
        """What is seen now."""
        records = [record for name, asked in self.api.replicas().items() for record in self._scaled(name, asked, moment)]
        names = [name for name in self.ehpas if name not in BY_CPU]
        workloads = tuple(_workload(name).key for name in names)
        series = tuple(series_id("pods.http_requests", f"q-{name}") for name in names)
        values = tuple(10 * self._now(name, moment) for name in names)
        records.append(self._record(LoadScraped(moment, CLUSTER, workloads, series, values), "load-metrics"))
        pods = [(name, pod) for name in BY_CPU for pod in self._pods.get(name, ())]
        if pods:
            each = {name: 0.5 * self._now(name, moment) / max(1, len(self._pods[name])) for name in {name for name, _ in pods}}
            columns = tuple(_workload(name).key for name, _ in pods), tuple(pod.name for _, pod in pods), ("app",) * len(pods)
            use = tuple(each[name] for name, _ in pods)
            records.append(self._record(MetricsScraped(moment, CLUSTER, *columns, use, (1e8,) * len(pods)), "pod-metrics"))
        return records

    def people(self, moment: datetime) -> list[NewRecord]:
        """Somebody changes an EHPA, or an HPA by hand."""
        name = self.chance.choice(KEPT)
        if self.chance.random() < 0.4:
            self.by_hand += self.api.meddle(name)
            return []
        before = self.ehpas[name]
        direct = {
            **before.annotations,
            "ullage/scaling": "" if before.annotations.get("ullage/scaling") == "direct" else "direct",
        }
        changed: EhpaChanged = self.chance.choice(
            (
                replace(before, max_replicas=self.chance.randrange(12, 20)),
                replace(
                    before, strategy=ScaleStrategy.AUTO if before.strategy is ScaleStrategy.PREVIEW else ScaleStrategy.PREVIEW
                ),
                replace(before, prediction=PREDICTED if before.prediction is None else None),
                replace(before, annotations=direct),
            )
        )
        self.ehpas[name] = replace(changed, at=moment, generation=before.generation + 1)
        self.changes += 1
        return self._policy(self.ehpas[name])

    def _policy(self, event: EhpaChanged) -> list[NewRecord]:
        """In the API first, as a source sees it there."""
        self.api.put(ehpa_manifests.manifest_of(event))
        return self.codec.encode_for_all(event, topic="policies", key=event.key, source="/ullage/source/torture")

    def _history(self, name: str, first: datetime) -> Iterator[LoadHistoryRead]:
        cpu = name in BY_CPU
        series = series_id(identifier(name), "" if cpu else f"q-{name}")
        times = [first.timestamp() + STEP * n for n in range(DAYS * 86_400 // STEP)]
        values = tuple((0.5 if cpu else 10.0) * load_at(name, at) for at in times)
        yield LoadHistoryRead(self.start, _workload(name), series, first, Seconds(float(STEP)), values)

    def _now(self, name: str, moment: datetime) -> float:
        return max(0.0, load_at(name, moment.timestamp()) * self.noise.gauss(1.0, 0.03))

    def _scaled(self, name: str, asked: int, moment: datetime) -> Iterator[NewRecord]:
        """The scale, when it is another, and the pods that come and go with it."""
        if self._scales.get(name) == asked:
            return
        self._scales[name] = asked
        yield from self._twice(ScaleSeen(moment, _workload(name), asked, asked, f"app={name}"))
        if name not in BY_CPU:
            return
        pods = self._pods.setdefault(name, [])
        while len(pods) < asked:
            self._born += 1
            pods.append(PodName(NAMESPACE, f"{name}-{self._born}", f"uid-{name}-{self._born}"))
            born = moment - timedelta(hours=1)
            app = (ContainerSeen("app", Amounts(Cores(1.0), Bytes(1 << 28)), ready=True),)
            yield from self._twice(PodChanged(born, _workload(name), pods[-1], PodPhase.RUNNING, born, app, started=born))
        while len(pods) > asked:
            yield from self._twice(PodDeleted(moment, _workload(name), pods.pop()))

    def _twice(self, event: Event) -> Iterator[NewRecord]:
        yield self._record(event, "pod-changes")
        yield self._record(event, "pod-changes-by-cluster")

    def _record(self, event: Event, topic: str) -> NewRecord:
        """There is one partition."""
        workload = getattr(event, "workload", None)
        key = CLUSTER if workload is None or topic.endswith("cluster") else workload.key
        return self.codec.encode(event, topic=topic, key=key, partition=0, source="/ullage/source/torture")


def _workload(name: str) -> Workload:
    return Workload(CLUSTER, NAMESPACE, "Deployment", name)


def now(milliseconds: int) -> datetime:
    """The time of events."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
