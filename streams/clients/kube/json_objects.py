"""Single objects of the Kubernetes API as plain JSON, to read, change and replace as a whole.

A replacement names the version that was read, so the server refuses it when somebody else was faster; that raises TryAgain, and
the caller reads the object again. Objects of the whole cluster may go with the ClusterRole of the process that made them. All
calls raise Unreachable, TryAgain and GiveUp.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from streams.clients.kube.api import Api, ApiRequest, accepted_body, decode_body
from streams.errors import GiveUp

Json = dict[str, Any]


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Json] | None = None


class ObjectOutline(msgspec.Struct, frozen=True):
    """What callers rely on in any object, whatever its kind."""

    metadata: _Metadata
    spec: Json = {}
    status: Json | None = None


def decode_object(body: bytes, request: ApiRequest) -> Json:
    """An object as plain JSON. Raises TryAgain that names the place where it is not as every object is."""
    # Callers go by these fields without a look, so what is not as every object is must not get past here.
    decode_body(body, ObjectOutline, request)
    return decode_body(body, Json, request)


def read_object(api: Api, request: ApiRequest) -> Json:
    """The object of a successful response. Raises Unreachable, TryAgain and GiveUp."""
    return decode_object(accepted_body(api.send(request), request), request)


def find_object(api: Api, request: ApiRequest) -> Json | None:
    """As `read_object`, but None when the server answers 404."""
    response = api.send(request)
    return None if response.code == 404 else decode_object(accepted_body(response, request), request)  # noqa: PLR2004  # "not found"


class ObjectStore(Protocol):
    """Objects of one kind by name: code written against this port needs no server in a test."""

    def find(self, name: str) -> Json | None:
        """The object; None when there is none."""

    def create(self, name: str, body: Mapping[str, object]) -> Json:
        """Make it."""

    def replace(self, name: str, body: Mapping[str, object]) -> Json:
        """Put it back as `body` says, which carries the resourceVersion that was read."""

    def delete(self, name: str) -> bool:
        """Delete it; False when it was gone already."""


class PlainObjects:
    """The objects below one path, such as `/api/v1/namespaces/ullage/secrets`; `kind` names them in errors."""

    def __init__(self, api: Api, path: str, kind: str) -> None:
        self._api, self._path, self._kind = api, path, kind

    def find(self, name: str) -> Json | None:
        """The object; None when there is none."""
        return find_object(self._api, ApiRequest(f"{self._path}/{name}", f"reading {self._kind}", name))

    def create(self, name: str, body: Mapping[str, object]) -> Json:
        """Make it."""
        return read_object(self._api, ApiRequest(self._path, f"creating {self._kind}", name, "POST", body))

    def replace(self, name: str, body: Mapping[str, object]) -> Json:
        """Put it back as `body` says, which carries the resourceVersion that was read."""
        return read_object(self._api, ApiRequest(f"{self._path}/{name}", f"replacing {self._kind}", name, "PUT", body))

    def delete(self, name: str) -> bool:
        """Delete it; False when it was gone already."""
        request = ApiRequest(f"{self._path}/{name}", f"deleting {self._kind}", name, "DELETE")
        response = self._api.send(request)
        if response.code == 404:  # noqa: PLR2004  # "not found"
            return False
        accepted_body(response, request)
        return True


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object that is gone. `kind` is that of its watch: `pods`, `nodes`, `replicasets`."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """Objects that are new or changed, each with the kind of its watch, and those that are gone."""

    seen: Sequence[tuple[str, Json]]
    gone: Sequence[ObjectName] = ()


PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


class OwningRole:
    """The ClusterRole of this name, among `objects`."""

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects, self._name = objects, name

    def owned(self, body: Json) -> Json:
        """`body`, which is to be made, with the role as its owner; as it is without a role that we may see. Raises TryAgain."""
        try:
            role = self._objects.find(self._name)
        except GiveUp:  # we may not read it: the object then outlives an uninstall, which is better than no object
            return body
        if role is None:
            return body
        # An uninstall takes our rights away before we have ended, so Kubernetes has to delete what we registered.
        owner = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": self._name,
            "uid": role["metadata"]["uid"],
        }
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}


class OwnedObjects:
    """An ObjectStore of which each object that is made goes with `role`."""

    def __init__(self, objects: ObjectStore, role: OwningRole) -> None:
        self._objects, self._role = objects, role

    def find(self, name: str) -> Json | None:
        """The object; None when there is none."""
        return self._objects.find(name)

    def create(self, name: str, body: Mapping[str, object]) -> Json:
        """Make it, with the role as its owner."""
        return self._objects.create(name, self._role.owned(dict(body)))

    def replace(self, name: str, body: Mapping[str, object]) -> Json:
        """Put it back as `body` says, which carries the resourceVersion that was read."""
        # What was read carries its owner already.
        return self._objects.replace(name, body)

    def delete(self, name: str) -> bool:
        """Delete it; False when it was gone already."""
        return self._objects.delete(name)


def owned(api: Api, path: str, kind: str, role: str) -> OwnedObjects:
    """Objects of the whole cluster below a path, which go with the ClusterRole of this name."""
    return OwnedObjects(PlainObjects(api, path, kind), OwningRole(PlainObjects(api, PATH, "ClusterRole"), role))
