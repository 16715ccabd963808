"""Facts about what objects say of themselves: the labels and annotations by which rules and guards choose them.

One pair of events serves every kind of which nothing else is read, such as namespaces and ServiceAccounts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

NAMESPACE, SERVICE_ACCOUNT = "Namespace", "ServiceAccount"


def key(cluster: str, kind: str, namespace: str, name: str) -> str:
    """The key of an object's facts: `cluster/kind/namespace/name`."""
    return f"{cluster}/{kind}/{namespace}/{name}"


@dataclass(frozen=True, slots=True)
class ObjectMetadataChanged:
    """An object with labels or annotations was made, or has others now. A Namespace is in the `namespace` of its own name.

    Annotations with long values are documents and are left out.
    """

    at: datetime
    cluster: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`cluster/kind/namespace/name`."""
        return key(self.cluster, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ObjectMetadataRemoved:
    """The object is gone, or has neither labels nor annotations any more."""

    at: datetime
    cluster: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/kind/namespace/name`."""
        return key(self.cluster, self.kind, self.namespace, self.name)
