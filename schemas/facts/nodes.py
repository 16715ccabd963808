"""Facts about nodes: what one offers to pods, and that it is gone."""

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
