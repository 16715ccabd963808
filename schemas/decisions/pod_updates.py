"""The decisions about single pods: resize it, evict it, or leave it alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.decisions.recommendations import Because
from schemas.names import Amounts, PodName, Workload
from schemas.subjects import Subject


@dataclass(frozen=True, slots=True)
class ResizePlanned:
    """Change a pod's requests in place. `expect` is what the pod requested when this was decided; void after `expires`."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts]
    expect: Mapping[str, Amounts]
    because: Because

    @property
    def subject(self) -> Subject:
        """The pod."""
        return Subject.of_pod(self.workload, self.pod)


@dataclass(frozen=True, slots=True)
class EvictionPlanned:
    """Evict a pod, so that its successor is created with the recommended requests; void after `expires`."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    expect: Mapping[str, Amounts]
    because: Because

    @property
    def subject(self) -> Subject:
        """The pod."""
        return Subject.of_pod(self.workload, self.pod)


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """The updater looked at a pod that is outside its recommendation and left it alone. `reason` is a sentence."""

    id: str
    at: datetime
    workload: Workload
    pod: PodName
    guard: str
    reason: str
    because: Because

    @property
    def subject(self) -> Subject:
        """The pod."""
        return Subject.of_pod(self.workload, self.pod)
