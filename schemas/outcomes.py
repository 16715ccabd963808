"""Outcomes: what a consumer did, or did not do, and why. An outcome names the decision that it answers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.subjects import Subject


class Action(StrEnum):
    """What a consumer can do to something in a cluster."""

    PATCH = "patch"
    RESIZE = "resize"
    EVICT = "evict"


class Result(StrEnum):
    """DONE: the world is as decided. REFUSED: the control record or a look at the subject. FAILED: the cluster. EXPIRED: late."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ActionFinished:
    """A consumer finished with a decision. `id` is an OutcomeId, which follows from the decision, so a repeat has the same id."""

    id: str
    at: datetime
    decision: str
    action: Action
    result: Result
    reason: str
    subject: Subject


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """The status of a VPA object was written (DONE), or the API refused the write (FAILED).

    It is no ActionFinished: a status is kept as the newest decision has it, however often that takes, and a decision that
    stands in the object already gets no outcome. `decision` is the id of the decision that the status shows; 0.1 left it empty
    where there was no recommendation. `id` ends in what tells this write from others.
    """

    id: str
    at: datetime
    cluster: str
    namespace: str
    name: str
    decision: str
    result: Result
    reason: str

    @property
    def subject(self) -> Subject:
        """The VPA object."""
        return Subject.of_object(self.cluster, "VerticalPodAutoscaler", self.namespace, self.name)


Outcome = ActionFinished | StatusWritten
