"""The decisions about nodes: let a group grow, remove one node, taint one that may go soon, or do nothing, and why.

A group grows to a number of nodes, and it shrinks by one named instance at a time, because the cloud would choose the victim
where a size is lowered as such. That is done only down to the instances that there are, to give up those that the cloud does not
deliver. A plan may be carried out until `void_after`. Which group should grow may be asked of somebody else's program, which is
the question of upstream's external expander.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import ExpiringDecision, Subject
from schemas.decisions.recommendations import Because
from schemas.names import PodName
from schemas.units import Seconds


class RemovalReason(StrEnum):
    """Why a node goes."""

    EMPTY = "empty"
    UNNEEDED = "unneeded"
    UNREADY = "unready"
    FAILED_CREATION = "failed-creation"
    UNREGISTERED = "unregistered"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"
    ADVISED = "advised"
    CONSOLIDATED = "consolidated"


@dataclass(frozen=True, slots=True)
class NodeGroupPlan(ExpiringDecision):
    """Give a group `after` nodes instead of `before`."""

    cluster: str
    group: str
    before: int
    after: int

    @property
    def subject(self) -> Subject:
        """The group."""
        return Subject.of_node_group(self.cluster, self.group)


@dataclass(frozen=True, slots=True)
class ScaleUpPlanned(NodeGroupPlan):
    """Let a group grow from `before` to `after` nodes, for so many `pods`, some of which are named in `examples`."""

    pods: int
    examples: tuple[str, ...]
    expander: str
    because: Because


@dataclass(frozen=True, slots=True)
class SizeCorrectionPlanned(NodeGroupPlan):
    """Let a group want `after` nodes instead of `before`, because its cloud did not deliver the others."""

    # `after` is what the log knows to exist. Whoever carries it out looks again, and lowers no size below what is there then.
    because: Because


@dataclass(frozen=True, slots=True)
class NodeRemovalPlanned(ExpiringDecision):
    """Drain one node and terminate its instance. `node` is empty where the instance never became one."""

    cluster: str
    node: str
    node_uid: str
    provider_id: str
    instance: str
    group: str
    reason: RemovalReason
    evict: tuple[PodName, ...]  # The pods that must go elsewhere.
    # Those that are evicted only so that they can shut down cleanly.
    daemons: tuple[PodName, ...]
    grace: Seconds  # For each pod, at most.
    drain: Seconds  # For all of them together.
    because: Because

    @property
    def subject(self) -> Subject:
        """The node, or the instance that never became one."""
        return Subject.of_node(self.cluster, self.node or self.instance, self.node_uid)


@dataclass(frozen=True, slots=True)
class SoftTaintPlanned(ExpiringDecision):
    """Set the taint that makes the scheduler prefer other nodes, because this one may go soon; or remove it."""

    cluster: str
    node: str
    node_uid: str
    tainted: bool
    because: Because

    @property
    def subject(self) -> Subject:
        """The node."""
        return Subject.of_node(self.cluster, self.node, self.node_uid)


@dataclass(frozen=True, slots=True)
class BufferStatusPlanned(ExpiringDecision):
    """Let a CapacityBuffer show for how many pods nodes are to have room, or, unless it is `ready`, why for none."""

    cluster: str
    namespace: str
    name: str
    uid: str
    ready: bool
    replicas: int | None
    # The PodTemplate that these pods are made from, absent where the buffer names a workload instead.
    template: str
    template_generation: int | None
    message: str
    because: Because
    # Which quotas leave room for fewer pods than it wants; empty if none does.
    limited: str = ""

    @property
    def subject(self) -> Subject:
        """The buffer."""
        return Subject.of_object(self.cluster, "CapacityBuffer", self.namespace, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class ScaleRefused:
    """The scaler looked at a node, a group or waiting pods and left them alone. `reason` is a sentence, `count` how many pods."""

    id: str
    at: datetime
    cluster: str
    subject: Subject
    code: str
    reason: str
    count: int
    because: Because
    example: str = ""
    """One of the pods, as NAMESPACE/NAME; empty where it is about no pods."""


@dataclass(frozen=True, slots=True)
class NodeScalingHalted:
    """A group is out: it does not do what it is asked for. An empty `group` is the whole cluster.

    It is said again every ten minutes while that lasts.
    """

    id: str
    at: datetime
    cluster: str
    group: str
    code: str  # Empty: it is over.
    reason: str
    because: Because

    @property
    def subject(self) -> Subject:
        """The group, or the cluster."""
        if self.group:
            return Subject.of_node_group(self.cluster, self.group)
        return Subject.of_object(self.cluster, "Cluster", "", self.cluster)


@dataclass(frozen=True, slots=True)
class OfferedPods:
    """Waiting pods that are alike: where they are, what each asks for (CPU in thousandths, memory in bytes), and their names."""

    namespace: str
    labels: Mapping[str, str]
    node_selector: Mapping[str, str]
    requests: Mapping[str, int]
    names: tuple[str, ...]  # The first of them; there may be more.


@dataclass(frozen=True, slots=True)
class OfferedTaint:
    """A taint of a group's new node, as Kubernetes has it."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class OfferedGroup:
    """A group that could grow by so many nodes, how its new node looks, and how many of each kind of pods would run there."""

    group: str
    nodes: int
    # A number for each of the kinds of the question, in their order.
    pods: tuple[int, ...]
    labels: Mapping[str, str]
    taints: tuple[OfferedTaint, ...]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExpanderAsked(ExpiringDecision):
    """Ask the configured server which of these groups should grow. Its answer is the outcome, in `ActionFinished.groups`.

    Nothing is changed by that, so it is done in every mode.
    """

    # After it expires, the scaler decides without an answer.
    cluster: str
    groups: tuple[OfferedGroup, ...]
    pods: tuple[OfferedPods, ...]
    because: Because

    @property
    def subject(self) -> Subject:
        """The whole cluster."""
        return Subject.of_object(self.cluster, "Cluster", "", self.cluster)


