"""Controllers as the chain of owners needs them: a key, who owns it, and which pods it selects.

The seven well-known kinds are read from their objects; a kind of the same name in a group that was installed is not one of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from schemas.policies.selectors import Requirement
from streams.clients.kube import label_selectors
from streams.clients.kube.pod_objects import Owner
from streams.clients.kube.scales import Scale
from streams.clients.kube.watched_objects import ControllerObject, CronJobObject, Named, ReplicationControllerObject

WELL_KNOWN = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"})
"""Kinds whose objects are watched."""


class Key(NamedTuple):
    """One controller. A well-known kind has no `api_version`: its versions are one and the same."""

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
    """What is known of a controller. Without a selector, `fault` says why."""

    key: Key
    owner: Key | None
    selector: tuple[Requirement, ...] | None
    fault: str = ""


def key_of(namespace: str, api_version: str, kind: str, name: str) -> Key:
    """The key that a reference names.

    Groups of Kubernetes' own have no dot, and no two of them have a kind in common: old references say `extensions/v1beta1` of
    what is `apps/v1` now, people leave the group out, and upstream looks at the kind alone.
    """
    well_known = kind in WELL_KNOWN and "." not in api_version.rpartition("/")[0]
    return Key(namespace, kind, name, "" if well_known else api_version)


def owner_of(namespace: str, owners: Iterable[Owner]) -> Key | None:
    """The controller among the owners."""
    owner = next((owner for owner in owners if owner.controller), None)
    return None if owner is None else key_of(namespace, owner.api_version, owner.kind, owner.name)


def read(kind: str, found: Named) -> Controller:
    """A watched object as a controller."""
    meta = found.metadata
    key, owner = Key(meta.namespace, kind, meta.name), owner_of(meta.namespace, meta.owner_references)
    try:
        return Controller(key, owner, _selector(found))
    except ValueError as error:
        return Controller(key, owner, None, str(error))


def scaled(key: Key, scale: Scale) -> Controller:
    """An object with a scale as a controller."""
    owner = owner_of(key.namespace, scale.owners)
    if not scale.selector:
        return Controller(key, owner, None, "its scale has no selector")
    try:
        return Controller(key, owner, label_selectors.of_text(scale.selector))
    except ValueError as error:
        return Controller(key, owner, None, f"the selector of its scale is '{scale.selector}', and {error}")


def _selector(found: Named) -> tuple[Requirement, ...]:
    match found:
        case ControllerObject() if found.spec.selector is not None:
            return label_selectors.of_object(found.spec.selector)
        case ReplicationControllerObject() if found.spec.selector is not None:
            return label_selectors.of_labels(found.spec.selector)
        case CronJobObject():
            return label_selectors.of_labels(found.spec.job_template.spec.template.metadata.labels or {})
        case _:
            raise ValueError("it has no selector")
