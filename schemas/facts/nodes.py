"""Facts about nodes: what one offers to pods, and that it is gone.

`NodeChanged` is the short form, which every partition gets. `NodeDetailsChanged` has everything that scheduling and node scaling
need; it is published only for clusters whose nodes are scaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import Amounts


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node joined or changed. `allocatable` is what it has for pods; `schedulable` is false while it is cordoned."""

    at: datetime
    cluster: str
    node: str
    allocatable: Amounts
    ready: bool = True
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node is gone from the cluster."""

    at: datetime
    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint with Kubernetes' fields."""

    key: str
    value: str = ""
    # A text, because tags of a node group can carry an unknown one.
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeDetailsChanged:
    """A node joined or changed, with all that decides which pods it takes and whether it may go."""

    at: datetime
    cluster: str
    node: str
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
class NodeDetailsRemoved:
    """A node whose details were published is gone."""

    at: datetime
    cluster: str
    node: str
