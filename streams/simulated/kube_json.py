"""Pods, nodes, usage and refusals of the simulated cluster as Kubernetes spells them in JSON, and what changes between two looks.

It writes only what this program's client reads; a deployment's pod carries the ReplicaSet as its controller, as in a real
cluster.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from schemas import admission_notes
from schemas.facts.pods import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.well_known_labels import ADMISSION_NOTE
from streams.clients.cluster_port import OOMKill, Pod, PodUsage
from streams.clients.kube import quantities
from streams.clients.kube.json_objects import Json, ObjectChanges, ObjectName
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_nodes import CPU, GPUS, ClusterNode
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.kubelet import KIB, NANO, SimulatedPod, describe_pod
from streams.simulated.pod_admission import ApiRefusal

JsonMapping = Mapping[str, object]

# since Kubernetes 1.33 these conditions say what `status.resize` said before (KEP-1287)
_CONDITIONS: Mapping[ResizeState, tuple[str, str]] = {
    ResizeState.IN_PROGRESS: ("PodResizeInProgress", ""),
    ResizeState.DEFERRED: ("PodResizePending", "Deferred"),
    ResizeState.INFEASIBLE: ("PodResizePending", "Infeasible"),
}


def pod_list(pods: Sequence[Pod]) -> JsonMapping:
    """A PodList."""
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod(described) for described in pods]}


def pod(pod: Pod) -> JsonMapping:
    """A Pod."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata(pod),
        "spec": {
            "nodeName": pod.node,
            "containers": [_container(pod, c.name) for c in pod.containers],
            "initContainers": [_init_container(c) for c in pod.init_containers],
            # a spec without the object means that the pod has no amounts of its own
            **({"resources": own} if (own := _resources(pod.requests, pod.limits)) else {}),
        },
        "status": _status(pod),
    }


def metrics_list(usages: Sequence[PodUsage]) -> JsonMapping:
    """A PodMetricsList, in metrics-server's units: nanocores and KiB."""
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": [metrics(usage) for usage in usages]}


def lease(name: str, renewed: datetime) -> JsonMapping:
    """A Lease that was renewed then."""
    metadata = {"name": name, "uid": f"lease-{name}", "creationTimestamp": _time(renewed)}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": {"renewTime": _time(renewed)}}


def status(refusal: ApiRefusal) -> JsonMapping:
    """A refusal."""
    # in the body too, as an API server does: not every client hands on the header
    details: dict[str, object] = {} if refusal.after is None else {"retryAfterSeconds": int(refusal.after)}
    if refusal.cause:
        details["causes"] = [{"reason": refusal.cause, "message": refusal.message}]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": refusal.code,
        "message": refusal.message,
        "details": details,
    }


def metadata(pod: Pod) -> JsonMapping:
    """A pod's metadata."""
    # not the Deployment: a client has to find it through the ReplicaSet, as in a real cluster
    kind, _, name = pod.controller.partition("/")
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    noted = {} if pod.admitted is None else {"annotations": {ADMISSION_NOTE: admission_notes.write(pod.admitted)}}
    return {
        "namespace": pod.pod.namespace,
        "name": pod.pod.name,
        "uid": pod.pod.uid,
        "resourceVersion": pod.version,
        "creationTimestamp": _time(pod.created),
        "labels": dict(pod.labels),
        "ownerReferences": [owner] if kind else [],
        **noted,
    }


def _container(pod: Pod, name: str) -> JsonMapping:
    return {"name": name, "resources": _resources(pod.asked_requests[name], pod.asked_limits[name])}


def _init_container(container: ContainerSeen) -> JsonMapping:
    # what is in force: nothing here resizes them
    policy = {"restartPolicy": "Always"} if container.sidecar else {}
    return {"name": container.name, "resources": _resources(container.requests, container.limits), **policy}


def _resources(requests: Amounts, limits: Amounts) -> JsonMapping:
    spelled = {"requests": quantities.spell_amounts(requests), "limits": quantities.spell_amounts(limits)}
    # API servers leave empty amounts out, too
    return {kind: texts for kind, texts in spelled.items() if texts}


def _status(pod: Pod) -> JsonMapping:
    body: dict[str, object] = {"phase": pod.phase.value, "conditions": []}
    if pod.resize in _CONDITIONS:
        kind, reason = _CONDITIONS[pod.resize]
        body["conditions"] = [{"type": kind, "status": "True", "reason": reason}]
    if pod.started is not None:
        body["startTime"] = _time(pod.started)
        kills = {kill.container: kill for kill in pod.ooms}
        body["containerStatuses"] = [_container_status(c, kills.get(c.name)) for c in pod.containers]
        body["initContainerStatuses"] = [_container_status(c, None) for c in pod.init_containers]
    return body


def _container_status(container: ContainerSeen, kill: OOMKill | None) -> JsonMapping:
    # the kill already counts the restart that is still to come
    waiting = kill is not None and kill.restarts > container.restarts
    state: JsonMapping = {"waiting": {"reason": "CrashLoopBackOff"}} if waiting else {"running": {}}
    ended: JsonMapping = {}
    if container.last_run is not None:
        run = container.last_run
        times = {"finishedAt": _time(run.ended)} | ({} if run.started is None else {"startedAt": _time(run.started)})
        # 137 is 128 + SIGKILL, by which the kernel ends a container
        ended = {"terminated": {"reason": run.reason, "exitCode": 137, **times}}
    return {
        "name": container.name,
        "restartCount": container.restarts,
        "ready": container.ready,
        "state": state,
        "lastState": ended,
        "resources": _resources(container.requests, container.limits),
    }


