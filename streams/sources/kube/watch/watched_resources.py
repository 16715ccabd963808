"""The resources that the kube source may watch, and their paths on the server; watch_threads says which of them it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from streams.clients.kube import api_paths, commanding_objects
from streams.clients.kube.autoscaler_specs import AutoscalerObject, HpaObject, PredictionObject
from streams.clients.kube.commanding_objects import ControlObject, PolicyObject
from streams.clients.kube.list_watch_requests import ApiResource
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.scheduling_objects import (
    CapacityBufferObject,
    ClaimObject,
    ConfigMapObject,
    CsiNodeObject,
    DaemonSetObject,
    DetailedNodeObject,
    DisruptionBudgetObject,
    PodTemplateObject,
    ScheduledPodObject,
    StorageClassObject,
    VolumeObject,
)
from streams.clients.kube.watched_objects import (
    CheckpointObject,
    ControllerObject,
    CronJobObject,
    EventObject,
    KubeObject,
    LabelledObject,
    LeaseObject,
    LimitRangeObject,
    NodeObject,
    ReplicationControllerObject,
    ResourceQuotaObject,
    TemplatedController,
    TemplatedReplicationController,
    VpaObject,
)

T = TypeVar("T", bound=KubeObject)
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
"""The watched controllers: from the kind of the watch to the kind of its objects."""
NODES: ApiResource[KubeObject] = ApiResource("nodes", "/api/v1/nodes", NodeObject)
CHECKPOINTS = ApiResource("verticalpodautoscalercheckpoints", f"{_VPA}/verticalpodautoscalercheckpoints", CheckpointObject)
EHPAS: ApiResource[KubeObject] = ApiResource(
    "effectivehorizontalpodautoscalers",
    "/apis/autoscaling.crane.io/v1alpha1/effectivehorizontalpodautoscalers",
    AutoscalerObject,
)
TSPS: ApiResource[KubeObject] = ApiResource(
    "timeseriespredictions", "/apis/prediction.crane.io/v1alpha1/timeseriespredictions", PredictionObject
)
CONTROLS: ApiResource[KubeObject] = ApiResource("clustercontrols", commanding_objects.CONTROLS_PATH, ControlObject)
POLICIES: ApiResource[KubeObject] = ApiResource(commanding_objects.POLICY_PLURAL, commanding_objects.POLICIES_PATH, PolicyObject)
IN_NAMESPACES: Sequence[ApiResource[KubeObject]] = (
    ApiResource("replicasets", "/apis/apps/v1/replicasets", ControllerObject),
    ApiResource("deployments", "/apis/apps/v1/deployments", ControllerObject),
    ApiResource("statefulsets", "/apis/apps/v1/statefulsets", ControllerObject),
    ApiResource("daemonsets", "/apis/apps/v1/daemonsets", ControllerObject),
    ApiResource("jobs", "/apis/batch/v1/jobs", ControllerObject),
    ApiResource("cronjobs", "/apis/batch/v1/cronjobs", CronJobObject),
    ApiResource("replicationcontrollers", "/api/v1/replicationcontrollers", ReplicationControllerObject),
    ApiResource("pods", "/api/v1/pods", PodObject),
    ApiResource("verticalpodautoscalers", f"{_VPA}/verticalpodautoscalers", VpaObject),
    ApiResource("limitranges", "/api/v1/limitranges", LimitRangeObject),
    # API servers send no bookmarks for events, which they keep without a cache.
    ApiResource("events", "/api/v1/events", EventObject, field_selector="reason=Evicted", bookmarks=False),
)
BUDGETS: ApiResource[KubeObject] = ApiResource(
    "poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets", DisruptionBudgetObject
)
QUOTAS: ApiResource[KubeObject] = ApiResource("resourcequotas", "/api/v1/resourcequotas", ResourceQuotaObject)
STORAGE: Sequence[ApiResource[KubeObject]] = (
    ApiResource("persistentvolumeclaims", "/api/v1/persistentvolumeclaims", ClaimObject),
    ApiResource("persistentvolumes", "/api/v1/persistentvolumes", VolumeObject),
    ApiResource("storageclasses", "/apis/storage.k8s.io/v1/storageclasses", StorageClassObject),
    ApiResource("csinodes", "/apis/storage.k8s.io/v1/csinodes", CsiNodeObject),
)
"""Where the volumes of pods are, and how many of them a node attaches."""
BUFFERS: Sequence[ApiResource[KubeObject]] = (
    ApiResource("podtemplates", "/api/v1/podtemplates", PodTemplateObject),
    ApiResource("capacitybuffers", "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers", CapacityBufferObject),
)
"""Room that is to be kept for pods that nobody made yet, and how such pods look."""
NAMESPACES: ApiResource[KubeObject] = ApiResource("namespaces", "/api/v1/namespaces", LabelledObject, metadata=True)
# StatefulSets, DaemonSets and Jobs have no condition that says it.
FAILED_CREATIONS: ApiResource[KubeObject] = ApiResource(
    "failed creations", "/api/v1/events", EventObject, field_selector="reason=FailedCreate", bookmarks=False
)
"""The events of controllers that cannot make a pod."""
HPAS: ApiResource[KubeObject] = ApiResource(
    "horizontalpodautoscalers", "/apis/autoscaling/v2/horizontalpodautoscalers", HpaObject
)
# Watched in place of the plain ones, which are enough where nobody scales nodes.
DETAILED: Mapping[str, ApiResource[KubeObject]] = {
    "pods": ApiResource("pods", "/api/v1/pods", ScheduledPodObject),
    "nodes": ApiResource("nodes", "/api/v1/nodes", DetailedNodeObject),
    "daemonsets": ApiResource("daemonsets", "/apis/apps/v1/daemonsets", DaemonSetObject),
    "deployments": ApiResource("deployments", "/apis/apps/v1/deployments", TemplatedController),
    "replicasets": ApiResource("replicasets", "/apis/apps/v1/replicasets", TemplatedController),
    "statefulsets": ApiResource("statefulsets", "/apis/apps/v1/statefulsets", TemplatedController),
    "jobs": ApiResource("jobs", "/apis/batch/v1/jobs", TemplatedController),
    "replicationcontrollers": ApiResource(
        "replicationcontrollers", "/api/v1/replicationcontrollers", TemplatedReplicationController
    ),
}
"""The same objects, read with all that decides which pod runs where."""


@dataclass(frozen=True, slots=True)
class ResourceWatch:
    """One watch. `kind` says what it shows (`pods`); the resource's name, which is also the watch's, says where, too."""

    kind: str
    resource: ApiResource[KubeObject]

    @property
    def name(self) -> str:
        """The watch's name, for people and for its sync status."""
        return self.resource.name


