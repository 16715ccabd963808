"""Pods, VPAs and reviews as manifests, with only what admission looks at."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agents.logic.resources import limit_ranges
from agents.logic.resources.limit_ranges import Ranges
from streams.clients.kube.watched_objects import LimitRangeObject
from streams.sources.kube.publish import nodes_and_limit_ranges
from tests.support.kube_objects import decoded

Json = dict[str, Any]


def container(name: str = "c", requests: Json | None = None, limits: Json | None = None) -> Json:
    """A container; lists that are None are not there."""
    found = {"requests": requests, "limits": limits}
    return {"name": name, "image": "i", "resources": {kind: amounts for kind, amounts in found.items() if amounts is not None}}


def pod(*containers: Json, **metadata: Any) -> Json:
    """A pod of ReplicaSet `web-1` with the label app=a."""
    owner = {"kind": "ReplicaSet", "name": "web-1", "apiVersion": "apps/v1", "controller": True}
    meta = {"name": "p", "namespace": "default", "labels": {"app": "a"}, "ownerReferences": [owner]} | metadata
    kept = {name: value for name, value in meta.items() if value is not None}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": kept, "spec": {"containers": list(containers)}}


def advice(name: str = "c", target: Json | None = None, lower: Json | None = None, upper: Json | None = None) -> Json:
    """A container's recommendation; bounds that are None are empty."""
    return {"containerName": name, "target": target or {}, "lowerBound": lower or {}, "upperBound": upper or {}}


def vpa(*recommended: Json, name: str = "name", **spec: Any) -> Json:
    """A VPA of Deployment `web`, with a recommendation if there is any."""
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    status = {"recommendation": {"containerRecommendations": list(recommended)}} if recommended else {}
    found: Json = {"kind": "VerticalPodAutoscaler", "metadata": {"name": name, "namespace": "default"}}
    return found | {"spec": {"targetRef": target} | spec, "status": status}


def policy(**fields: Any) -> Json:
    """A resourcePolicy for all containers."""
    return {"containerPolicies": [{"containerName": "*"} | fields]}


def limit_range(**limit: Any) -> Json:
    """A LimitRange of one entry, for containers unless it says otherwise."""
    spec = {"limits": [{"type": "Container"} | limit]}
    return {"kind": "LimitRange", "metadata": {"name": "lr", "namespace": "default"}, "spec": spec}


def bounded_by(manifests: Sequence[Json]) -> Ranges:
    """What LimitRanges of one namespace bound, as the kube source reads them and the log tells it."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = [decoded(LimitRangeObject, {"metadata": {}, **manifest}) for manifest in manifests]
    named = [
        msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, name=f"{i:03}"))
        for i, each in enumerate(found)
    ]
    return limit_ranges.of_events(nodes_and_limit_ranges.limit_range_changed(each, "k", at) for each in named)


def review(manifest: Any, *, resource: str = "pods", **request: Any) -> Json:
    """A review of a new object."""
    group = "" if resource == "pods" else "autoscaling.k8s.io"
    kind = "Pod" if resource == "pods" else "VerticalPodAutoscaler"
    asked = {
        "uid": "u-1",
        "operation": "CREATE",
        "namespace": "default",
        "resource": {"group": group, "version": "v1", "resource": resource},
        "requestKind": {"group": group, "version": "v1", "kind": kind},
        "object": manifest,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked | request}


def operations(reviewed: Any) -> list[Json]:
    """The operations in a response."""
    coded = reviewed["response"].get("patch")
    return [] if coded is None else json.loads(base64.b64decode(coded))  # type: ignore[no-any-return]  # a patch is a list


def applied(manifest: Json, ops: Any) -> Json:
    """A copy of the manifest with `add` operations applied, strictly: what is to be added to must be there. RFC 6902."""
    copy: Json = json.loads(json.dumps(manifest))
    for op in ops:
        assert op["op"] == "add", op
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:]]
        place: Any = copy
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[last] = json.loads(json.dumps(op["value"]))
    return copy
