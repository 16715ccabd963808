"""Facts about namespaces: their labels, by which rules between pods choose namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class NamespaceLabelsChanged:
    """A namespace, new or with other labels."""

    at: datetime
    cluster: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamespaceRemoved:
    """A namespace is gone."""

    at: datetime
    cluster: str
    namespace: str
