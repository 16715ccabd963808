"""EffectiveHorizontalPodAutoscaler and TimeSeriesPrediction objects of Crane's API as policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import KeyedObjectEvent
from schemas.policies.control import Author
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    HpaBehavior,
    MetricSpec,
    PredictionOptions,
    ScaleStrategy,
    UtilizationMetric,
)
from schemas.policies.vpa import TargetRef

EHPA_KIND = "EffectiveHorizontalPodAutoscaler"


def ehpa_key(cluster: str, namespace: str, name: str) -> str:
    """The record key of an EHPA, which no object of another kind has."""
    return f"{cluster}/{namespace}/{EHPA_KIND}/{name}"


@dataclass(frozen=True, slots=True)
class EhpaChanged(KeyedObjectEvent):
    """An EHPA was made or changed: all of its spec, its labels and those annotations that people write."""

    KIND = EHPA_KIND
    created: datetime
    target_ref: TargetRef | None = None
    max_replicas: int | None = None
    min_replicas: int | None = None
    strategy: ScaleStrategy = ScaleStrategy.AUTO
    specific_replicas: int | None = None
    metrics: tuple[MetricSpec, ...] = ()
    crons: tuple[CronTrigger, ...] = ()
    behavior: HpaBehavior | None = None
    prediction: PredictionOptions | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    # A sentence that says why the object cannot be carried out; the event then only has the fields that could be read. Empty if
    # it can.
    unsupported: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    # Those that the cluster's prometheus-adapter rules give for its metrics, by identifier; annotations take precedence.
    queries: Mapping[str, str] = field(default_factory=dict)
    by: Author | None = None
    """Who changed its spec last; None where the object does not say."""

    @property
    def target(self) -> str:
        """The key of the workload that it scales; empty where it names none."""
        ref = self.target_ref
        return "" if ref is None else f"{self.cluster}/{self.namespace}/{ref.kind}/{ref.name}"

    @property
    def scaled_by(self) -> tuple[str, ...]:
        """The resources that it scales its target by, such as `cpu`; none if it scales by other metrics or is a preview."""
        if self.unsupported or self.strategy is not ScaleStrategy.AUTO:
            return ()
        names = {metric.name for metric in self.metrics if metric.type in ("Resource", "ContainerResource")}
        # Kubernetes gives an HPA without metrics one for CPU.
        return tuple(sorted(names)) if self.metrics else ("cpu",)

    @property
    def utilizations(self) -> tuple[UtilizationMetric, ...]:
        """The shares of requests among what it scales its target by."""
        if not self.scaled_by:
            return ()
        shares = [share for metric in self.metrics if (share := metric.utilization) is not None]
        return tuple(dict.fromkeys(shares)) if self.metrics else (UtilizationMetric("cpu"),)

    @property
    def claims(self) -> str:
        """The key of the workload that it would scale; empty for one that nobody can carry out, which keeps no other from it."""
        return "" if self.unsupported else self.target

    @property
    def rank(self) -> tuple[float, str]:
        """If several EHPAs claim a workload, the one with the lowest rank scales it: the oldest, then by name."""
        return self.created.timestamp(), self.name


@dataclass(frozen=True, slots=True)
class EhpaRemoved(KeyedObjectEvent):
    """An EHPA is gone."""

    KIND = EHPA_KIND


TSP_KIND = "TimeSeriesPrediction"


def tsp_key(cluster: str, namespace: str, name: str) -> str:
    """The record key of a TimeSeriesPrediction, which no object of another kind has."""
    return f"{cluster}/{namespace}/{TSP_KIND}/{name}"


@dataclass(frozen=True, slots=True)
class PredictionMetric:
    """One metric to forecast. `type` says which of `resource`, `expression` and `metric_name` counts."""

    identifier: str
    type: str = ""
    resource: str = ""
    expression: str = ""
    metric_name: str = ""
    algorithm: AlgorithmOptions | None = None


@dataclass(frozen=True, slots=True)
class TimeSeriesPredictionChanged(KeyedObjectEvent):
    """A TimeSeriesPrediction was made or changed: all of its spec."""

    KIND = TSP_KIND
    created: datetime
    target_ref: TargetRef | None = None
    target_namespace: str = ""
    window_seconds: int | None = None
    metrics: tuple[PredictionMetric, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    # Of the EHPA it was generated from, empty for one that stands alone.
    owner_uid: str = ""
    # A sentence that says why the object cannot be carried out; empty if it can.
    unsupported: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    by: Author | None = None
    """Who changed its spec last; None where the object does not say."""

    @property
    def target(self) -> str:
        """The key of its target; empty where it names none."""
        ref = self.target_ref
        return "" if ref is None else f"{self.cluster}/{self.target_namespace or self.namespace}/{ref.kind}/{ref.name}"

    @property
    def rank(self) -> tuple[float, str]:
        """Where a namespace has more of these than are looked at, those with the lowest rank are: the oldest, then by name."""
        return self.created.timestamp(), self.name


@dataclass(frozen=True, slots=True)
class TimeSeriesPredictionRemoved(KeyedObjectEvent):
    """A TimeSeriesPrediction is gone."""

    KIND = TSP_KIND
