"""TimeSeriesPrediction objects of Crane's API as policies: which metrics somebody wants forecast."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.policies.authors import Author
from schemas.policies.scaling import AlgorithmOptions
from schemas.policies.vpa import TargetRef

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
class TimeSeriesPredictionChanged:
    """A TimeSeriesPrediction was made or changed: all of its spec.

    `owner_uid` is that of the EHPA it was generated from, empty for one that stands alone. `unsupported` is a sentence that says
    why the object cannot be carried out; empty if it can.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    created: datetime
    target_ref: TargetRef | None = None
    target_namespace: str = ""
    window_seconds: int | None = None
    metrics: tuple[PredictionMetric, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = ""
    unsupported: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    by: Author | None = None
    """Who changed its spec last; None where the object does not say."""

    @property
    def key(self) -> str:
        """The record key."""
        return tsp_key(self.cluster, self.namespace, self.name)

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
class TimeSeriesPredictionRemoved:
    """A TimeSeriesPrediction is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """The record key."""
        return tsp_key(self.cluster, self.namespace, self.name)
