"""The scale of any object that has one: found by its kind, through the server's discovery.

A kind's place on the server is looked up once by who asks and kept for some minutes by the caller's clock; nothing is kept here
but the last look at each group. Asks one question at a time.
"""

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from streams.clients.kube.api import Api, Question
from streams.clients.kube.pod_objects import Owner
from streams.clients.kube.watched_objects import ScaleObject
from streams.errors import GiveUp


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of an object: its selector in text, and who owns it."""

    selector: str
    owners: tuple[Owner, ...] = ()


class _Kind(msgspec.Struct, frozen=True):
    name: str
    kind: str


class _Kinds(msgspec.Struct, frozen=True):
    resources: list[_Kind] = []


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


class Scales:
    """The scales of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kinds: dict[str, _Kinds] = {}

    def forget(self) -> None:
        """Look every kind up anew from now on."""
        self._kinds.clear()

    def find(self, namespace: str, api_version: str, kind: str, name: str) -> Scale | None:
        """The scale of an object; None when it has none, or there is no such object.

        Raises TryAgain, Unreachable, and GiveUp also for a kind that the server does not know.
        """
        known = False
        for version in self._versions(api_version):
            plurals, scaled = self._plurals(version, kind)
            known = known or bool(plurals)
            for plural in scaled:
                path = f"{_root(version)}/namespaces/{namespace}/{plural}/{quote(name, safe='')}/scale"
                found = self._api.find(Question(path, "reading the scale of", f"{kind} {namespace}/{name}"), ScaleObject)
                if found is not None:
                    return Scale(found.status.selector, tuple(found.metadata.owner_references))
        if not known:
            raise GiveUp(doing="looking up", to=f"{kind} {namespace}/{name}", answer=f"no '{kind}' is known in '{api_version}'")
        return None

    def _versions(self, api_version: str) -> list[str]:
        """The version that was named, then the others of its group."""
        group, _, version = api_version.rpartition("/")
        if not version:
            raise GiveUp(doing="looking up", to="a controller", answer="its reference has no apiVersion")
        if not group:
            return [api_version]
        found = self._api.find(Question(f"/apis/{group}", "looking up group", group), _Group) or _Group()
        return [api_version, *(each.group_version for each in found.versions if each.group_version != api_version)]

    def _plurals(self, version: str, kind: str) -> tuple[list[str], list[str]]:
        """The names of a kind in paths, and those that have a scale. A kind that is not there is looked for anew each time."""
        if version not in self._kinds:
            found = self._api.find(Question(_root(version), "looking up the kinds of", version), _Kinds)
            self._kinds[version] = found or _Kinds()
        kinds = self._kinds[version]
        names = {each.name for each in kinds.resources}
        plurals = [each.name for each in kinds.resources if each.kind == kind and "/" not in each.name]
        if not plurals:
            del self._kinds[version]
        return plurals, [plural for plural in plurals if f"{plural}/scale" in names]


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
