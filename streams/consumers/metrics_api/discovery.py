"""What an API server asks of one that it passes questions on to: which groups, versions and resources there are.

The documents follow from the group alone, so they are made once. Aggregated discovery is what newer API servers ask for first;
those that do not know it get the older documents. No schema is published: the types are Kubernetes' own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

EXTERNAL, VERSION = "external.metrics.k8s.io", "v1beta1"
ROOT = f"/apis/{EXTERNAL}/{VERSION}"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type of aggregated discovery, and what an `Accept` names that wants it."""
_KIND = "ExternalMetricValueList"
_OPENAPI = f"/openapi/v3{ROOT}"

Document = Mapping[str, Any]


def documents(metrics: Sequence[str]) -> dict[str, Document]:
    """The documents by path, for a server of these metrics."""
    version = {"groupVersion": f"{EXTERNAL}/{VERSION}", "version": VERSION}
    group = {"name": EXTERNAL, "versions": [version], "preferredVersion": version}
    resources = [{"name": name, "singularName": "", "namespaced": True, "kind": _KIND, "verbs": ["get"]} for name in metrics]
    info = {"title": "Ullage", "version": VERSION}
    return {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
        f"/apis/{EXTERNAL}": {"kind": "APIGroup", "apiVersion": "v1", **group},
        ROOT: {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{EXTERNAL}/{VERSION}",
            "resources": resources,
        },
        "/openapi/v2": {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}},
        "/openapi/v3": {"paths": {ROOT.removeprefix("/"): {"serverRelativeURL": f"{_OPENAPI}?hash={len(metrics)}"}}},
        _OPENAPI: {"openapi": "3.0.0", "info": info, "paths": {}, "components": {}},
    }


def aggregated(metrics: Sequence[str]) -> Document:
    """The one document that says all of it, for `/apis` and `/api` alike."""
    kind = {"group": EXTERNAL, "version": VERSION, "kind": _KIND}
    resources = [
        {"resource": name, "singularResource": "", "scope": "Namespaced", "responseKind": kind, "verbs": ["get"]}
        for name in metrics
    ]
    versions = [{"version": VERSION, "freshness": "Current", "resources": resources}]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": EXTERNAL}, "versions": versions}],
    }


def wants_aggregated(accept: str) -> bool:
    """Whether an `Accept` header prefers aggregated discovery, in the version that we speak."""
    wanted = set(AGGREGATED.split(";")[1:])
    return any(wanted <= {part.strip() for part in each.split(";")} for each in accept.split(","))