# Why nodes and waiting pods are left as they are: the codes of `ScaleRefused`, beside those of nodes that stay.
# A code is what metrics and alerts count by, so each of them is in the table of docs/nodes.md with what tells people of it.


class RefusalCode(StrEnum):
    """The code of a refusal that is about pods, a group or the whole cluster."""

    NO_GROUP_FITS = "NoGroupFits"
    """No group's new node would take the pods."""
    NO_GROUP_MAY_GROW = "NoGroupMayGrow"
    """The groups that would take the pods may not grow now."""
    NOT_UNDERSTOOD = "NotUnderstood"
    """A node has room for pods by all that is known, and the scheduler does not place them; or it says nothing of them."""
    LIMITED = "limited"
    """The limits of the cluster leave no room for one more node."""
    MAX_NODES = "MaxNodesTotalReached"
    """The cluster has as many nodes as it may have."""
    POSTPONED = "postponed"
    """The pods have more rules between them than one decision goes through."""
    PAUSED = "paused"
    """Somebody paused all changes."""
    GROUP_BACKED_OFF = "BackedOff"
    """A group failed to grow, and is left alone for a while."""
    GROUP_AT_MAXIMUM = "AtMaximum"
    """A group has its maximum size."""
    GROUP_NOT_READY = "NotReady"
    """A group is out, or nobody knows how its new nodes look."""
    GROUP_LIMITED = "Limited"
    """A group's cloud starts no node of it, or a limit of the cluster allows none of its size."""
    GROUP_MISCONFIGURED = "GroupMisconfigured"
    """A group's bounds contradict each other, or its tags cannot be read."""
    NO_PRIORITIES = "PriorityConfigMapInvalid"
    """The ConfigMap with the groups' priorities is missing or cannot be read."""
    PRIORITIES_MISS_GROUPS = "PriorityConfigMapNotMatchedGroup"
    """No pattern of that ConfigMap matches some groups."""
    PRIORITIES_MISS_ALL = "PriorityConfigMapNoGroupMatched"
    """No pattern of it matches any group that could grow."""
    EXPANDER_FAILED = "ExpanderFailed"
    """The external expander gave no answer that could be used, so the next expander of the list decides."""
    BUDGET = "budget"
    """As many nodes are away as the budget allows."""
    DRAINS = "drains"
    """As many nodes are being drained as may be at one time."""
    REPLACEMENT_RELEASED = "ReplacementReleased"
    """A replacement was given up."""


PODS_WAIT = frozenset(
    (
        RefusalCode.NO_GROUP_FITS,
        RefusalCode.NO_GROUP_MAY_GROW,
        RefusalCode.NOT_UNDERSTOOD,
        RefusalCode.LIMITED,
        RefusalCode.MAX_NODES,
        RefusalCode.POSTPONED,
    )
)
"""Codes of refusals about pods for which nobody does anything."""
SAID_AGAIN = PODS_WAIT | {RefusalCode.EXPANDER_FAILED}
"""Codes that are said again every ten minutes while they hold, so that alerts go on."""
