"""What changed in a cluster between two polls, for a source that polls instead of watching."""

from collections.abc import Sequence
from dataclasses import dataclass

from streams.clients.kube.json_objects import Json


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
