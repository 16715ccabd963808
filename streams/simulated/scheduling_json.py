"""What decides which pod runs where, as Kubernetes spells it in JSON: nodes, pods, disruption budgets and ReplicaSets."""

from collections.abc import Mapping
from datetime import datetime

from streams.clients.cluster_port import Pod
from streams.simulated import kube_json
from streams.simulated.cluster_nodes import CPU, GPUS, ClusterNode
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.kubelet import SimulatedPod

JsonMapping = Mapping[str, object]
_READY = {"type": "Ready", "status": "True"}
_WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def node(shown: ClusterNode) -> JsonMapping:
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


def pod(shown: Pod, simulated: SimulatedPod) -> JsonMapping:
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
            {"name": "gpus", "resources": {"requests": {GPUS: str(deployment.gpus)}}},
        ]
    if shown.node is None:
        body["status"] = {"phase": shown.phase.value, "conditions": [_WAITS]}
    return {**body, "spec": spec}


def budget(deployment: SimulatedDeployment, allowed: int) -> JsonMapping:
    """The PodDisruptionBudget of a deployment."""
    return {
        "metadata": {"namespace": deployment.namespace, "name": deployment.name},
        "spec": {"selector": {"matchLabels": {"app": deployment.name}}},
        "status": {"disruptionsAllowed": allowed, "desiredHealthy": deployment.keep, "expectedPods": deployment.replicas},
    }


def replica_set(deployment: SimulatedDeployment, name: str, wanted: int) -> JsonMapping:
    """The ReplicaSet of a deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name, "controller": True}
    metadata = {"namespace": deployment.namespace, "name": name, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"replicas": wanted}}


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
