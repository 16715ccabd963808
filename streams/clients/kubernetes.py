"""A cluster behind a Kubernetes API server, through the official client's connection and typed decoding of raw answers.

The official client brings credentials, TLS and connections; its models are left out because they cost a hundred times the
decoding. Does not watch (that is a source's later work), does not retry, and never changes a pod without naming its uid.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import urllib3
from kubernetes import client as official
from kubernetes.client import exceptions

from schemas.names import Amounts, PodName
from schemas.units import Seconds
from streams.clients import Pod, PodUsage, amounts, answers, wire
from streams.errors import GiveUp, TryAgain, Unreachable

T = TypeVar("T")
_ACCEPTED = 300
PATIENCE = Seconds(10.0)


class KubernetesClient:
    """`cluster` is the name under which this cluster stands in the log; `api` a configured connection."""

    def __init__(self, cluster: str, api: official.ApiClient, *, timeout: Seconds = PATIENCE) -> None:
        """`timeout` bounds each call, in seconds."""
        self._cluster, self._api, self._timeout = cluster, api, timeout

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        doing = "listing pods of"
        listed = self._read("/api/v1/pods", wire.PodList, doing=doing, to=self._cluster)
        pods = [self._pod(pod, doing) for pod in listed.items]
        return sorted(pods, key=lambda pod: (pod.pod.namespace, pod.pod.name))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now; None when there is none."""
        doing = "reading pod"
        path, to = f"/api/v1/namespaces/{namespace}/pods/{name}", f"{namespace}/{name}"
        code, body, after = self._ask("GET", path, doing=doing, to=to)
        if code == 404:  # noqa: PLR2004  # HTTP's "not found", which is an answer here
            return None
        return self._pod(_decoded(_accepted(code, body, after, doing=doing, to=to), wire.PodObject, doing=doing, to=to), doing)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used lately, by namespace and name."""
        doing = "reading usage of"
        listed = self._read("/apis/metrics.k8s.io/v1beta1/pods", wire.PodMetricsList, doing=doing, to=self._cluster)
        try:
            usages = [wire.read_usage(usage) for usage in listed.items]
        except ValueError as error:
            raise _nonsense(error, doing=doing, to=self._cluster) from error
        return sorted(usages, key=lambda usage: (usage.namespace, usage.pod))

    def resize(self, pod: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Patch the resize subresource; the uid in the patch makes the server refuse another pod of the same name."""
        names = sorted(requests.keys() | limits.keys())
        containers = [_resources(name, requests.get(name), limits.get(name)) for name in names]
        body = {"metadata": {"uid": pod.uid}, "spec": {"containers": containers}}
        self._change("PATCH", pod, "resize", body, doing="resizing")

    def evict(self, pod: PodName) -> None:
        """Create an eviction on condition of the uid; the server looks after disruption budgets."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        self._change("POST", pod, "eviction", body, doing="evicting")

    def close(self) -> None:
        """Let go of connections."""
        self._api.rest_client.pool_manager.clear()

    def _change(self, method: str, pod: PodName, subresource: str, body: Mapping[str, object], *, doing: str) -> None:
        path, to = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/{subresource}", f"{pod.namespace}/{pod.name}"
        code, answer, after = self._ask(method, path, doing=doing, to=to, body=body)
        _accepted(code, answer, after, doing=doing, to=to)

    def _read(self, path: str, kind: type[T], *, doing: str, to: str) -> T:
        code, body, after = self._ask("GET", path, doing=doing, to=to)
        return _decoded(_accepted(code, body, after, doing=doing, to=to), kind, doing=doing, to=to)

    def _pod(self, pod: wire.PodObject, doing: str) -> Pod:
        try:
            return wire.read_pod(self._cluster, pod)
        except ValueError as error:
            raise _nonsense(error, doing=doing, to=f"{pod.metadata.namespace}/{pod.metadata.name}") from error

    def _ask(
        self, method: str, path: str, *, doing: str, to: str, body: Mapping[str, object] | None = None
    ) -> tuple[int, bytes, str | None]:
        """Status code, body and Retry-After. Raises Unreachable when there is no answer."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            call = self._api.param_serialize(method, path, header_params=headers, body=body, auth_settings=["BearerToken"])
            response = self._api.call_api(*call, _request_timeout=self._timeout)
            return response.status, response.response.data, response.headers.get("Retry-After")
        except (urllib3.exceptions.HTTPError, exceptions.OpenApiException, OSError) as error:
            answer = f"{type(error).__name__}: {error}"
            raise Unreachable(doing=doing, to=to, answer=answer, after=answers.PATIENCE) from error


def connect(cluster: str, url: str, *, timeout: Seconds = PATIENCE) -> KubernetesClient:
    """A client for a server that asks for no credentials, such as the simulated cluster on loopback."""
    settings = official.Configuration(host=url, retries=False)
    settings.proxy = None
    return KubernetesClient(cluster, official.ApiClient(settings), timeout=timeout)


def _resources(name: str, requests: Amounts | None, limits: Amounts | None) -> dict[str, object]:
    spelled = {"requests": amounts.spell(requests or Amounts()), "limits": amounts.spell(limits or Amounts())}
    return {"name": name, "resources": {kind: quantities for kind, quantities in spelled.items() if quantities}}


def _accepted(code: int, body: bytes, after: str | None, *, doing: str, to: str) -> bytes:
    if code < _ACCEPTED:
        return body
    raise _refusal(code, body, after, doing=doing, to=to)


def _refusal(code: int, body: bytes, after: str | None, *, doing: str, to: str) -> TryAgain | GiveUp:
    """The server's own words where it speaks Kubernetes, else the beginning of what it said."""
    try:
        status = msgspec.json.decode(body, type=wire.Status)
    except ValueError:
        status = wire.Status(message=body[:200].decode(errors="replace"))
    wait = float(after) if after is not None and after.isdigit() else 0.0
    if status.details is not None:
        wait = wait or status.details.retry_after_seconds
    message = status.message or status.reason
    return answers.refused(doing=doing, to=to, code=code, message=message, after=Seconds(wait) if wait else None)


def _decoded(body: bytes, kind: type[T], *, doing: str, to: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError as error:
        raise _nonsense(error, doing=doing, to=to) from error


def _nonsense(error: ValueError, *, doing: str, to: str) -> TryAgain:
    return TryAgain(doing=doing, to=to, answer=f"an answer that cannot be read: {error}", after=answers.PATIENCE)
