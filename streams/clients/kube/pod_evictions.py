"""The request by which the eviction API evicts a pod. The server enforces disruption budgets."""

from schemas.names import PodName
from schemas.units import Seconds
from streams.clients.kube import api_paths
from streams.clients.kube.api import ApiRequest

_CORE = api_paths.root("v1")


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
