"""A cluster behind a Kubernetes API server.

Does not watch (that is a source's work), does not retry, and never changes a pod without naming its uid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubernetes import client as official

from schemas.names import Amounts, PodName
from schemas.units import Seconds
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube import amounts, pod_objects
from streams.clients.kube.api import PATIENCE, STRATEGIC, Api, Question, accepted, nonsense


class KubernetesClient:
    """`cluster` is the name under which this cluster stands in the log; `api` a configured connection."""

    def __init__(self, cluster: str, api: official.ApiClient, *, timeout: Seconds = PATIENCE) -> None:
        """`timeout` bounds each call, in seconds."""
        self._cluster, self._api = cluster, Api(api, timeout=timeout)

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        question = Question("/api/v1/pods", "listing pods of", self._cluster)
        pods = [self._pod(pod, question) for pod in self._api.read(question, pod_objects.PodList).items]
        return sorted(pods, key=lambda pod: (pod.pod.namespace, pod.pod.name))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now; None when there is none."""
        question = Question(f"/api/v1/namespaces/{namespace}/pods/{name}", "reading pod", f"{namespace}/{name}")
        found = self._api.find(question, pod_objects.PodObject)
        return None if found is None else self._pod(found, question)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used lately, by namespace and name."""
        question = Question("/apis/metrics.k8s.io/v1beta1/pods", "reading usage of", self._cluster)
        listed = self._api.read(question, pod_objects.PodMetricsList)
        try:
            usages = [pod_objects.read_usage(usage) for usage in listed.items]
        except ValueError as error:
            raise nonsense(error, question) from error
        return sorted(usages, key=lambda usage: (usage.namespace, usage.pod))

    def resize(self, pod: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Patch the resize subresource; the uid in the patch makes the server refuse another pod of the same name."""
        names = sorted(requests.keys() | limits.keys())
        containers = [_resources(name, requests.get(name), limits.get(name)) for name in names]
        body = {"metadata": {"uid": pod.uid}, "spec": {"containers": containers}}
        self._change(_about(pod, "resize", "resizing"), "PATCH", body, STRATEGIC)

    def evict(self, pod: PodName) -> None:
        """Create an eviction on condition of the uid; the server looks after disruption budgets."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        self._change(_about(pod, "eviction", "evicting"), "POST", body, "application/json")

    def close(self) -> None:
        """Let go of connections."""
        self._api.close()

    def _change(self, about: Question, method: str, body: Mapping[str, object], content: str) -> None:
        question = replace(about, method=method, body=body, content=content)
        accepted(self._api.ask(question), question)

    def _pod(self, pod: pod_objects.PodObject, question: Question) -> Pod:
        try:
            return pod_objects.read_pod(self._cluster, pod)
        except ValueError as error:
            named = replace(question, to=f"{pod.metadata.namespace}/{pod.metadata.name}")
            raise nonsense(error, named) from error


def connect(cluster: str, url: str, *, timeout: Seconds = PATIENCE) -> KubernetesClient:
    """A client for a server that asks for no credentials, such as the simulated cluster on loopback."""
    settings = official.Configuration(host=url, retries=False)
    settings.proxy = None
    return KubernetesClient(cluster, official.ApiClient(settings), timeout=timeout)


def _about(pod: PodName, subresource: str, doing: str) -> Question:
    return Question(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/{subresource}", doing, f"{pod.namespace}/{pod.name}")


def _resources(name: str, requests: Amounts | None, limits: Amounts | None) -> dict[str, object]:
    spelled = {"requests": amounts.spell(requests or Amounts()), "limits": amounts.spell(limits or Amounts())}
    return {"name": name, "resources": {kind: quantities for kind, quantities in spelled.items() if quantities}}
