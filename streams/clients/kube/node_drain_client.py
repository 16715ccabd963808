"""Nodes that are being drained: their marks, their pods, and the evictions of these.

It retries nothing, and deletes pods only through the eviction API.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from schemas.names import PodName
from schemas.units import Seconds
from schemas.well_known_labels import MIRROR_POD
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.cluster_client import eviction_request
from streams.clients.kube.json_objects import Json
from streams.clients.kube.pod_objects import AnnotatedMeta

_CORE = api_paths.root("v1")
_FINISHED = ("Succeeded", "Failed")
_PAGE = 500
"""Nodes of one answer where all of them are looked through."""


@dataclass(frozen=True, slots=True)
class DrainableNode:
    """A node as it is now. `taints` are the API's own objects, to be put back as they were."""

    name: str
    uid: str
    version: str
    provider_id: str = ""
    unschedulable: bool = False
    taints: tuple[Json, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod on a node. `grace` is its own grace period; `stays`: it belongs to the node (a mirror pod, or a DaemonSet's)."""

    pod: PodName
    leaving: bool = False
    finished: bool = False
    stays: bool = False
    grace: Seconds = Seconds(30.0)


class _NodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: list[dict[str, Any]] | None = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    metadata: AnnotatedMeta
    spec: _NodeSpec = _NodeSpec()


class _ListMeta(msgspec.Struct, frozen=True, gc=False):
    token: str = msgspec.field(default="", name="continue")


class _Nodes(msgspec.Struct, frozen=True, gc=False):
    items: list[_Node]
    metadata: _ListMeta = _ListMeta()


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    termination_grace_period_seconds: float | None = None


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: AnnotatedMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Pods(msgspec.Struct, frozen=True, gc=False):
    items: list[_Pod]


class NodeDrainClient:
    """Nodes and their pods behind one API server. Every call raises Unreachable, TryAgain and GiveUp, and nothing else."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def node(self, name: str) -> DrainableNode | None:
        """The node that has this name now; None when there is none."""
        node = self._api.find(ApiRequest(api_paths.unscoped(_CORE, "nodes", name), "reading node", name), _Node)
        return None if node is None else _read_node(node)

    def labelled(self, label: str) -> list[DrainableNode]:
        """The nodes that carry a label, whatever its value."""
        request = ApiRequest(f"{_CORE}/nodes?labelSelector={quote(label)}", "listing nodes with label", label)
        return [_read_node(node) for node in self._api.read(request, _Nodes).items]

    def of_instance(self, instance: str) -> str | None:
        """The name of the node that is this instance by its provider id or its own name; None if there is none."""
        token, pages = "", PageTokens("listing nodes to find instance", instance)
        while True:
            path = f"{_CORE}/nodes?limit={_PAGE}" + (f"&continue={quote(token, safe='')}" if token else "")
            page = self._api.read(ApiRequest(path, "listing nodes to find instance", instance), _Nodes)
            for node in page.items:
                name = node.metadata.name
                # A node without a provider id may be named by its instance, with a domain behind.
                if instance in (node.spec.provider_id.rpartition("/")[2], name, name.partition(".")[0]):
                    return name
            token = pages.following(page.metadata.token)
            if not token:
                return None

    def change(self, node: DrainableNode, *, metadata: Json, spec: Json) -> None:
        """Merge this into a node, if it has not changed since it was read."""
        # With the uid and the version that were read, so that the server refuses it when somebody was faster.
        body = {"metadata": {**metadata, "uid": node.uid, "resourceVersion": node.version}, "spec": spec}
        path = api_paths.unscoped(_CORE, "nodes", node.name)
        request = ApiRequest(path, "changing node", node.name, "PATCH", body, MERGE_PATCH)
        accepted_body(self._api.send(request), request)

    def pods(self, node: str) -> list[NodePod]:
        """The pods that are bound to a node."""
        path = f"{_CORE}/pods?fieldSelector={quote(f'spec.nodeName={node}')}"
        listed = self._api.read(ApiRequest(path, "listing pods of node", node), _Pods)
        return [_read_pod(pod) for pod in listed.items]

    def pod_uid(self, namespace: str, name: str) -> str | None:
        """The uid of the pod that has this name now; None when there is none."""
        path = api_paths.scoped(_CORE, namespace, "pods", name)
        pod = self._api.find(ApiRequest(path, "reading pod", f"{namespace}/{name}"), _Pod)
        return None if pod is None else pod.metadata.uid

    def evict(self, pod: PodName, grace: Seconds) -> None:
        """Ask for a pod's eviction, which disruption budgets may refuse; it then gets `grace` seconds to end."""
        request = eviction_request(pod, grace)  # it names the pod's uid, so that no successor of the same name is evicted
        accepted_body(self._api.send(request), request)


def _read_node(node: _Node) -> DrainableNode:
    meta, spec = node.metadata, node.spec
    return DrainableNode(
        meta.name,
        meta.uid,
        meta.resource_version,
        spec.provider_id,
        spec.unschedulable,
        tuple(spec.taints or ()),
        meta.labels or {},
        meta.annotations or {},
    )


def _read_pod(pod: _Pod) -> NodePod:
    meta, own = pod.metadata, pod.spec.termination_grace_period_seconds
    # A DaemonSet would make its pod again on the same node, drained or not.
    daemon = any(owner.controller and owner.kind == "DaemonSet" for owner in meta.owner_references)
    return NodePod(
        PodName(meta.namespace, meta.name, meta.uid),
        leaving=meta.deletion_timestamp is not None,
        finished=pod.status.phase in _FINISHED,
        stays=daemon or MIRROR_POD in (meta.annotations or {}),
        # Kubernetes' default where a pod names none.
        grace=Seconds(30.0 if own is None else own),
    )
