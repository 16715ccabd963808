"""Changes in the simulated cluster that matter to scheduling, as the API would show them."""

from collections.abc import Mapping
from datetime import datetime

from streams.clients.cluster_port import Pod
from streams.clients.kube.json_objects import Json, ObjectChanges, ObjectName
from streams.simulated import kube_json
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_nodes import CPU, GPUS, ClusterNode
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.kubelet import SimulatedPod, describe_pod

JsonMapping = Mapping[str, object]
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
    body = dict(kube_json.pod(shown))
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


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


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
                ("poddisruptionbudgets", dict(self._budget(deployment)))
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

    def _budget(self, deployment: SimulatedDeployment) -> Json:
        return dict(budget_json(deployment, self._cluster.allowed_disruptions(deployment)))
