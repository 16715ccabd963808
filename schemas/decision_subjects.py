"""What decisions and outcomes are about: a pod, a workload, a node, a node group, or an object of the Kubernetes API.

One type names them all, so that code that carries out, guards or explains decisions is the same for every capability.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import quote

from schemas.names import PodName, Workload


class SubjectKind(StrEnum):
    """The kind of a subject. OBJECT is any other object of the Kubernetes API."""

    POD = "pod"
    WORKLOAD = "workload"
    NODE = "node"
    NODE_GROUP = "node-group"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that something is decided about or done to."""

    kind: SubjectKind
    cluster: str
    name: str
    namespace: str = ""  # Empty for subjects without one.
    uid: str = ""  # Empty where there is none or it is unknown.
    object_kind: str = ""  # The API's kind of an OBJECT.
    # The key of the workload that a pod belongs to, and a workload's own key.
    workload: str = ""

    @staticmethod
    def of_pod(workload: Workload, pod: PodName) -> "Subject":
        """A pod of a workload."""
        return Subject(SubjectKind.POD, workload.cluster, pod.name, pod.namespace, pod.uid, workload=workload.key)

    @staticmethod
    def of_workload(workload: Workload) -> "Subject":
        """A workload."""
        return Subject(SubjectKind.WORKLOAD, workload.cluster, workload.name, workload.namespace, workload=workload.key)

    @staticmethod
    def of_node(cluster: str, name: str, uid: str = "") -> "Subject":
        """A node."""
        return Subject(SubjectKind.NODE, cluster, name, uid=uid)

    @staticmethod
    def of_node_group(cluster: str, name: str) -> "Subject":
        """A group of nodes that a cloud keeps at a size, such as an Auto Scaling Group."""
        return Subject(SubjectKind.NODE_GROUP, cluster, name)

    @staticmethod
    def of_object(cluster: str, kind: str, namespace: str, name: str, uid: str = "") -> "Subject":
        """An API object; `namespace` is empty for objects of the whole cluster."""
        return Subject(SubjectKind.OBJECT, cluster, name, namespace, uid, object_kind=kind)

    @property
    def id(self) -> str:
        """Identifies it among others of its kind in its cluster: its uid, else its name. It contains no slash."""
        # An id of an outcome is split at its slashes, so this must have none.
        return self.uid or quote(f"{self.namespace}:{self.name}" if self.namespace else self.name, safe=":")

    def __str__(self) -> str:
        """As sentences name it: `pod 'shop/cart-7f9c-x2'`."""
        what = self.object_kind or self.kind.value.replace("-", " ")
        return f"{what} '{self.namespace}/{self.name}'" if self.namespace else f"{what} '{self.name}'"


@dataclass(frozen=True, slots=True)
class ExpiringDecision:
    """A decision that is carried out until it expires, or not at all."""

    id: str
    at: datetime
    expires: datetime

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""
        return self.expires