@dataclass(frozen=True, slots=True)
class WebhookLease:
    """The Lease by which a webhook shows that it is running."""

    namespace: str
    name: str

    @property
    def watch(self) -> ResourceWatch:
        """The watch of this one object."""
        path = api_paths.scoped("/apis/coordination.k8s.io/v1", self.namespace, "leases")
        return ResourceWatch("leases", ApiResource("leases", path, LeaseObject, field_selector=f"metadata.name={self.name}"))


PRIORITIES = "expander priorities"
"""The name of the watch of that ConfigMap: it is no watch of all of them."""


@dataclass(frozen=True, slots=True)
class PrioritiesMap:
    """The ConfigMap of the priority expander."""

    namespace: str
    name: str

    @property
    def watch(self) -> ResourceWatch:
        """The watch of this one object."""
        path = api_paths.scoped("/api/v1", self.namespace, "configmaps")
        resource = ApiResource(PRIORITIES, path, ConfigMapObject, field_selector=f"metadata.name={self.name}")
        return ResourceWatch(PRIORITIES, resource)


def namespaced(resource: ApiResource[T], namespace: str) -> ApiResource[T]:
    """The resource in one namespace only; of namespaces, which are in none, the one itself."""
    if resource.name == NAMESPACES.name:  # a right to this one by its name allows no list of all
        return replace(resource, name=f"namespace {namespace}", field_selector=f"metadata.name={namespace}")
    root, _, plural = resource.path.rpartition("/")
    return replace(resource, name=f"{resource.name} in {namespace}", path=api_paths.scoped(root, namespace, plural))
