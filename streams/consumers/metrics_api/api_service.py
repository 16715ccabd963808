"""Our APIService, which makes the API server forward requests for metrics to us, and the discovery documents that it asks for.

The APIService goes with our ClusterRole: one that nobody serves keeps namespaces from being deleted. Newer API servers request
aggregated discovery first; others get the older documents.
"""

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from streams.clients.kube import json_objects
from streams.clients.kube.json_objects import Json, ObjectStore
from streams.contested_writes import KeptObject
from streams.errors import GiveUp
from streams.serving import certificate_making
from streams.serving.certificate_making import CaBundle

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type of aggregated discovery, and what an `Accept` names that wants it."""

DiscoveryDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MetricsGroup:
    """A group of metrics in its one version, and the kind of its answers."""

    name: str
    version: str
    kind: str

    @property
    def group_version(self) -> str:
        """Group and version, as in `apiVersion`."""
        return f"{self.name}/{self.version}"

    @property
    def root(self) -> str:
        """The path of its requests."""
        return f"/apis/{self.group_version}"

    @property
    def api_service(self) -> str:
        """The name of the APIService that leads to it."""
        return f"{self.version}.{self.name}"


EXTERNAL = MetricsGroup("external.metrics.k8s.io", "v1beta1", "ExternalMetricValueList")
CUSTOM = MetricsGroup("custom.metrics.k8s.io", "v1beta2", "MetricValueList")

Served = Mapping[MetricsGroup, Sequence[str]]
"""The names of the resources of each group that is served."""


def documents(served: Served) -> dict[str, DiscoveryDocument]:
    """The documents by path."""
    groups = {group: _group(group) for group in served}
    info = {"title": "Ullage", "version": "v1"}
    paths = {group.root.removeprefix("/"): _openapi(group, served[group]) for group in served}
    by_path: dict[str, DiscoveryDocument] = {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())},
        "/openapi/v2": {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}},
        "/openapi/v3": {"paths": {path: {"serverRelativeURL": url} for path, url in paths.items()}},
    }
    for group, resources in served.items():
        by_path[f"/apis/{group.name}"] = {"kind": "APIGroup", "apiVersion": "v1", **groups[group]}
        by_path[group.root] = _resources(group, resources)
        # Without a schema, because the types are Kubernetes' own.
        by_path[f"/openapi/v3{group.root}"] = {"openapi": "3.0.0", "info": info, "paths": {}, "components": {}}
    return by_path


def _group(group: MetricsGroup) -> dict[str, Any]:
    version = {"groupVersion": group.group_version, "version": group.version}
    return {"name": group.name, "versions": [version], "preferredVersion": version}


def _openapi(group: MetricsGroup, resources: Sequence[str]) -> str:
    # Clients keep a document until its hash changes; ours changes with the number of resources at most.
    return f"/openapi/v3{group.root}?hash={len(resources)}"


def _resources(group: MetricsGroup, names: Sequence[str]) -> DiscoveryDocument:
    listed = [{"name": name, "singularName": "", "namespaced": True, "kind": group.kind, "verbs": ["get"]} for name in names]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group.group_version, "resources": listed}


def aggregated(served: Served) -> DiscoveryDocument:
    """The single document of aggregated discovery, for both `/apis` and `/api`."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated(group, names) for group, names in served.items()],
    }


def _aggregated(group: MetricsGroup, names: Sequence[str]) -> DiscoveryDocument:
    kind = {"group": group.name, "version": group.version, "kind": group.kind}
    resources = [
        {"resource": name, "singularResource": "", "scope": "Namespaced", "responseKind": kind, "verbs": ["get"]}
        for name in names
    ]
    versions = [{"version": group.version, "freshness": "Current", "resources": resources}]
    return {"metadata": {"name": group.name}, "versions": versions}


def wants_aggregated(accept: str) -> bool:
    """Whether an `Accept` header prefers aggregated discovery, in the version that we speak."""
    # The parameters in any order: clients write them differently.
    wanted = set(AGGREGATED.split(";")[1:])
    return any(wanted <= {part.strip() for part in media_type.split(";")} for media_type in accept.split(","))


PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAt:
    """The Service by which the API server reaches us for a group of metrics.

    `own` False: a chart made the APIService; only its authorities are kept up to date.
    """

    namespace: str
    service: str
    port: int
    own: bool = True
    group: MetricsGroup = EXTERNAL

    @property
    def name(self) -> str:
        """The name of the APIService."""
        return self.group.api_service

    def spec(self, bundle: bytes) -> dict[str, Any]:
        """The spec of the APIService."""
        return {
            "group": self.group.name,
            "version": self.group.version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": self.namespace, "name": self.service, "port": self.port},
            "caBundle": base64.b64encode(bundle).decode(),
        }

    def is_served_by(self, live: Json) -> bool:
        """Whether an APIService leads to our Service."""
        service = (live.get("spec") or {}).get("service") or {}
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


# Nothing removes the APIService when a replica stops: a rolling update must not make the group disappear, and an autoscaler that
# gets no answer keeps its replicas.
class ApiServiceKeeper:
    """Keeps the APIService in its wanted state. `clock` counts real seconds. Calls raise TryAgain and GiveUp."""

    def __init__(self, objects: ObjectStore, served: ServedAt, clock: Callable[[], float] = time.monotonic) -> None:
        self._objects, self._served, self._trust = objects, served, CaBundle(clock)
        self._kept = KeptObject("APIService", served.name, clock)

    def ensure(self, ours: Sequence[bytes], at: datetime) -> None:
        """Make it name our Service and the authorities to trust; raises GiveUp when the group belongs to another server."""
        live = self._objects.find(self._served.name)
        ours_alone = self._served.spec(certificate_making.joined(ours, at))
        if live is None:
            if self._served.own:
                self._kept.write(ours_alone, "it was deleted", partial(self._create, ours_alone))
            return
        if not self._served.is_served_by(live):  # another adapter's: a group has one server in a cluster
            service = (live.get("spec") or {}).get("service") or {}
            answer = f"Service '{service.get('namespace', '')}/{service.get('name', '')}' serves it; a group has one server"
            raise GiveUp(doing="registering the APIService", to=self._served.name, answer=answer)
        spec = {**live["spec"], **self._wanted(live["spec"], ours, at)}
        if spec == live["spec"]:
            self._kept.settled(ours_alone)
            return
        field = next(key for key, value in spec.items() if value != live["spec"].get(key))
        self._kept.write(ours_alone, field + json_objects.last_writer(live), partial(self._replace, {**live, "spec": spec}))

    def _create(self, spec: Json) -> None:
        about = {"name": self._served.name, "labels": {"app.kubernetes.io/managed-by": "ullage"}}
        body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": about, "spec": spec}
        self._objects.create(self._served.name, body)
        _log.info("registered", api_service=self._served.name)

    def _replace(self, body: Json) -> None:
        self._objects.replace(self._served.name, body)
        _log.info("the APIService was brought up to date", api_service=self._served.name)

    def _wanted(self, spec: Json, ours: Sequence[bytes], at: datetime) -> Json:
        """The parts of the spec that we set."""
        try:
            there = base64.b64decode(spec.get("caBundle") or "")
        except binascii.Error:
            there = b""
        bundle = self._trust.merged([there], ours, at)
        wanted: Json = self._served.spec(bundle) if self._served.own else {"caBundle": base64.b64encode(bundle).decode()}
        if wanted["caBundle"]:  # the API server takes either authorities or the skipping of all checks
            wanted["insecureSkipTLSVerify"] = False
        return {key: value for key, value in wanted.items() if value or key in spec}
