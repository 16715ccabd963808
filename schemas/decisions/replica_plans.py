"""The decisions what the load of a workload will be, how many replicas it should have, and to leave it alone."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import ExpiringDecision, Subject
from schemas.decisions.recommendations import Because
from schemas.names import Workload
from schemas.policies.vpa import TargetRef
from schemas.times import to_seconds
from schemas.units import Seconds


class ScalingMode(StrEnum):
    """Who carries a plan out. HPA: a generated HPA does, and the plan says what to expect of it. DIRECT: our consumer does.

    PREVIEW: nobody; the plan shows what would be done.
    """

    HPA = "hpa"
    DIRECT = "direct"
    PREVIEW = "preview"


class ProposalOrigin(StrEnum):
    """Where a proposal comes from: a metric now, its forecast, or the crons."""

    LIVE = "live"
    FORECAST = "forecast"
    CRON = "cron"


@dataclass(frozen=True, slots=True)
class MetricProposal:
    """What one metric proposes: `usage` against `target` (milli-units, or percent where `utilization` is set), or an error."""

    identifier: str
    origin: ProposalOrigin
    replicas: int | None = None
    usage: int | None = None
    target: int | None = None
    utilization: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class UpcomingReplicas:
    """How many replicas forecasts and crons will ask for by a time, if that is more than is planned now."""

    replicas: int
    by: datetime


@dataclass(frozen=True, slots=True)
class HpaConditions:
    """The conditions of an HPA about scaling, each as `status/reason`; empty if it was never set."""

    able: str = ""
    active: str = ""
    limited: str = ""


@dataclass(frozen=True, slots=True)
class ReplicasPlanned(ExpiringDecision):
    """A workload that asks for `current` replicas should have `replicas`. `ehpa` is the key of the EHPA that wants it."""

    workload: Workload
    ehpa: str
    uid: str
    generation: int
    carried_out_by: ScalingMode
    target_ref: TargetRef
    current: int
    replicas: int
    least: int
    most: int
    proposals: tuple[MetricProposal, ...]
    stabilized: int | None
    because: Because
    # For nodes to be there in time: nobody scales the workload by it.
    upcoming: UpcomingReplicas | None = None
    conditions: HpaConditions | None = None  # Those that an HPA would have; None where there is an HPA.

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class ReplicasRefused:
    """The forecaster looked at a workload and left its replicas alone. `reason` is a sentence."""

    id: str
    at: datetime
    workload: Workload
    ehpa: str
    guard: str
    reason: str
    because: Because
    # Those that an HPA would have; None where there is one, or where another guard objects than a missing metric.
    conditions: HpaConditions | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class MetricForecast:
    """What one metric will be: values at `start`, `start + step` and so on, or why nobody can say."""

    identifier: str
    series: str
    start: datetime
    step: Seconds
    values: tuple[float, ...] = ()  # With a margin; scaling goes by these.
    expected: tuple[float, ...] = ()  # The same without the margin; empty if the model has none.
    model: str = ""
    period: Seconds | None = None  # In seconds; None for a model that repeats nothing.
    error: float | None = None  # How far past forecasts were off, as a share of the load.
    fitted: datetime | None = None
    # One word, as `message` is a sentence; both are empty for a forecast.
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """The forecasts of all metrics of one EHPA or TimeSeriesPrediction. The newest turn wins."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    object_kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    # How far ahead the object asks for forecasts. Right after the decision the values reach two windows ahead, and until
    # `expires` at least one.
    window: Seconds
    metrics: tuple[MetricForecast, ...]
    because: Because
    withdrawn: bool = False  # The object is gone or wants no forecast any more.
    # Why the object is left out of account, if it is; then there are no `metrics`.
    refused: str = ""

    def holds(self, now: float) -> bool:
        """Whether it has not expired, in seconds since the epoch."""
        return now <= to_seconds(self.expires)

    @property
    def key(self) -> str:
        """The record key: the object's."""
        return f"{self.workload.cluster}/{self.namespace}/{self.object_kind}/{self.name}"

    @property
    def subject(self) -> Subject:
        """The object."""
        return Subject.of_object(self.workload.cluster, self.object_kind, self.namespace, self.name, self.uid)
