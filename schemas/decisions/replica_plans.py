"""The decisions how many replicas a workload should have, and to leave it alone."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import Because
from schemas.names import Workload
from schemas.policies.vpa import TargetRef


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
class ReplicasPlanned:
    """A workload that asks for `current` replicas should have `replicas`. `ehpa` is the key of the EHPA that wants it.

    `upcoming` is for nodes to be there in time: nobody scales the workload by it. `conditions` are those that an HPA would have;
    None where there is an HPA.
    """

    id: str
    at: datetime
    expires: datetime
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
    upcoming: UpcomingReplicas | None = None
    conditions: HpaConditions | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""
        return self.expires


@dataclass(frozen=True, slots=True)
class ReplicasRefused:
    """The forecaster looked at a workload and left its replicas alone. `reason` is a sentence.

    `conditions` are those that an HPA would have; None where there is one, or where another guard objects than a missing metric.
    """

    id: str
    at: datetime
    workload: Workload
    ehpa: str
    guard: str
    reason: str
    because: Because
    conditions: HpaConditions | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)
