"""What comes in from the cluster: objects seen and gone, resources in sync or out of sight, and answers to errands."""

from dataclasses import dataclass

from streams.clients.kube.scales import Scale
from streams.clients.kube.watched_objects import CheckpointObject, Named
from streams.sources.kube.owners.controllers import Key


@dataclass(frozen=True, slots=True)
class Seen:
    """An object is there, new or changed. `resource` is the name of the watched resource."""

    resource: str
    object: Named


@dataclass(frozen=True, slots=True)
class Gone:
    """An object that was seen is no more."""

    resource: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class InSync:
    """Everything that is there was seen, and from now on changes are."""

    resource: str


@dataclass(frozen=True, slots=True)
class Blind:
    """The resource cannot be seen now; `why` is a sentence."""

    resource: str
    why: str


@dataclass(frozen=True, slots=True)
class ScaleFound:
    """The scale of a controller, None where it has none; `why` is not empty when it could not be asked for."""

    key: Key
    scale: Scale | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointsFound:
    """The checkpoints of a namespace; of all where it is empty."""

    namespace: str
    found: tuple[CheckpointObject, ...]


Change = Seen | Gone | InSync | Blind | ScaleFound | CheckpointsFound


@dataclass(frozen=True, slots=True)
class LookAnew:
    """Kinds may have come and gone."""


Errand = Key | str | LookAnew
"""A question to be asked aside: a controller's scale, or the checkpoints of a namespace. `LookAnew` asks nothing."""
