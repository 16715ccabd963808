"""Names of things in a cluster, and the keys that records carry.

A workload is the topmost scalable controller of a pod. Its key is `cluster/namespace/Kind/name`; everything that is folded per
workload is keyed by it. Everything that is decided for a cluster as a whole is keyed by the cluster's name.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from schemas.units import Bytes, Cores


@dataclass(frozen=True, slots=True)
class Workload:
    """The topmost scalable controller of a set of pods."""

    cluster: str
    namespace: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/namespace/Kind/name`, the record key of the workload space."""
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.name}"

    @staticmethod
    def parse(key: str) -> "Workload":
        """Inverse of `key`. Raises ValueError that quotes the key when it has not four non-empty parts."""
        parts = key.split("/")
        if len(parts) != 4 or not all(parts):  # noqa: PLR2004  # the four fields above
            msg = f"a workload key is 'cluster/namespace/Kind/name', not '{key}'"
            raise ValueError(msg)
        return Workload(*parts)


def cluster_of(key: str) -> str:
    """The cluster of any key that begins with one: of a workload, a node, a VPA or a cluster itself."""
    return key.split("/", 1)[0]


@dataclass(frozen=True, slots=True)
class PodName:
    """One pod instance; the uid tells it from an earlier pod of the same name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU and memory of one container. None means "not set", never zero."""

    cpu: Cores | None = None
    memory: Bytes | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands in the log."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """`topic:partition:offset`, the form of the `cause` header."""
        return f"{self.topic}:{self.partition}:{self.offset}"

    @staticmethod
    def parse(text: str) -> "Place":
        """Inverse of `str`. Raises ValueError that quotes the text."""
        try:
            topic, partition, offset = text.rsplit(":", 2)
            return Place(topic, int(partition), int(offset))
        except ValueError:
            msg = f"a place in the log is 'topic:partition:offset', not '{text}'"
            raise ValueError(msg) from None


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event about an object of a namespace: when it was so, and which object."""

    at: datetime
    cluster: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class KeyedObjectEvent(ObjectEvent):
    """One about an object of the kind `KIND`, which stands in the key."""

    KIND: ClassVar[str]

    @property
    def key(self) -> str:
        """`cluster/namespace/Kind/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/{self.KIND}/{self.name}"
