"""Writes what became of an object by which somebody commands into its status.

Each write comes back as a change of the object. So one that somebody else undoes, as a second installation would, is done more
and more seldom, and so is one that the API server refuses.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from schemas.times import to_seconds
from streams.clients.kube import commanding_objects
from streams.clients.kube.commanding_objects import CONTROL_KIND, STATUS_MANAGER, CommandingObject
from streams.clients.kube.json_objects import Json
from streams.clients.kube.pod_objects import AuthoredMeta
from streams.contested_writes import DriftBook, RefusalBook
from streams.errors import GiveUp
from streams.sources.kube.watch.notifications import ObjectGone

C = TypeVar("C", bound=CommandingObject)
Answer = tuple[int, bool, str]
"""What a status says: of which generation, whether that is in force, and the message."""
_NEVER = datetime.min.replace(tzinfo=UTC)


class StatusWrites(Generic[C]):
    """The statuses of the objects of one kind; `write` writes one."""

    def __init__(self, kind: str, write: Callable[[C, Json], None]) -> None:
        self._kind, self._write = kind, write
        self._drifts, self._refusals = DriftBook(), RefusalBook()

    def write(self, item: C, answer: Answer, at: datetime) -> bool:
        """Make the status say this; False if it has to wait, which the log tells. Raises TryAgain."""
        key, now = (*self._named(item.metadata), f"status of {self._kind}"), to_seconds(at)
        again = self._drifts.again(key, answer, now)
        if again > now:
            self._drifts.warn(key, again, _status_writer(item.metadata))
            return False
        status = commanding_objects.status(item, at, in_force=answer[1], message=answer[2])
        try:
            self._refusals.ask(key, answer, now, lambda: self._write(item, status))
        except GiveUp:
            return False
        self._drifts.settled(key, answer)
        return True

    def forget(self, gone: ObjectGone) -> None:
        """The object is gone."""
        self._drifts.forget(*self._named(gone))
        self._refusals.forget(*self._named(gone))

    def _named(self, item: AuthoredMeta | ObjectGone) -> tuple[str, str]:
        # One of the whole cluster is read as if it were in the namespace `default`.
        return "" if self._kind == CONTROL_KIND else item.namespace, item.name


def _status_writer(meta: AuthoredMeta) -> str:
    """The field manager that wrote the status last: ours only where there is no other; empty if nobody says it."""
    fields = [field for field in meta.managed_fields or () if field.subresource == "status"]
    newest = max(fields, key=lambda field: (field.manager != STATUS_MANAGER, field.time or _NEVER), default=None)
    return "" if newest is None else newest.manager[:128]
