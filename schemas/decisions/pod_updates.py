"""The decisions about pods: resize one, evict one, or leave those of a workload alone.

Each rests on one recommendation, whose id it names; one that puts a reverted workload back rests on the revert, and names none. A
plan may be carried out until `void_after`: `expires` is as long as any plan may wait, and `stale_after` is when the first thing
that allowed it, such as a fresh recommendation, stops being so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas import times
from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import Because
from schemas.names import Amounts, PodName, Workload


@dataclass(frozen=True, slots=True)
class ResizePlanned:
    """Change a pod's requests in place.

    `expect` is what the pod requested when this was decided, and `asked` what its containers asked for of a resize that was open.
    """

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts]
    expect: Mapping[str, Amounts]
    because: Because
    recommendation: str = ""
    stale_after: datetime | None = None
    asked: Mapping[str, Amounts] = field(default_factory=dict)

    @property
    def subject(self) -> Subject:
        """The pod."""
        return Subject.of_pod(self.workload, self.pod)

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""
        return times.earliest(self.expires, self.stale_after)


@dataclass(frozen=True, slots=True)
class EvictionPlanned:
    """Evict a pod, so that its successor is created with the recommended requests. `vpa` governs it, if one does."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    expect: Mapping[str, Amounts]
    because: Because
    recommendation: str = ""
    stale_after: datetime | None = None
    vpa: Subject | None = None

    @property
    def subject(self) -> Subject:
        """The pod."""
        return Subject.of_pod(self.workload, self.pod)

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""
        return times.earliest(self.expires, self.stale_after)


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """A guard holds back pods of a workload that should be changed: `pods` of them, of which `pod` is the most urgent.

    `reason` is a sentence, and `because` has the numbers, both of `pod`.
    """

    id: str
    at: datetime
    workload: Workload
    pod: PodName
    guard: str
    reason: str
    because: Because
    recommendation: str = ""
    pods: int = 1

    @property
    def subject(self) -> Subject:
        """The pod that stands for all."""
        return Subject.of_pod(self.workload, self.pod)
