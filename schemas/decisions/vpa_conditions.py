"""The decisions what the status of a VPA object should say, and what one would say of a workload without one."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import Because, ContainerRecommendation
from schemas.names import Workload


class ConditionType(StrEnum):
    """The conditions that a recommender keeps, by upstream's names, and two of ours."""

    PROVIDED = "RecommendationProvided"
    NO_PODS = "NoPodsMatched"
    UNSUPPORTED = "ConfigUnsupported"
    MEMORY_LIMITED = "MemoryLimited"  # Ours: why a loop of OOM kills goes on.
    FACTS_OUTDATED = "FactsOutdated"  # Ours: no source sees the pods any more.


class ConditionStatus(StrEnum):
    """TRUE or FALSE, as Kubernetes has it. UNKNOWN: it cannot be determined now, so the object keeps its condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class DecidedCondition:
    """One condition, and since when it has this status. Where PROVIDED is UNKNOWN, reason and message are those of FALSE."""

    type: ConditionType
    status: ConditionStatus
    since: datetime
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class VpaConditionsDecided:
    """What the status of a VPA object of this uid and generation should say. The newest turn wins."""

    id: str
    at: datetime
    cluster: str
    namespace: str
    name: str
    uid: str
    generation: int
    conditions: tuple[DecidedCondition, ...]
    # The recommendation to show. Empty means none. None means that it cannot be determined yet, so the object keeps a
    # recommendation that it has for this generation.
    containers: tuple[ContainerRecommendation, ...] | None
    because: Because
    recommendation: str = ""  # The id of the decision that it comes from.
    # The object is gone or another recommender's, and nothing is to be written any more.
    withdrawn: bool = False

    @property
    def key(self) -> str:
        """`cluster/namespace/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/{self.name}"

    @property
    def subject(self) -> Subject:
        """The VPA object."""
        return Subject.of_object(self.cluster, "VerticalPodAutoscaler", self.namespace, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class MemoryLimitFound:
    """A workload without a VPA is OOM-killed in a loop and gets no more memory, or, if `over`, not any more.

    A policy of ours sizes it, and no object has a status that could carry the condition MEMORY_LIMITED.
    """

    id: str
    at: datetime
    workload: Workload
    since: datetime  # When that became true first.
    reason: str  # As the condition would have it; the same of `message`.
    message: str
    because: Because
    over: bool = False

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)
