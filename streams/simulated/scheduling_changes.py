"""Changes in the simulated cluster that matter to scheduling, as the API would show them."""

from streams.clients.kube.json_objects import Json
from streams.clients.kube.object_changes import ObjectChanges, ObjectName
from streams.simulated import scheduling_json
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.pod_description import describe_pod


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
            seen += [
                ("poddisruptionbudgets", dict(self._budget(deployment)))
                for deployment in self._cluster.deployments
                if deployment.keep
            ]
        return ObjectChanges(seen, gone)

    def _nodes(self, seen: list[tuple[str, Json]], gone: list[ObjectName]) -> None:
        there = [] if self._looked else [node.name for node in self._cluster.nodes]
        for name in dict.fromkeys((*there, *self._cluster.nodes.take_changes())):
            node = self._cluster.nodes.get(name)
            if node is None:
                gone.append(ObjectName("nodes", name))
            else:
                seen.append(("nodes", dict(scheduling_json.node(node))))

    def _pods(self, seen: list[tuple[str, Json]], gone: list[ObjectName]) -> None:
        """Pods, each after the ReplicaSet that made it."""
        there = {} if self._looked else {key: pod.name.uid for key, pod in self._cluster.pods_by_name.items()}
        for (namespace, name), uid in {**there, **self._cluster.take_pod_changes()}.items():
            pod = self._cluster.pods_by_name.get((namespace, name))
            if pod is None:
                gone.append(ObjectName("pods", name, namespace, uid))
                continue
            if pod.replica_set not in self._replica_sets:
                self._replica_sets[pod.replica_set] = pod.deployment
                wanted = max(self._cluster.wanted(pod.deployment), 1)
                seen.append(("replicasets", dict(scheduling_json.replica_set(pod.deployment, pod.replica_set, wanted))))
            seen.append(("pods", dict(scheduling_json.pod(describe_pod(self._cluster.name, pod), pod))))

    def _budget(self, deployment: SimulatedDeployment) -> Json:
        return dict(scheduling_json.budget(deployment, self._cluster.allowed_disruptions(deployment)))
