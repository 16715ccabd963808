"""Outcomes: what a consumer did, or did not do, and why. An outcome names the decision that it answers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.names import PodName, Workload


class Action(StrEnum):
    """What a consumer can do to a cluster."""

    PATCH = "patch"
    RESIZE = "resize"
    EVICT = "evict"


class Result(StrEnum):
    """DONE: the world is as asked. REFUSED: the switch or a look at the pod said no. FAILED: the cluster did. EXPIRED: late."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ActionFinished:
    """A consumer finished with a decision. `id` is `decision id/action/pod uid`, so a repeat has the same id."""

    id: str
    at: datetime
    decision: str
    action: Action
    result: Result
    reason: str
    workload: Workload
    pod: PodName


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """A VPA object's status was written (DONE) or refused by the API (FAILED). Unchanged ones are not told.

    `decision`: the id of the recommendation that it shows; empty for none. `id` ends in what tells this write from others.
    """

    id: str
    at: datetime
    cluster: str
    namespace: str
    name: str
    decision: str
    result: Result
    reason: str


Outcome = ActionFinished | StatusWritten
