"""What one test has in the cluster: a namespace of its own with Deployments, VPAs and budgets, and the kubelet's bad days.

Everything is made and looked at by plain questions; what comes back is the server's own JSON. Nodes belong to the whole cluster
and are deleted at the end, as is the namespace.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.controlplane.api_requests import Asking, Refused, wait_for

_numbers = itertools.count(1)
VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers"
Resources = Mapping[str, Mapping[str, str]]
SMALL: Resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}


class World:
    """One namespace, made at once."""

    def __init__(self, ask: Asking) -> None:
        self.ask = ask
        self.namespace = f"t{os.getpid()}-{next(_numbers)}"
        self._nodes: list[str] = []
        self.ask.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def close(self) -> None:
        """The namespace goes in the background; nobody else uses its name."""
        self.ask.delete(f"/api/v1/namespaces/{self.namespace}")
        for node in self._nodes:
            self.ask.delete(f"/api/v1/nodes/{node}")

    def path(self, kind: str, name: str = "") -> str:
        """`path("pods")`, `path("deployments", "web")`: where the server keeps it."""
        group = {"deployments": "/apis/apps/v1", "poddisruptionbudgets": "/apis/policy/v1", "vpas": "/apis/autoscaling.k8s.io/v1"}
        kind_there = "verticalpodautoscalers" if kind == "vpas" else kind
        whole = f"{group.get(kind, '/api/v1')}/namespaces/{self.namespace}/{kind_there}"
        return f"{whole}/{name}" if name else whole

    def add_nodes(
        self, count: int, *, cpu: str = "4", memory: str = "16Gi", labels: Mapping[str, str] | None = None
    ) -> list[str]:
        """Ready and untainted when this returns."""
        names = [f"n{os.getpid()}-{next(_numbers)}" for _ in range(count)]
        self._nodes += names
        make_nodes(self.ask, names, cpu=cpu, memory=memory, labels=labels or {})
        return names

    def deployment(
        self,
        name: str,
        containers: Mapping[str, Resources] | None = None,
        *,
        replicas: int = 1,
        spec: Mapping[str, object] | None = None,
        annotations: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> list[Any]:
        """Make it; its pods once all run. Labels: `app=NAME`. `spec` adds to the pod's spec, `annotations` to the pod's."""
        listed = [{"name": key, "image": "x", "resources": value} for key, value in (containers or {"app": SMALL}).items()]
        metadata = {"labels": {"app": name}, "annotations": dict(annotations or {})}
        pod = {"containers": listed, "terminationGracePeriodSeconds": 0, **(spec or {})}
        whole = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": pod},
        }
        self.ask.post(self.path("deployments"), {"metadata": {"name": name}, "spec": whole})
        return self.running(name, replicas) if wait else []

    def pods(self, app: str) -> list[Any]:
        """The pods with label `app`, by name, leaving ones, too."""
        found = self.ask.get(f"{self.path('pods')}?labelSelector=app%3D{app}")["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def running(self, app: str, count: int) -> list[Any]:
        """Exactly `count` running pods with label `app`, waited for."""

        def all_run() -> list[Any] | None:
            pods = [pod for pod in self.pods(app) if "deletionTimestamp" not in pod["metadata"]]
            good = len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)
            return pods if good else None

        def instead() -> list[Any]:
            nodes = self.ask.get("/api/v1/nodes")["items"]
            conditions = [(node["metadata"]["name"], node["spec"], node["status"].get("conditions")) for node in nodes]
            return [(pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"]) for pod in self.pods(app)] + conditions

        awaited = f"{count} pods of '{app}' run in '{self.namespace}'"
        return wait_for(all_run, what=awaited, instead=instead) if count else []

    def vpa(self, name: str, target: str, *, kind: str = "Deployment", spec: Mapping[str, object] | None = None) -> Any:
        """A VPA of the upstream type on `kind`/`target`; `spec` adds to its spec."""
        group = "apps/v1" if kind in {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"} else "v1"
        whole = {"targetRef": {"apiVersion": group, "kind": kind, "name": target}, **(spec or {})}
        about = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name}}
        return self.ask.post(self.path("vpas"), {**about, "spec": whole})

    def budget(self, app: str, **spec: object) -> None:
        """A disruption budget on `app`, in force: `budget("web", maxUnavailable=1)`."""
        whole = {"selector": {"matchLabels": {"app": app}}, **spec}
        self.ask.post(self.path("poddisruptionbudgets"), {"metadata": {"name": app}, "spec": whole})
        counted = lambda: self.ask.get(self.path("poddisruptionbudgets", app)).get("status", {}).get("currentHealthy")  # noqa: E731
        wait_for(counted, what=f"the disruption budget of '{app}' has counted its pods")

    def oom_kill(self, pod: str, container: str, *, at: datetime | None = None) -> None:
        """As the kubelet reports it: the last run of the container was killed, the next one is on."""
        statuses = self.ask.get(self.path("pods", pod))["status"]["containerStatuses"]
        ended = (at or datetime.now(UTC)).isoformat(timespec="seconds").replace("+00:00", "Z")
        for status in statuses:
            if status["name"] == container:
                began = status["state"]["running"]["startedAt"]
                killed = {"exitCode": 137, "reason": "OOMKilled", "startedAt": began, "finishedAt": ended}
                status["lastState"] = {"terminated": killed}
                status["state"] = {"running": {"startedAt": ended}}
                status["restartCount"] += 1
        self.ask.patch(f"{self.path('pods', pod)}/status", {"status": {"containerStatuses": statuses}})

    def status_of(self, pod: str) -> Any:
        return self.ask.get(self.path("pods", pod))["status"]

    def resources_in_force(self, pod: str, container: str) -> Any:
        """What the kubelet says is in force."""
        return next(status["resources"] for status in self.status_of(pod)["containerStatuses"] if status["name"] == container)


def make_nodes(ask: Asking, names: Sequence[str], *, cpu: str, memory: str, labels: Mapping[str, str]) -> None:
    """Nodes as a cloud would make them; waits until pods may be put there."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    for name in names:
        metadata = {"name": name, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, **labels}}
        ask.post("/api/v1/nodes", {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})
    for name in names:
        wait_for(lambda name=name: _open(ask.get(f"/api/v1/nodes/{name}")), what=f"node '{name}' is ready")  # type: ignore[misc]  # mypy cannot infer a lambda with a default


def _open(node: Any) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    return ready and not node["spec"].get("taints")


__all__ = ["Refused", "World", "make_nodes"]
