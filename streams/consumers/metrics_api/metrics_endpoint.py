"""Serves external and custom metrics over HTTP, in the API's form.

A request that cannot be answered gets a Status with a sentence: 404 if there is no value, 503 until the log has been read. An
autoscaler that gets no answer does not scale down, and goes by its other metrics. Only API servers that forward requests may ask,
by their client certificate: the aggregation layer's front proxy, whose authority and headers stand in a ConfigMap.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Protocol

import orjson
from aiohttp import web

from schemas.policies.vpa import Operator
from streams.clients.kube import label_selectors
from streams.clients.kube.json_objects import ObjectStore
from streams.consumers.metrics_api import api_service
from streams.consumers.metrics_api.api_service import CUSTOM, EXTERNAL
from streams.errors import BadInput

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
CONFIG_MAP = "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True)
class FrontProxyTrust:
    """Which front proxies to trust: `authorities` (PEM), a certificate's `names` (none means any), the headers of user names."""

    authorities: bytes
    names: tuple[str, ...]
    user_headers: tuple[str, ...]


def read_trust(objects: ObjectStore) -> FrontProxyTrust:
    """Read it from the cluster. Raises TryAgain, GiveUp, and BadInput if the cluster has no aggregation layer."""
    config_map = objects.find(CONFIG_MAP)
    data = {} if config_map is None else config_map.get("data") or {}
    authorities = str(data.get("requestheader-client-ca-file") or "")
    if not authorities.strip():
        raise BadInput(
            f"ConfigMap 'kube-system/{CONFIG_MAP}' names no 'requestheader-client-ca-file': is the aggregation layer on?"
        )
    return FrontProxyTrust(
        authorities.encode(),
        _names(data, "requestheader-allowed-names"),
        _names(data, "requestheader-username-headers") or ("X-Remote-User",),
    )


def user_of(trust: FrontProxyTrust, certificate: Mapping[str, Any] | None, headers: Mapping[str, str]) -> str | None:
    """The user on whose behalf a front proxy asks; None if the client is no front proxy.

    `certificate` is what TLS verified, as Python decodes it.
    """
    if not certificate:
        return None
    # TLS has verified the authority, which may have signed for others than the front proxy.
    if trust.names and not set(trust.names).intersection(_common_names(certificate)):
        return None
    return next((headers[name] for name in trust.user_headers if headers.get(name)), None)


def _common_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    return (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    try:
        names = orjson.loads(data.get(key) or "[]")
    except ValueError:
        raise BadInput(f"ConfigMap 'kube-system/{CONFIG_MAP}' says '{data.get(key)}' for '{key}', which is no list") from None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


class MetricsAnswerer(Protocol):
    """Knows the values."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that there are."""

    def answer(self, metric: str, namespace: str, selector: Mapping[str, str], now: float) -> int | str:
        """The value in milli-units, or a sentence on why there is none; `now` in seconds since the epoch."""


class AnswerWatcher(Protocol):
    """Counts answers."""

    def answered(self, metric: str, result: str, seconds: float) -> None:
        """A request was answered with this status."""


class MetricsEndpoint:
    """Answers every request. `not_ready` says why no value is known yet, `now` gives the time that values are for."""

    def __init__(
        self,
        answerer: MetricsAnswerer,
        watcher: AnswerWatcher,
        *,
        not_ready: Callable[[], Sequence[str]],
        now: Callable[[], datetime],
    ) -> None:
        self._answerer, self._watcher, self._not_ready, self._now = answerer, watcher, not_ready, now
        # Custom metrics are listed with the resource that they describe, as other adapters list them.
        asked_of = [f"{resource}/{metric}" for resource in CUSTOM_KINDS for metric in answerer.metrics]
        served = {EXTERNAL: list(answerer.metrics), CUSTOM: asked_of}
        self._documents = {path: orjson.dumps(document) for path, document in api_service.documents(served).items()}
        self._aggregated = orjson.dumps(api_service.aggregated(served))
        self.trust: FrontProxyTrust | None = None
        """Whom to believe. None before that was read: nobody is answered then."""

    @property
    def routes(self) -> list[web.RouteDef]:
        """What the server is to serve."""
        external = f"{EXTERNAL.root}/namespaces/{{namespace}}/{{metric}}"
        custom = f"{CUSTOM.root}/namespaces/{{namespace}}/{{resource}}/{{name}}/{{metric}}"
        alive = [web.get(path, self._alive) for path in ("/healthz", "/livez", "/readyz")]
        values = [web.get(external, self._value), web.get(custom, self._value)]
        return [*alive, *values, web.get("/{path:.*}", self._document)]

    async def _alive(self, request: web.Request) -> web.Response:
        """Liveness, for probes, which show no certificate."""
        # A process that waits for the log is alive: restarting it would not bring the log back.
        reasons = self._not_ready() if request.path == "/readyz" else ()
        return web.Response(text="\n".join(reasons) or "ok", status=HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)

    async def _document(self, request: web.Request) -> web.Response:
        if self._user(request) is None:
            return _refusal(HTTPStatus.UNAUTHORIZED, "only the aggregation layer of the API server is answered")
        path = request.path.rstrip("/")
        if path in ("/apis", "/api") and api_service.wants_aggregated(request.headers.get("Accept", "")):
            return web.Response(body=self._aggregated, headers={"Content-Type": api_service.AGGREGATED})
        document = self._documents.get(path)
        return _refusal(HTTPStatus.NOT_FOUND, f"there is no '{path[:200]}' here") if document is None else _json(document)

    async def _value(self, request: web.Request) -> web.Response:
        began, metric = time.perf_counter(), request.match_info["metric"]
        response = self._answer(request, metric)
        # Names are made up by whoever asks, and each would be a time series of its own.
        metric_label = metric if metric in self._answerer.metrics else "other"
        self._watcher.answered(metric_label, HTTPStatus(response.status).phrase, time.perf_counter() - began)
        return response

    def _answer(self, request: web.Request, metric: str) -> web.Response:
        if self._user(request) is None:
            return _refusal(HTTPStatus.UNAUTHORIZED, "only the aggregation layer of the API server is answered")
        if reasons := self._not_ready():
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(reasons))
        about, at = request.match_info, self._now()
        try:
            # In the custom API `labelSelector` selects the objects, and this the metric.
            labels = _labels(request.query.get("metricLabelSelector" if "resource" in about else "labelSelector", ""))
            selector = labels
            if "resource" in about:
                selector = selector_of(about["resource"], about["namespace"], about["name"], labels)
        except ValueError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        value = self._answerer.answer(metric, about["namespace"], selector, at.timestamp())
        if isinstance(value, str):
            return _refusal(HTTPStatus.NOT_FOUND, value)
        if "resource" in about:
            return _json(orjson.dumps(value_list(about, labels, _quantity(value), at)))
        return _json(orjson.dumps(_external(metric, labels, _quantity(value), at)))

    def _user(self, request: web.Request) -> str | None:
        if self.trust is None:
            return None
        certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
        return user_of(self.trust, certificate, request.headers)


