"""Controllers as the chain of owners needs them: which one a reference names, who owns it, and which pods it selects.

The seven well-known kinds are read from their objects, any other kind from its scale. A kind of the same name in a group that was
installed is not one of the seven. Where a kind's scale stands on the server is found through discovery and kept until
`forget_kinds`, which the caller calls now and then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from schemas.policies.vpa import Requirement
from streams.clients.kube import api_paths, label_selectors
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest
from streams.clients.kube.pod_objects import OwnerReference
from streams.clients.kube.watched_objects import (
    ControllerObject,
    CronJobObject,
    KubeObject,
    ReplicationControllerObject,
    ScaleObject,
)
from streams.errors import GiveUp

WELL_KNOWN = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"})
"""Kinds whose objects the kube source watches."""


class ControllerKey(NamedTuple):
    """Names one controller. A well-known kind has no `api_version`, because its versions are all the same objects."""

    namespace: str
    kind: str
    name: str
    api_version: str = ""

    @property
    def well_known(self) -> bool:
        """Whether its object is watched."""
        return not self.api_version and self.kind in WELL_KNOWN

    def __str__(self) -> str:
        """`Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller, its own controller if it has one, and its pod selector. Where that is None, `fault` says why."""

    key: ControllerKey
    owner: ControllerKey | None
    selector: tuple[Requirement, ...] | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ObjectScale:
    """The scale subresource of an object: its selector as text, and the object's owners."""

    selector: str
    owners: tuple[OwnerReference, ...] = ()


def key_of(namespace: str, api_version: str, kind: str, name: str) -> ControllerKey:
    """The controller that a reference names."""
    # Kubernetes' own groups have no dot, and no two of them share a kind. So the kind alone decides there, as it does upstream:
    # old references say `extensions/v1beta1` for what is `apps/v1` now, and people leave the group out.
    well_known = kind in WELL_KNOWN and "." not in api_version.rpartition("/")[0]
    return ControllerKey(namespace, kind, name, "" if well_known else api_version)


def owner_of(namespace: str, owners: Iterable[OwnerReference]) -> ControllerKey | None:
    """The owner that is marked as the controller; None when there is none."""
    owner = next((owner for owner in owners if owner.controller), None)
    return None if owner is None else key_of(namespace, owner.api_version, owner.kind, owner.name)


def from_object(kind: str, controller: KubeObject) -> Controller:
    """A watched object of a well-known kind as a controller."""
    meta = controller.metadata
    key, owner = ControllerKey(meta.namespace, kind, meta.name), owner_of(meta.namespace, meta.owner_references)
    try:
        return Controller(key, owner, _selector(controller))
    except ValueError as error:
        return Controller(key, owner, None, str(error))


def from_scale(key: ControllerKey, scale: ObjectScale) -> Controller:
    """Any object that has a scale as a controller."""
    owner = owner_of(key.namespace, scale.owners)
    if not scale.selector:
        return Controller(key, owner, None, "its scale has no selector")
    try:
        return Controller(key, owner, label_selectors.of_text(scale.selector))
    except ValueError as error:
        return Controller(key, owner, None, f"the selector of its scale is '{scale.selector}', and {error}")


def _selector(controller: KubeObject) -> tuple[Requirement, ...]:
    match controller:
        case ControllerObject() if controller.spec.selector is not None:
            return label_selectors.of_object(controller.spec.selector)
        case ReplicationControllerObject() if controller.spec.selector is not None:
            return label_selectors.of_labels(controller.spec.selector)
        case CronJobObject():
            # A CronJob has no selector; upstream goes by its pods' labels, too (target/fetcher.go).
            return label_selectors.of_labels(controller.spec.job_template.spec.template.metadata.labels or {})
        case _:
            raise ValueError("it has no selector")


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
        # A reference may name a version that the server has long dropped.
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
