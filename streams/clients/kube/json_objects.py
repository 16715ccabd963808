"""Single objects of the Kubernetes API as plain JSON, to read, change, and replace as a whole or by server-side apply.

A replacement names the version that was read, so the server refuses it when somebody else was faster; that raises TryAgain, and
the caller reads the object again. Objects of the whole cluster may go with the ClusterRole of the process that made them. All
calls raise Unreachable, TryAgain and GiveUp.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body, decode_body
from streams.errors import GiveUp, TryAgain

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


FIELD_MANAGER = "ullage-autoscalers"
APPLY_PATCH = "application/apply-patch+yaml"  # the only content type of server-side apply; JSON is YAML, too


def last_writer(there: Mapping[str, Any]) -> str:
    """Who wrote the object last but for its status, as a part of a sentence; empty where only we did, or nobody says it."""
    manager = last_manager(there)
    return f", last written by '{manager}'" if manager not in ("", FIELD_MANAGER) else ""


def last_manager(there: Mapping[str, Any], subresource: str = "") -> str:
    """The field manager that wrote this part of an object last: ours only where there is no other; empty if nobody says it."""
    entries = [entry for entry in there["metadata"].get("managedFields") or () if entry.get("subresource", "") == subresource]
    newest: Mapping[str, Any] = max(
        entries, key=lambda entry: (entry.get("manager") != FIELD_MANAGER, str(entry.get("time") or "")), default={}
    )
    return str(newest.get("manager") or "")[:128]


class ObjectKeeper(Protocol):
    """Code written against this port needs no server in a test."""

    def find(self, namespace: str, name: str) -> Json | None:
        """The object; None when there is none."""

    def apply(self, namespace: str, manifest: Mapping[str, object]) -> Json:
        """Create the object, or set our fields in it as in the manifest; returns it as it is then."""

    def merge(self, namespace: str, name: str, patch: Mapping[str, object], *, part: str = "") -> Json:
        """Put a merge patch over an object, or over a part of it such as `status`; gives it as it is then."""

    def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete the object if it still is the one with this uid; False when it is gone."""


class AppliedObjects:
    """The objects of one kind, such as `autoscaling/v2` and `horizontalpodautoscalers`, on one API server."""

    def __init__(self, api: Api, api_version: str, plural: str, kind: str) -> None:
        self._api, self._root, self._plural, self.kind = api, api_paths.root(api_version), plural, kind

    def find(self, namespace: str, name: str) -> Json | None:
        """The object; None when there is none."""
        path = api_paths.scoped(self._root, namespace, self._plural, name)
        return find_object(self._api, ApiRequest(path, f"reading {self.kind}", f"{namespace}/{name}"))

    def apply(self, namespace: str, manifest: Mapping[str, Any]) -> Json:
        """Server-side apply, by force."""
        # The server knows which fields are ours, puts back what somebody changed in them, and leaves alone what others added.
        name = str(manifest["metadata"]["name"])
        path = api_paths.scoped(self._root, namespace, self._plural, name)
        request = ApiRequest(
            f"{path}?fieldManager={FIELD_MANAGER}&force=true",
            f"applying {self.kind}",
            f"{namespace}/{name}",
            "PATCH",
            manifest,
            APPLY_PATCH,
        )
        return read_object(self._api, request)

    def merge(self, namespace: str, name: str, patch: Mapping[str, object], *, part: str = "") -> Json:
        """A merge patch. Raises TryAgain also when the patch names a version and somebody else was faster."""
        path = api_paths.scoped(self._root, namespace, self._plural, name, part)
        what = f"{part} of {self.kind}" if part else self.kind
        request = ApiRequest(
            f"{path}?fieldManager={FIELD_MANAGER}", f"writing {what}", f"{namespace}/{name}", "PATCH", patch, MERGE_PATCH
        )
        response = self._api.send(request)
        if response.code == HTTPStatus.CONFLICT:
            text = response.body[:200].decode(errors="replace")
            raise TryAgain(
                doing=request.doing, to=request.to, answer=f"409 {text}", after=Seconds(1.0), detail=OutcomeDetail.MOVED
            )
        return decode_object(accepted_body(response, request), request)

    def delete(self, namespace: str, name: str, uid: str) -> bool:
        """With the uid as its condition."""
        path = api_paths.scoped(self._root, namespace, self._plural, name)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        request = ApiRequest(path, f"deleting {self.kind}", f"{namespace}/{name}", "DELETE", body)
        response = self._api.send(request)
        # A conflict is about the uid: another object has the name now, so ours is gone.
        if response.code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            return False
        accepted_body(response, request)
        return True
