"""What a policy in shadow would recommend, and how that differs from what is recommended. Nobody acts on it."""

from dataclasses import dataclass
from datetime import datetime

from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import CitedRules, ContainerRecommendation
from schemas.names import Amounts, Workload


@dataclass(frozen=True, slots=True)
class ShadowRecommended:
    """What the policy in shadow would recommend for a workload whose recommendation was published in the same turn.

    `policy` is its name and the digest of its source, as `steady@0f3a...`, or `built-in`. `reason` says why it could not decide;
    then the containers are those of the built-in estimator.
    """

    id: str
    at: datetime
    workload: Workload
    policy: str
    containers: tuple[ContainerRecommendation, ...]
    pods: int
    reason: str = ""
    rules: CitedRules | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class ContainerDifference:
    """The target of one container: as recommended, and as the policy in shadow would have it."""

    container: str
    in_force: Amounts
    shadow: Amounts


@dataclass(frozen=True, slots=True)
class ShadowCompared:
    """The paired difference for one workload in one turn: the same evidence, judged by two policies.

    `cores` and `bytes` are the targets in shadow less those in force, summed over the containers of all `pods`: what the change
    of policy would add to requests. A container that has no target of one of them counts in neither.
    """

    id: str
    at: datetime
    workload: Workload
    in_force: str
    shadow: str
    containers: tuple[ContainerDifference, ...]
    pods: int
    cores: float
    bytes: float
    rules: CitedRules | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)
