"""Facts about which resources HorizontalPodAutoscalers scale by, so that nobody else changes what their metrics are shares of."""

from dataclasses import dataclass
from datetime import datetime

from schemas.policies.scaling import UtilizationMetric


@dataclass(frozen=True, slots=True)
class HpaTargetChanged:
    """An HPA scales the object `kind`/`target` of its namespace by these resources, such as `cpu`; none for other metrics.

    `utilizations`: the metrics among them that are shares of requests, which move when requests change.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    kind: str
    target: str
    resources: tuple[str, ...] = ()
    utilizations: tuple[UtilizationMetric, ...] = ()

    @property
    def key(self) -> str:
        """`cluster/namespace/HorizontalPodAutoscaler/name`, the record key among policies."""
        return f"{self.cluster}/{self.namespace}/HorizontalPodAutoscaler/{self.name}"

    @property
    def workload(self) -> str:
        """The key of what it scales."""
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.target}"


@dataclass(frozen=True, slots=True)
class HpaTargetRemoved:
    """An HPA is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/namespace/HorizontalPodAutoscaler/name`, the record key among policies."""
        return f"{self.cluster}/{self.namespace}/HorizontalPodAutoscaler/{self.name}"
