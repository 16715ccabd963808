"""What is watched, and where it stands on the server: in the whole cluster, or in some namespaces only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from streams.clients.kube.list_watch import Resource
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import (
    CheckpointObject,
    ControllerObject,
    CronJobObject,
    EventObject,
    LimitRangeObject,
    Named,
    NodeObject,
    ReplicationControllerObject,
    VpaObject,
)

T = TypeVar("T", bound=Named)
_VPA = "/apis/autoscaling.k8s.io/v1"
CONTROLLERS: Mapping[str, str] = {
    "replicasets": "ReplicaSet",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
    "cronjobs": "CronJob",
    "replicationcontrollers": "ReplicationController",
}
"""Watched names of controllers, and their kinds."""
NODES: Resource[Named] = Resource("nodes", "/api/v1/nodes", NodeObject)
CHECKPOINTS = Resource("verticalpodautoscalercheckpoints", f"{_VPA}/verticalpodautoscalercheckpoints", CheckpointObject)
_IN_NAMESPACES: Sequence[Resource[Named]] = (
    Resource("replicasets", "/apis/apps/v1/replicasets", ControllerObject),
    Resource("deployments", "/apis/apps/v1/deployments", ControllerObject),
    Resource("statefulsets", "/apis/apps/v1/statefulsets", ControllerObject),
    Resource("daemonsets", "/apis/apps/v1/daemonsets", ControllerObject),
    Resource("jobs", "/apis/batch/v1/jobs", ControllerObject),
    Resource("cronjobs", "/apis/batch/v1/cronjobs", CronJobObject),
    Resource("replicationcontrollers", "/api/v1/replicationcontrollers", ReplicationControllerObject),
    Resource("pods", "/api/v1/pods", PodObject),
    Resource("verticalpodautoscalers", f"{_VPA}/verticalpodautoscalers", VpaObject),
    Resource("limitranges", "/api/v1/limitranges", LimitRangeObject),
    Resource("events", "/api/v1/events", EventObject, select="reason=Evicted", bookmarks=False),
)


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch; `kind` is what it is of, and the resource's name says where, too."""

    kind: str
    resource: Resource[Named]


def watches(namespaces: Sequence[str] = ()) -> tuple[Watch, ...]:
    """All that is to be watched, controllers first. No namespaces means all of them."""
    found = [Watch(each.name, each) for each in _IN_NAMESPACES]
    if namespaces:
        found = [Watch(each.name, namespaced(each, namespace)) for each in _IN_NAMESPACES for namespace in namespaces]
    return (*found, Watch("nodes", NODES))


def namespaced(resource: Resource[T], namespace: str) -> Resource[T]:
    """The resource in one namespace."""
    root, _, plural = resource.path.rpartition("/")
    return replace(resource, name=f"{resource.name} in {namespace}", path=f"{root}/namespaces/{namespace}/{plural}")
