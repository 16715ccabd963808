"""Discovery documents for the API server that forwards requests to us: which groups, versions and resources there are.

Newer API servers request aggregated discovery first; others get the older documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
