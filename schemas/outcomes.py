"""Outcomes: what a consumer did, or did not do, and why. An outcome names the decision that it answers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import Subject
from schemas.names import Amounts


class Action(StrEnum):
    """What a consumer can do to something in a cluster, or to the group that its nodes come from."""

    PATCH = "patch"
    RESIZE = "resize"
    EVICT = "evict"
    SCALE = "scale"
    SCALE_UP = "scale-up"
    REMOVE_NODE = "remove-node"
    SOFT_TAINT = "soft-taint"
    CORRECT_SIZE = "correct-size"
    BUFFER_STATUS = "buffer-status"
    ASK_EXPANDER = "ask-expander"


class Result(StrEnum):
    """What became of an act. Only DONE says that the world was seen as decided; docs/observability.md says by what."""

    DONE = "done"
    REFUSED = "refused"  # By the control record, or after a look at the subject.
    FAILED = "failed"  # By the cluster.
    EXPIRED = "expired"  # Too late.
    # The webhook answered with a patch, and whether a pod comes of it is not known yet.
    OFFERED = "offered"
    LOST = "lost"  # No pod of the offer came in time.


class OutcomeDetail(StrEnum):
    """The result in detail, for programs; the reason is for people. NONE where a consumer had nothing to add.

    An outcome that EXPIRED has the detail of the last try, so BUDGET there means that a disruption budget refused to the end.
    """

    NONE = ""
    APPLIED = "applied"
    """The consumer asked for it, and saw it in force."""
    ALREADY_DONE = "already-done"
    """The consumer found the world as decided, whoever did it."""
    MOVED = "moved"
    """The subject is another one, or no longer what the decision expected."""
    NOT_ALLOWED = "not-allowed"
    """The control record."""
    NO_WEBHOOK = "no-webhook"
    """Nothing would change the pod's successor."""
    NOT_SEEN = "not-seen"
    """No pod was seen to come, however often it was tried, so the workload's new pods are left as they are for a while."""
    BUDGET = "disruption-budget"
    SEVERAL_BUDGETS = "several-disruption-budgets"
    """The eviction API serves no pod that several budgets select."""
    INFEASIBLE = "infeasible"
    """The node could never hold it."""
    DEFERRED = "deferred"
    """The node accepted it and has no room for it yet."""
    IN_PROGRESS = "in-progress"
    """The node is doing it."""
    NODE_ERROR = "node-error"
    """The node began it and could not do it."""
    BELOW_USE = "below-use"
    """A memory limit would lie below what the container uses."""
    NO_CAPACITY = "no-capacity"
    """The cloud has none of what was asked for."""
    AT_LIMIT = "at-limit"
    """A group or an account may not have more."""
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"
    THROTTLED = "throttled"
    SERVER_ERROR = "server-error"
    NO_ANSWER = "no-answer"


@dataclass(frozen=True, slots=True)
class ChangedContainer:
    """The amounts of one container before and after an act; what the act did not set is the same in both."""

    name: str
    requests_before: Amounts = Amounts()
    limits_before: Amounts = Amounts()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class AdmittedAmounts:
    """What the webhook offered to a new pod. `offer` stands in the pod's note, too, and is the same for pods that are alike."""

    offer: str
    # The pod's direct one, as `kind/name`: it makes another pod if one is refused.
    controller: str
    containers: tuple[ChangedContainer, ...]


@dataclass(frozen=True, slots=True)
class ActionFinished:
    """A consumer finished with a decision. `id` is an OutcomeId, which follows from the decision, so a repeat has the same id.

    A pod's admission has two: OFFERED when the webhook answered, and what became of it.
    """

    # An OutcomeId, which follows from the decision, so a repeat has the same id.
    id: str
    at: datetime
    decision: str
    action: Action
    result: Result
    reason: str
    subject: Subject
    detail: OutcomeDetail = OutcomeDetail.NONE
    # The amounts of an admission; a resize and an eviction have theirs in the decision.
    admitted: AdmittedAmounts | None = None
    groups: tuple[str, ...] = ()  # Those that an external expander chose.


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """The status of a VPA object was written (DONE), or the API refused the write (FAILED).

    It is no ActionFinished: a status is kept equal to the newest decision, however many writes that takes, and a decision
    that the object already shows gets no outcome.
    """

    id: str  # Its end distinguishes this write from others.
    at: datetime
    cluster: str
    namespace: str
    name: str
    # The one that the status shows; 0.1 left it empty where there was no recommendation.
    decision: str
    result: Result
    reason: str

    @property
    def subject(self) -> Subject:
        """The VPA object."""
        return Subject.of_object(self.cluster, "VerticalPodAutoscaler", self.namespace, self.name)


class ObjectChange(StrEnum):
    """What was done to an object that follows from another one."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ObjectWritten:
    """An object that follows from a policy, such as a generated autoscaler, was changed (DONE), or the API refused that (FAILED).

    It is no ActionFinished: such an object is kept as its policy wants it, however many writes that takes.
    """

    id: str  # Its end distinguishes this write from others.
    at: datetime
    cluster: str
    object_kind: str
    namespace: str
    name: str
    policy: str  # The key of the policy.
    generation: int  # Of the policy's object.
    change: ObjectChange
    result: Result
    reason: str

    @property
    def subject(self) -> Subject:
        """The object that was written."""
        return Subject.of_object(self.cluster, self.object_kind, self.namespace, self.name)


Outcome = ActionFinished | StatusWritten | ObjectWritten
