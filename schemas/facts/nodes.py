"""Facts about nodes, what one offers to pods and that it is gone, and about the groups that nodes come from.

`NodeChanged` is the short form, which every partition gets. `NodeDetailsChanged` has everything that scheduling and node scaling
need; it is published only for clusters whose nodes are scaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.names import Amounts, ObjectEvent
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A fact about a node."""

    at: datetime
    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeChanged(NodeEvent):
    """A node joined or changed. `allocatable` is what it has for pods; `schedulable` is false while it is cordoned."""

    allocatable: Amounts
    ready: bool = True
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRemoved(NodeEvent):
    """A node is gone from the cluster."""


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint with Kubernetes' fields."""

    key: str
    value: str = ""
    # A text, because tags of a node group can carry an unknown one.
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeDetailsChanged(NodeEvent):
    """A node joined or changed, with all that decides which pods it takes and whether it may go."""

    uid: str
    created: datetime
    provider_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)  # The status of each condition, by its type.
    # Whole amounts: CPU in thousandths of a core, everything else in its own unit.
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)  # Those that node scaling obeys.
    # How many volumes of a driver can be attached; one that is absent has no limit.
    attachable: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeDetailsRemoved(NodeEvent):
    """A node whose details were published is gone."""


# Facts about what the nodes of a cluster come from and are kept for.
# Node groups that a cloud keeps at a size: their bounds, how a new node looks, their instances, and what failed; the ConfigMap in
# which people set their priorities; and CapacityBuffers (`autoscaling.x-k8s.io`), room that nodes are to have for pods that
# nobody made.


@dataclass(frozen=True, slots=True)
class NodeTemplateSeen:
    """How an empty new node of a group would look. Amounts as in `NodeDetailsChanged`."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    # A sentence for each tag of the group that should describe its nodes and cannot be parsed.
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGroupEvent:
    """A fact about a group that nodes come from."""

    at: datetime
    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class NodeGroupSeen(NodeGroupEvent):
    """A group that is ours to scale, new or changed."""

    least: int
    most: int
    desired: int
    template: NodeTemplateSeen | None = None
    no_template: str = ""  # Why nobody knows how its nodes look, as a sentence.
    zones: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    # The group's own scaling options as its tags spell them, by name.
    options: Mapping[str, str] = field(default_factory=dict)
    price: float | None = None  # Of one node for an hour.
    spot: bool = False
    launch_version: str = ""  # What a new instance would be started from.
    suspended: tuple[str, ...] = ()  # The processes of the group that somebody stopped.
    provision: Seconds | None = None  # How long a node of it may take to join.
    unscalable: str = ""  # Why its sizes are no numbers of nodes, as a sentence.
    lifetime: Seconds | None = None  # When its cloud replaces an instance by itself.
    # Its cloud also replaces one by itself that it recommends to replace.
    rebalances: bool = False
    refreshing: bool = False  # It is replacing all of them now.
    # What types of a mixed group would be started from that have a launch template of their own.
    own_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGroupGone(NodeGroupEvent):
    """A group is gone, or no longer ours to scale."""


@dataclass(frozen=True, slots=True)
class NodeInstanceSeen(NodeGroupEvent):
    """An instance of a group, new or changed. `lifecycle` and `health` are the cloud's words."""

    instance: str
    provider_id: str
    zone: str = ""
    lifecycle: str = ""
    health: str = ""
    instance_type: str = ""
    launch_version: str = ""
    spot: bool = False
    protected: bool = False  # The cloud may not choose it when it shrinks the group.
    launched: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeInstanceGone(NodeGroupEvent):
    """An instance no longer belongs to its group."""

    instance: str


@dataclass(frozen=True, slots=True)
class ScalingActivityFailed(NodeGroupEvent):
    """The cloud could not start an instance of a group. Code, message, zone and type are the cloud's, where known."""

    activity: str
    code: str
    message: str = ""
    instance_type: str = ""
    zone: str = ""
    started: datetime | None = None


class InterruptionKind(StrEnum):
    """What the cloud announces of an instance."""

    SPOT = "spot-interruption"
    REBALANCE = "rebalance-recommendation"
    MAINTENANCE = "scheduled-maintenance"


@dataclass(frozen=True, slots=True)
class InstanceInterruptionNoticed:
    """The cloud announced that it will take an instance away, or recommends to replace it. `notice` is its message's id."""

    at: datetime
    cluster: str
    instance: str
    kind: InterruptionKind
    notice: str
    noticed: datetime | None = None  # When the cloud said so, as far as it says.


@dataclass(frozen=True, slots=True)
class ExpanderPrioritiesSeen(ObjectEvent):
    """The ConfigMap of the priority expander, new or changed."""

    # By priority, patterns for the names of groups, both as written in the ConfigMap.
    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Why the ConfigMap cannot be read as such a list, as a sentence.
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class ExpanderPrioritiesGone(ObjectEvent):
    """The ConfigMap is gone."""


ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The strategy of the buffers that nodes are kept for, and upstream's default."""
READY_FOR_PROVISIONING = "ReadyForProvisioning"
"""The type of the condition of a buffer's status that says whether it is known for which pods there is to be room."""
LIMITED_BY_QUOTAS = "LimitedByQuotas"
"""The type of the condition that says that quotas of the namespace leave room for fewer pods than the buffer wants."""


@dataclass(frozen=True, slots=True)
class BufferShown:
    """What a buffer's own status says, whoever wrote it. `message` is that of its condition `ReadyForProvisioning`."""

    ready: bool
    replicas: int | None = None
    template: str = ""
    generation: int | None = None
    message: str = ""
    # The message of its condition `LimitedByQuotas`, empty if that is not true.
    limited: str = ""


@dataclass(frozen=True, slots=True)
class CapacityBufferSeen(ObjectEvent):
    """A buffer, new or changed, with the PodTemplate that it names, or the workload whose pods it is like."""

    uid: str
    strategy: str = ""
    template_name: str = ""  # Of the PodTemplate, as is the generation.
    # The shape of one of its pods; where it names a workload, what that would make, if it has no pods now.
    template: PodShapeSeen | None = None
    template_generation: int | None = None
    workload_kind: str = ""
    workload_name: str = ""
    replicas: int | None = None
    percentage: int | None = None  # Of the workload's pods.
    # What all of its pods may request together, in whole amounts, CPU in thousandths of a core.
    limits: Mapping[str, int] | None = None
    shown: BufferShown | None = None
    # The kind of what it names, such as `podtemplates`, if the source's account may not see that kind.
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class CapacityBufferGone(ObjectEvent):
    """A buffer is gone."""
