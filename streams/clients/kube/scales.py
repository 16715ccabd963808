"""The scale subresource of any object that has one, found through the server's discovery of kinds: read, and set.

Where a kind stands on the server is looked up once and kept until `forget_kinds`, which the caller calls now and then.
"""

from dataclasses import dataclass

import msgspec

from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest
from streams.clients.kube.controllers import ControllerKey, ObjectScale
from streams.clients.kube.watched_objects import ScaleObject
from streams.errors import GiveUp

MOST_VERSIONS = 8
"""Versions of a group that are tried besides the one that is named."""


class _Kind(msgspec.Struct, frozen=True):
    name: str
    kind: str


class _Kinds(msgspec.Struct, frozen=True):
    resources: list[_Kind] = []


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


@dataclass(frozen=True, slots=True)
class FoundScale:
    """A scale as it was read: replicas asked for and there, the selector of the pods, and what a change must name."""

    path: str
    to: str
    replicas: int
    there: int
    selector: str
    uid: str
    version: str


class ScaleClient:
    """The scales of one API server. Threads may share it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kinds: dict[str, _Kinds] = {}

    def forget_kinds(self) -> None:
        """Look up every kind again from now on, because types may have been installed or removed."""
        self._kinds.clear()

    def look_up(self, key: ControllerKey) -> ObjectScale | None:
        """The scale of an object; None when the object has none, or does not exist.

        Raises TryAgain, Unreachable, and GiveUp also for a kind that the server does not know.
        """
        scale = self._first(key)
        return None if scale is None else ObjectScale(scale[1].status.selector, tuple(scale[1].metadata.owner_references))

    def find(self, key: ControllerKey) -> FoundScale | None:
        """As `look_up`, with the replicas. The key names its apiVersion, even for a well-known kind."""
        found = self._first(key)
        if found is None:
            return None
        path, scale = found
        about, status = scale.metadata, scale.status
        return FoundScale(
            path, str(key), scale.spec.replicas, status.replicas, status.selector, about.uid, about.resource_version
        )

    def set(self, found: FoundScale, replicas: int) -> None:
        """Ask for so many replicas, if nobody has changed the object since it was read. Raises TryAgain when somebody has."""
        about = {"uid": found.uid, "resourceVersion": found.version}
        request = ApiRequest(
            found.path, "setting the scale of", found.to, "PATCH",
            {"metadata": about, "spec": {"replicas": replicas}}, MERGE_PATCH,
        )  # fmt: skip
        self._api.read(request, msgspec.Raw)

    def _first(self, key: ControllerKey) -> tuple[str, ScaleObject] | None:
        """The first scale that is there, and its path."""
        api_paths.check_kind(key.kind)
        kind_known = False
        for version in self._versions(key.api_version):
            plurals, scalable = self._plurals(version, key.kind)
            kind_known = kind_known or bool(plurals)
            for plural in scalable:
                path = api_paths.scoped(api_paths.root(version), key.namespace, plural, key.name, "scale")
                scale = self._api.find(ApiRequest(path, "reading the scale of", str(key)), ScaleObject)
                if scale is not None:
                    return path, scale
        if not kind_known:
            raise GiveUp(doing="looking up", to=str(key), answer=f"no '{key.kind}' is known in '{key.api_version}'")
        return None

    def _versions(self, api_version: str) -> list[str]:
        """The version that the reference names, then the others of its group."""
        group, _, version = api_version.rpartition("/")
        if not version:
            raise GiveUp(doing="looking up", to="a controller", answer="its reference has no apiVersion")
        if not group:
            return [api_version]
        listed = self._api.find(ApiRequest(api_paths.group_root(group), "looking up group", group), _Group) or _Group()
        others = [other.group_version for other in listed.versions if other.group_version != api_version]
        return [api_version, *others[:MOST_VERSIONS]]

    def _plurals(self, version: str, kind: str) -> tuple[list[str], list[str]]:
        """The names that a kind has in paths, and those of them that have a scale."""
        kinds = self._kinds.get(version)
        if kinds is None:
            kinds = self._api.find(ApiRequest(api_paths.root(version), "looking up the kinds of", version), _Kinds) or _Kinds()
            self._kinds[version] = kinds
        names = {resource.name for resource in kinds.resources}
        plurals = [resource.name for resource in kinds.resources if resource.kind == kind and "/" not in resource.name]
        if not plurals:
            self._kinds.pop(version, None)  # its type may be installed at any moment
        return plurals, [plural for plural in plurals if f"{plural}/scale" in names]
