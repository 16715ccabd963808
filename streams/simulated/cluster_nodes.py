"""The Node objects of the simulated cluster: how they join and leave, and how callers mark and cordon them.

A node is ready from the moment at which it joins. A change that names an older version or another uid is refused, as by an API
server.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from http import HTTPStatus

from schemas.units import millicores
from schemas.well_known_labels import HOSTNAME
from streams.clients.kube.json_objects import Json
from streams.simulated.cluster_spec import SimulatedNode
from streams.simulated.pod_admission import ApiRefusal

CPU, MEMORY, PODS, GPUS = "cpu", "memory", "pods", "nvidia.com/gpu"
# PreferNoSchedule only advises, and this scheduler has no preferences
_HARD = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class ClusterNode:
    """A node as the cluster shows it. `taints` are the API's own objects."""

    spec: SimulatedNode
    uid: str
    created: datetime
    labels: dict[str, str]
    taints: list[Json]
    annotations: dict[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    version: int = 1

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def amounts(self) -> Mapping[str, int]:
        """What it has for pods, CPU in millicores."""
        spec = self.spec
        sizes = {CPU: millicores(spec.cores), MEMORY: int(spec.memory), PODS: spec.pods}
        # a node without GPUs does not name them, as no device plugin has registered any
        return {**sizes, GPUS: spec.gpus} if spec.gpus else sizes

    @property
    def hard_taints(self) -> tuple[Json, ...]:
        """The taints that keep pods away."""
        return tuple(taint for taint in self.taints if taint.get("effect") in _HARD)


class ClusterNodes:
    """All nodes by name, and which of them changed since the last call of `take_changes`."""

    def __init__(self) -> None:
        self._nodes: dict[str, ClusterNode] = {}
        # a dict for its order: a set of strings has another one in each process
        self._changed: dict[str, None] = {}

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self._nodes.values())

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def __getitem__(self, name: str) -> ClusterNode:
        return self._nodes[name]

    def get(self, name: str) -> ClusterNode | None:
        """The node that has this name now."""
        return self._nodes.get(name)

    def find(self, name: str) -> ClusterNode:
        """The node that has this name now. Raises ApiRefusal."""
        node = self._nodes.get(name)
        if node is None:
            raise ApiRefusal(HTTPStatus.NOT_FOUND, f'nodes "{name}" not found')
        return node

    def join(self, spec: SimulatedNode, at: datetime) -> ClusterNode:
        """A machine becomes a node."""
        # from name and moment: a node that comes back under its old name is another one, and the same run gives the same uid
        identity = blake2b(f"{spec.name}/{at.isoformat()}".encode(), digest_size=16).digest()
        labels = {HOSTNAME: spec.name, **spec.labels}
        taints: list[Json] = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in spec.taints]
        node = ClusterNode(spec, str(uuid.UUID(bytes=identity, version=4)), at, labels, taints)
        self._nodes[spec.name] = node
        self._changed[spec.name] = None
        return node

    def leave(self, name: str) -> None:
        """A node is gone with its machine."""
        del self._nodes[name]
        self._changed[name] = None

    def patch(self, name: str, body: Mapping[str, Json]) -> ClusterNode:
        """Merge `metadata` and `spec` into a node. Raises ApiRefusal."""
        node = self.find(name)
        meta, spec = body.get("metadata") or {}, body.get("spec") or {}
        # conditions that the body does not name hold, as in the API server
        if meta.get("uid", node.uid) != node.uid or meta.get("resourceVersion", str(node.version)) != str(node.version):
            raise ApiRefusal(
                HTTPStatus.CONFLICT, f'operation cannot be fulfilled on nodes "{name}": the object has been modified'
            )
        node.labels = _merged(node.labels, meta.get("labels"))
        # a merge patch replaces a list as a whole
        node.annotations = _merged(node.annotations, meta.get("annotations"))
        if "taints" in spec:
            node.taints = list(spec["taints"] or ())
        if "unschedulable" in spec:
            node.unschedulable = bool(spec["unschedulable"])
        node.version += 1
        self._changed[name] = None
        return node

    def labelled(self, label: str) -> Sequence[ClusterNode]:
        """The nodes that carry a label; all of them for an empty one."""
        return [node for node in self._nodes.values() if not label or label in node.labels]

    def take_changes(self) -> Sequence[str]:
        """The names of nodes that changed, came or went since the last call, in that order."""
        changed, self._changed = self._changed, {}
        return list(changed)


def _merged(before: Mapping[str, str], change: Mapping[str, str | None] | None) -> dict[str, str]:
    merged: dict[str, str | None] = {**before, **(change or {})}
    # null removes a key: RFC 7386
    return {key: value for key, value in merged.items() if value is not None}
