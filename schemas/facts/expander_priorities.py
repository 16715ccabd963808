"""Facts about the ConfigMap in which people set the priorities of node groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ExpanderPrioritiesSeen:
    """The ConfigMap of the priority expander, new or changed.

    `patterns` lists, by priority, patterns for the names of groups, both as written in the ConfigMap. `unsupported` says in a
    sentence why the ConfigMap cannot be read as such a list.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class ExpanderPrioritiesGone:
    """The ConfigMap is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str
