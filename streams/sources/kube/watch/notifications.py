"""Notifications from the cluster, and look-ups beside the watches.

Notifications say that objects were seen or are gone, that watches are in sync or failed, and what look-ups found.
"""

from dataclasses import dataclass

from streams.clients.kube.controllers import ControllerKey, ObjectScale
from streams.clients.kube.watched_objects import CheckpointObject, KubeObject


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object exists, new or changed. `kind` is that of its watch, such as `pods`."""

    kind: str
    object: KubeObject


@dataclass(frozen=True, slots=True)
class ObjectUnread:
    """An object exists and cannot be read, as was said when it was seen. The uid is empty where it cannot be read either."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object that was seen no longer exists."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class WatchSynced:
    """The watch of this name has shown every object that exists, and from now on shows each change."""

    watch: str


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """The watch of this name shows nothing at the moment; `reason` is a sentence. `refused`: its account may not see the kind."""

    watch: str
    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class ScaleFound:
    """The scale of a controller; None where it has none. `reason` is not empty when the look-up failed."""

    key: ControllerKey
    scale: ObjectScale | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointsFound:
    """The VPA checkpoints of a namespace; of every namespace where it is empty."""

    namespace: str
    checkpoints: tuple[CheckpointObject, ...]


Notification = ObjectSeen | ObjectUnread | ObjectGone | WatchSynced | WatchFailed | ScaleFound | CheckpointsFound


@dataclass(frozen=True, slots=True)
class ScaleLookup:
    """Look up the scale of a controller."""

    key: ControllerKey


@dataclass(frozen=True, slots=True)
class CheckpointLookup:
    """List the VPA checkpoints of a namespace; of every namespace where it is empty."""

    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ForgetKinds:
    """Look up kinds again from now on, because types may have been installed or removed. Has no result of its own."""


LookupChange = ScaleLookup | CheckpointLookup | ForgetKinds
