"""Controllers as the chain of owners needs them: which one a reference names, who owns it, and which pods it selects.

The seven well-known kinds are read from their objects, any other kind from its scale. A kind of the same name in a group that was
installed is not one of the seven.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from schemas.policies.vpa import Requirement
from streams.clients.kube import label_selectors
from streams.clients.kube.pod_objects import OwnerReference
from streams.clients.kube.watched_objects import ControllerObject, CronJobObject, KubeObject, ReplicationControllerObject

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
            return label_selectors.of_labels(controller.spec.job_template.spec.template.metadata.labels or {})
        case _:
            raise ValueError("it has no selector")
