"""Facts about the controllers that recreate pods: that one exists, and how many replicas it wants."""

from dataclasses import dataclass
from datetime import datetime

from schemas.facts.scheduled_pods import ControllingOwner


@dataclass(frozen=True, slots=True)
class ReplicaControllerChanged:
    """A ReplicaSet, StatefulSet, DaemonSet, Job or the like exists. `replicas` is None where none are set.

    `owner` is its own controller, such as the Deployment of a ReplicaSet.
    """

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str
    replicas: int | None = None
    owner: ControllingOwner | None = None


@dataclass(frozen=True, slots=True)
class ReplicaControllerRemoved:
    """A controller is gone, or wants no pods any more."""

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str
