"""Single objects of the Kubernetes API as plain JSON, to read, change and replace as a whole.

A replacement names the version that was read, so the server refuses it when somebody else was faster; that raises TryAgain, and
the caller reads the object again. All calls raise Unreachable, TryAgain and GiveUp.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from streams.clients.kube.api import Api, ApiRequest, accepted_body

Json = dict[str, Any]


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
        return self._api.find(ApiRequest(f"{self._path}/{name}", f"reading {self._kind}", name), Json)

    def create(self, name: str, body: Mapping[str, object]) -> Json:
        """Make it."""
        request = ApiRequest(self._path, f"creating {self._kind}", name, "POST", body)
        return self._api.read(request, Json)

    def replace(self, name: str, body: Mapping[str, object]) -> Json:
        """Put it back as `body` says, which carries the resourceVersion that was read."""
        request = ApiRequest(f"{self._path}/{name}", f"replacing {self._kind}", name, "PUT", body)
        return self._api.read(request, Json)

    def delete(self, name: str) -> bool:
        """Delete it; False when it was gone already."""
        request = ApiRequest(f"{self._path}/{name}", f"deleting {self._kind}", name, "DELETE")
        response = self._api.send(request)
        if response.code == 404:  # noqa: PLR2004  # "not found"
            return False
        accepted_body(response, request)
        return True