def _external(metric: str, labels: Mapping[str, str], quantity: str, at: datetime) -> dict[str, object]:
    item = {"metricName": metric, "metricLabels": labels, "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "value": quantity}
    return {"kind": EXTERNAL.kind, "apiVersion": EXTERNAL.group_version, "metadata": {}, "items": [item]}


def _labels(text: str) -> dict[str, str]:
    """The labels of a selector that says of each what it is. Raises ValueError for any other."""
    labels = {}
    for part in label_selectors.of_text(text):
        if part.operator is not Operator.IN or len(part.values) != 1:
            raise ValueError(f"the selector asks for '{part.key}' in another way than by one value")
        labels[part.key] = part.values[0]
    return labels


def _quantity(milli: int) -> str:
    """Canonical, as the API writes it."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _refusal(code: HTTPStatus, message: str) -> web.Response:
    """The API's own form of a refusal."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": code.phrase.replace(" ", ""),
        "code": code.value,
    }
    return web.Response(body=orjson.dumps(status), content_type="application/json", status=code)


# Where another adapter serves external metrics, custom ones may be free, and an autoscaler can use either: with a metric of type
# Object that describes the workload. The resource identifier is a label of the metric's selector.
CUSTOM_KINDS = {
    "deployments.apps": ("Deployment", "apps/v1"),
    "statefulsets.apps": ("StatefulSet", "apps/v1"),
    "replicasets.apps": ("ReplicaSet", "apps/v1"),
    "replicationcontrollers": ("ReplicationController", "v1"),
}
"""The objects that can be asked about: from the words of a path to kind and API version."""


def selector_of(resource: str, namespace: str, name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """The selector of a request for the same external metric. Raises ValueError for a resource that we do not scale."""
    if resource not in CUSTOM_KINDS:
        raise ValueError(f"there are no metrics of '{resource[:100]}'; there are some of {', '.join(CUSTOM_KINDS)}")
    kind, _ = CUSTOM_KINDS[resource]
    return {**labels, "targetKind": kind, "targetName": name, "targetNamespace": namespace}


def value_list(question: Mapping[str, str], labels: Mapping[str, str], quantity: str, at: datetime) -> dict[str, Any]:
    """The response in the API's form; `question` has the parts of the path: resource, namespace, name and metric."""
    kind, version = CUSTOM_KINDS[question["resource"]]
    item = {
        "describedObject": {
            "kind": kind,
            "namespace": question["namespace"],
            "name": question["name"],
            "apiVersion": version,
        },
        "metric": {"name": question["metric"], "selector": {"matchLabels": dict(labels)} if labels else None},
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "value": quantity,
    }
    return {"kind": CUSTOM.kind, "apiVersion": CUSTOM.group_version, "metadata": {}, "items": [item]}
