"""Facts about how workloads are scaled: their HorizontalPodAutoscalers and their scale. The key is the scaled workload."""

from dataclasses import dataclass
from datetime import datetime

from schemas.names import Workload
from schemas.policies.scaling import HpaBehavior, MetricSpec
from schemas.policies.vpa import TargetRef


@dataclass(frozen=True, slots=True)
class HpaCondition:
    """A condition of an HPA's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class HpaSeen:
    """A HorizontalPodAutoscaler was made, changed its spec, or its status says another count or condition.

    `workload` is its scaleTargetRef's. What its metrics read now is not a fact of its own. `owner_uid` is the uid of the object
    that it follows from, such as an EHPA; empty where somebody wrote it.
    """

    at: datetime
    workload: Workload
    namespace: str
    name: str
    created: datetime
    target_ref: TargetRef
    max_replicas: int
    min_replicas: int | None = None
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HpaBehavior | None = None
    current: int = 0
    desired: int = 0
    last_scale: datetime | None = None
    conditions: tuple[HpaCondition, ...] = ()
    owner_uid: str = ""
    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class HpaGone:
    """A HorizontalPodAutoscaler is gone, or scales another workload now."""

    at: datetime
    workload: Workload
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ScaleSeen:
    """The scale of a workload that an EHPA scales: replicas asked for, replicas there, and the selector of its pods.

    `reason` says why no scale can be read, such as that the target does not exist; then the numbers mean nothing.
    """

    at: datetime
    workload: Workload
    replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    reason: str = ""
