"""Facts about the controllers that recreate pods: that one exists, and how many replicas it wants."""

from dataclasses import dataclass
from datetime import datetime

from schemas.facts.scheduled_pods import ControllingOwner, PodShapeSeen


@dataclass(frozen=True, slots=True)
class ReplicaControllerChanged:
    """A ReplicaSet, StatefulSet, DaemonSet, Job or the like exists. `replicas` is None where none are set.

    Of a Job they are the pods that it still wants at one time. `owner` is its own controller, such as the Deployment of a
    ReplicaSet. `refusal`: what was answered when it last tried to make a pod and could not, such as a quota that is used up;
    empty while it can, and always in the copy for node scaling. `template` is the shape of a DaemonSet's pods as the object has
    it, so that nodes are known to run them before any of them exists; of others, and in other copies, it is absent.
    `last_failure`: why a Job would fail if one more of its pods were evicted; empty where it would not, and in other copies.
    """

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str
    replicas: int | None = None
    owner: ControllingOwner | None = None
    refusal: str = ""
    template: PodShapeSeen | None = None
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaControllerRemoved:
    """A controller is gone, or wants no pods any more."""

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str
