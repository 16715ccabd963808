"""The type CapacityBuffer on a real API server, as far as anybody here reads or writes it; a user has it from elsewhere."""

from contextlib import suppress
from typing import Any

from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane

_INTEGER, _TEXT = {"type": "integer", "minimum": 0}, {"type": "string"}
_NAMED = {"type": "object", "properties": {"name": _TEXT}, "required": ["name"]}
_WORKLOAD = {"type": "object", "properties": {"apiGroup": _TEXT, "kind": _TEXT, "name": _TEXT}, "required": ["kind", "name"]}
_LIMITS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_CONDITION = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "message": _TEXT,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": _INTEGER,
    },
}
_SPEC = {
    "type": "object",
    "properties": {
        "provisioningStrategy": {**_TEXT, "default": "buffer.x-k8s.io/active-capacity"},
        "podTemplateRef": _NAMED,
        "scalableRef": _WORKLOAD,
        "replicas": _INTEGER,
        "percentage": _INTEGER,
        "limits": _LIMITS,
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "podTemplateRef": _NAMED,
        "replicas": _INTEGER,
        "podTemplateGeneration": _INTEGER,
        "provisioningStrategy": _TEXT,
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "capacitybuffers.autoscaling.x-k8s.io"


def install(plane: Plane) -> None:
    """Make the type, and wait until it is served."""
    names = {
        "kind": "CapacityBuffer",
        "plural": "capacitybuffers",
        "singular": "capacitybuffer",
        "listKind": "CapacityBufferList",
    }
    schema: dict[str, Any] = {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC, "status": _STATUS}}
    version = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}
    version["schema"] = {"openAPIV3Schema": schema}
    annotations = {"api-approved.kubernetes.io": "unapproved, for a test"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": _NAME, "annotations": annotations},
        "spec": {"group": "autoscaling.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    plane.ask.post(_DEFINITIONS, body)
    wait_for(lambda: plane.ask.good("/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"), what="CapacityBuffers are served")


def remove(plane: Plane) -> None:
    """The type goes, with all objects of it."""
    with suppress(Refused):
        plane.ask.delete(f"{_DEFINITIONS}/{_NAME}")
