"""Keeps objects of one kind in their wanted state, by server-side apply under our own name as field manager.

All calls raise Unreachable, TryAgain and GiveUp.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.clients.kube import api_paths, json_objects
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json
from streams.errors import TryAgain

FIELD_MANAGER = "ullage-autoscalers"
APPLY_PATCH = "application/apply-patch+yaml"  # the only content type of server-side apply; JSON is YAML, too


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
        return json_objects.find_object(self._api, ApiRequest(path, f"reading {self.kind}", f"{namespace}/{name}"))

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
        return json_objects.read_object(self._api, request)

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
        return json_objects.decode_object(accepted_body(response, request), request)

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
