"""A cluster behind a Kubernetes API server: the cluster port for real clusters.

It does not watch (that is a source's work), does not retry, and never changes a pod without naming its uid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from schemas.names import Amounts, PodName
from schemas.units import Seconds
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube import api_paths, pod_objects, quantities
from streams.clients.kube.api import (
    MOST_IN_ONE_LIST,
    STRATEGIC_MERGE_PATCH,
    TIMEOUT,
    Api,
    ApiRequest,
    accepted_body,
    unreadable_error,
)
from streams.clients.kube.official_client import client as official
from streams.clients.kube.pod_objects import ObjectMeta, Time

_CORE = api_paths.root("v1")
_METRICS = api_paths.root("metrics.k8s.io/v1beta1")


class ContainerMetrics(msgspec.Struct, frozen=True, gc=False):
    """What one container used, as quantities."""

    name: str
    usage: dict[str, str]


class PodMetrics(msgspec.Struct, frozen=True, gc=False):
    """What one pod used, as metrics.k8s.io reports it."""

    metadata: ObjectMeta
    timestamp: Time
    window: str
    containers: list[ContainerMetrics]


class PodMetricsList(msgspec.Struct, frozen=True, gc=False):
    """The answer to a list of pod metrics."""

    items: list[PodMetrics]


def read_usage(usage: PodMetrics) -> PodUsage:
    """A usage as the cluster port has it. Raises ValueError for a bad quantity or window."""
    return PodUsage(
        namespace=usage.metadata.namespace,
        pod=usage.metadata.name,
        at=usage.timestamp,
        window=quantities.parse_duration(usage.window),
        containers={container.name: quantities.read_amounts(container.usage) for container in usage.containers},
    )


class KubernetesClient:
    """`cluster` is the name of this cluster in the log; `api` is a configured connection."""

    def __init__(self, cluster: str, api: official.ApiClient, *, timeout: Seconds = TIMEOUT) -> None:
        """`timeout` bounds each call, in seconds."""
        self._cluster, self._api = cluster, Api(api, timeout=timeout)

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        request = ApiRequest(f"{_CORE}/pods", "listing pods of", self._cluster, most_bytes=MOST_IN_ONE_LIST)
        pods = [self._pod(pod, request) for pod in self._api.read(request, pod_objects.PodList).items]
        return sorted(pods, key=lambda pod: (pod.pod.namespace, pod.pod.name))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now; None when there is none."""
        request = ApiRequest(api_paths.scoped(_CORE, namespace, "pods", name), "reading pod", f"{namespace}/{name}")
        pod = self._api.find(request, pod_objects.PodObject)
        return None if pod is None else self._pod(pod, request)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used lately, by namespace and name."""
        request = ApiRequest(f"{_METRICS}/pods", "reading usage of", self._cluster, most_bytes=MOST_IN_ONE_LIST)
        # In one list, because metrics.k8s.io has no pages.
        listed = self._api.read(request, PodMetricsList)
        try:
            usages = [read_usage(usage) for usage in listed.items]
        except ValueError as error:
            raise unreadable_error(error, request) from error
        return sorted(usages, key=lambda usage: (usage.namespace, usage.pod))

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """What one pod used lately; None when nobody measured it yet."""
        request = ApiRequest(api_paths.scoped(_METRICS, namespace, "pods", name), "reading usage of", f"{namespace}/{name}")
        usage = self._api.find(request, PodMetrics)
        try:
            return None if usage is None else read_usage(usage)
        except ValueError as error:
            raise unreadable_error(error, request) from error

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Patch the resize subresource, on condition of the uid and of the version that was read."""
        # In the pod's order, because a merged list takes the order of the patch, and the server refuses a resize that reorders
        # containers.
        changed = requests.keys() | limits.keys()
        order = [container.name for container in pod.containers if container.name in changed]
        names = order + sorted(changed - set(order))
        containers = [_resources(name, requests.get(name), limits.get(name)) for name in names]
        metadata = {"uid": pod.pod.uid, **({"resourceVersion": pod.version} if pod.version else {})}
        body = {"metadata": metadata, "spec": {"containers": containers}}
        about = _pod_request(pod.pod, "resize", "resizing")
        request = replace(about, method="PATCH", body=body, content_type=STRATEGIC_MERGE_PATCH)
        accepted_body(self._api.send(request), request)

    def evict(self, pod: PodName) -> None:
        """Create an eviction on condition of the uid. The server enforces disruption budgets."""
        request = eviction_request(pod)
        accepted_body(self._api.send(request), request)

    def close(self) -> None:
        """Close all connections."""
        self._api.close()

    def _pod(self, pod: pod_objects.PodObject, request: ApiRequest) -> Pod:
        try:
            return pod_objects.read_pod(self._cluster, pod)
        except ValueError as error:
            named = replace(request, to=f"{pod.metadata.namespace}/{pod.metadata.name}")
            raise unreadable_error(error, named) from error


def connect(cluster: str, url: str, *, timeout: Seconds = TIMEOUT) -> KubernetesClient:
    """A client for a server that asks for no credentials, such as the simulated cluster on loopback."""
    # By itself urllib3 would repeat a call whose answer was lost, and so carry it out twice.
    settings = official.Configuration(host=url, retries=False)
    # The official client takes a proxy from the environment, which does not lead to loopback.
    settings.proxy = None
    return KubernetesClient(cluster, official.ApiClient(settings), timeout=timeout)


def _pod_request(pod: PodName, subresource: str, doing: str) -> ApiRequest:
    path = api_paths.scoped(_CORE, pod.namespace, "pods", pod.name, subresource)
    return ApiRequest(path, doing, f"{pod.namespace}/{pod.name}")


def _resources(name: str, requests: Amounts | None, limits: Amounts | None) -> dict[str, object]:
    spelled = {
        "requests": quantities.spell_amounts(requests or Amounts()),
        "limits": quantities.spell_amounts(limits or Amounts()),
    }
    return {"name": name, "resources": {kind: texts for kind, texts in spelled.items() if texts}}


def eviction_request(pod: PodName, grace: Seconds | None = None) -> ApiRequest:
    """The request to evict a pod if it still has its uid. It gets `grace` seconds to end; None means its own grace period."""
    options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
    if grace is not None:
        options["gracePeriodSeconds"] = int(grace)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
    path = api_paths.scoped(_CORE, pod.namespace, "pods", pod.name, "eviction")
    return ApiRequest(path, "evicting", f"{pod.namespace}/{pod.name}", "POST", body)
