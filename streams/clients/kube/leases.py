"""Leases of coordination.k8s.io: where they are, how a new one looks, and how their times are spelled."""

from collections.abc import Mapping
from datetime import datetime

from streams.clients.kube import api_paths
from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import Json, PlainObjects
from streams.errors import TryAgain

API_VERSION = "coordination.k8s.io/v1"


def leases(api: Api, namespace: str) -> PlainObjects:
    """The Leases of a namespace. Raises GiveUp for what can be no namespace."""
    return PlainObjects(api, api_paths.scoped(api_paths.root(API_VERSION), namespace, "leases"), "Lease")


def new_lease(name: str, spec: Json, annotations: Mapping[str, str] | None = None) -> Json:
    """The body of a Lease that is to be created."""
    metadata: Json = {"name": name} if annotations is None else {"name": name, "annotations": dict(annotations)}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}


def micro_time(at: datetime) -> str:
    """A time in UTC as Kubernetes spells a MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def was_faster(error: TryAgain) -> bool:
    """Whether a write did not work because somebody else had written since the object was read."""
    return error.answer.startswith("409")
