"""Facts about how workloads are scaled: their HorizontalPodAutoscalers, their scale, and the load that they are scaled by.

The load is of now and of the past. The key of an HPA or a scale is the scaled workload.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from schemas.names import Workload
from schemas.policies.scaling import HpaBehavior, MetricSpec
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds


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

    What its metrics read now is not a fact of its own.
    """

    at: datetime
    workload: Workload  # Its scaleTargetRef's.
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
    # Of the object that it follows from, such as an EHPA; empty where somebody wrote it.
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
    """The scale of a workload that an EHPA scales: replicas asked for, replicas there, and the selector of its pods."""

    at: datetime
    workload: Workload
    replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    # Why no scale can be read, such as that the target does not exist; then the numbers mean nothing.
    reason: str = ""


MOST_ROWS = 10_000
"""Rows of one scrape, and values of one stretch of history."""


def series_id(identifier: str, query: str) -> str:
    """The series that a query gives for a metric: another query is another series. `resource.cpu#1f0c2ad9e3b4`."""
    # The query itself may be thousands of characters, and stands in every row of a scrape.
    return f"{identifier}#{blake2b(query.encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class LoadScraped:
    """One reading of the load of many workloads, as columns of equal length.

    Row i says that the series `series[i]` of workload `workloads[i]` had the value `values[i]`. What could not be read has no
    row.
    """

    at: datetime
    cluster: str
    workloads: tuple[str, ...]
    series: tuple[str, ...]
    values: tuple[float, ...]
    # How long before `at` each row was measured; empty where all were measured then.
    ages: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadHistoryRead:
    """A stretch of one series as a metrics store remembers it: values at `start`, `start + step` and so on, null for none."""

    at: datetime
    workload: Workload
    series: str
    start: datetime
    step: Seconds
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LoadQueryFailed:
    """The query of a series has no usable answer; `reason` says why. It holds until the next row of the series."""

    at: datetime
    workload: Workload
    series: str
    reason: str