def metrics(usage: PodUsage) -> JsonMapping:
    """A PodMetrics."""
    return {
        "metadata": {"namespace": usage.namespace, "name": usage.pod},
        "timestamp": _time(usage.at),
        "window": f"{int(usage.window)}s",
        "containers": [{"name": name, "usage": _usage(used)} for name, used in usage.containers.items()],
    }


def _usage(used: Amounts) -> JsonMapping:
    spelled = {}
    if used.cpu is not None:
        # whole nanocores and KiB, as the cluster computes them: over HTTP and in memory the numbers are the same
        spelled["cpu"] = f"{round(used.cpu * NANO)}n"
    if used.memory is not None:
        spelled["memory"] = f"{used.memory // KIB}Ki"
    return spelled


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


_READY = {"type": "Ready", "status": "True"}
_WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def node_json(shown: ClusterNode) -> JsonMapping:
    """A Node."""
    amounts = {name: f"{amount}m" if name == CPU else str(amount) for name, amount in shown.amounts.items()}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": shown.name,
            "uid": shown.uid,
            "resourceVersion": str(shown.version),
            "creationTimestamp": _time(shown.created),
            "labels": shown.labels,
            "annotations": shown.annotations,
        },
        "spec": {"providerID": shown.spec.provider_id, "unschedulable": shown.unschedulable, "taints": shown.taints},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [_READY]},
    }


def pod_json(shown: Pod, simulated: SimulatedPod) -> JsonMapping:
    """A Pod with what it asks of its node."""
    body = dict(pod(shown))
    deployment = simulated.deployment
    spec: dict[str, object] = {**body["spec"]}  # type: ignore[dict-item]  # an object, as written above
    spec["nodeSelector"] = dict(deployment.node_selector)
    spec["tolerations"] = [
        {"key": toleration.key, "operator": toleration.operator, "value": toleration.value, "effect": toleration.effect}
        for toleration in deployment.tolerations
    ]
    if deployment.gpus:
        spec["containers"] = [
            *spec["containers"],  # type: ignore[misc]  # a list, as written above
            # a container of its own, for GPUs are no amounts of the simulated containers
            {"name": "gpus", "resources": {"requests": {GPUS: str(deployment.gpus)}}},
        ]
    if shown.node is None:
        body["status"] = {"phase": shown.phase.value, "conditions": [_WAITS]}
    return {**body, "spec": spec}


def budget_json(deployment: SimulatedDeployment, allowed: int) -> JsonMapping:
    """The PodDisruptionBudget of a deployment."""
    return {
        "metadata": {"namespace": deployment.namespace, "name": deployment.name},
        "spec": {"selector": {"matchLabels": {"app": deployment.name}}},
        "status": {"disruptionsAllowed": allowed, "desiredHealthy": deployment.keep, "expectedPods": deployment.replicas},
    }


def replica_set_json(deployment: SimulatedDeployment, name: str, wanted: int) -> JsonMapping:
    """The ReplicaSet of a deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name, "controller": True}
    metadata = {"namespace": deployment.namespace, "name": name, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"replicas": wanted}}


class SchedulingChanges:
    """Polls a cluster; each poll returns what differs from the one before, and the first one returns everything."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._replica_sets: dict[str, SimulatedDeployment] = {}
        self._looked = False

    def take(self) -> ObjectChanges:
        """All changes since the last call."""
        with self._cluster.lock:
            seen: list[tuple[str, Json]] = []
            gone: list[ObjectName] = []
            self._nodes(seen, gone)
            self._pods(seen, gone)
            self._looked = True
            # at each look: what a budget allows changes with every pod
            seen += [
                ("poddisruptionbudgets", dict(budget_json(deployment, self._cluster.allowed_disruptions(deployment))))
                for deployment in self._cluster.deployments
                if deployment.keep
            ]
        return ObjectChanges(seen, gone)

    def _nodes(self, seen: list[tuple[str, Json]], gone: list[ObjectName]) -> None:
        # the first look tells everything, as the list does before a watch
        there = [] if self._looked else [node.name for node in self._cluster.nodes]
        for name in dict.fromkeys((*there, *self._cluster.nodes.take_changes())):
            node = self._cluster.nodes.get(name)
            if node is None:
                gone.append(ObjectName("nodes", name))
            else:
                seen.append(("nodes", dict(node_json(node))))

    def _pods(self, seen: list[tuple[str, Json]], gone: list[ObjectName]) -> None:
        """Pods, each after the ReplicaSet that made it."""
        there = {} if self._looked else {key: pod.name.uid for key, pod in self._cluster.pods_by_name.items()}
        for (namespace, name), uid in {**there, **self._cluster.take_pod_changes()}.items():
            pod = self._cluster.pods_by_name.get((namespace, name))
            if pod is None:
                gone.append(ObjectName("pods", name, namespace, uid))
                continue
            # once: whoever has it knows the owner of all further pods
            if pod.replica_set not in self._replica_sets:
                self._replica_sets[pod.replica_set] = pod.deployment
                wanted = max(self._cluster.wanted(pod.deployment), 1)
                seen.append(("replicasets", dict(replica_set_json(pod.deployment, pod.replica_set, wanted))))
            seen.append(("pods", dict(pod_json(describe_pod(self._cluster.name, pod), pod))))
