"""Facts by object: published when they differ from what was published before, and withdrawn when their objects are gone.

What was published comes from the log at a start.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import ClassVar, Generic, Protocol, TypeVar

_OWN = ("at", "resource_version", "by")
"""The fields that say when, as which version and from whom a fact came, and nothing of the object."""


class ObjectFact(Protocol):
    """A fact or policy about an object: a dataclass with a time."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def at(self) -> datetime:
        """When it was so."""


F = TypeVar("F", bound=ObjectFact)


class NamesNothingError(ValueError):
    """An object is read, and names nothing that a fact could be about, so what was published of it is withdrawn."""


class PublishedFacts(Generic[F]):
    """Facts of one kind. `publish` publishes one; `withdraw` publishes that its object is gone."""

    def __init__(self, publish: Callable[[F], None], withdraw: Callable[[F], None]) -> None:
        self._publish: Callable[[F], None] = publish
        self._withdraw: Callable[[F], None] = withdraw
        self._current: dict[str, F] = {}
        self._published: dict[str, F] = {}
        self._unread: set[str] = set()

    def restore(self, published: Mapping[str, F]) -> None:
        """Start from what the log has, and publish every current fact that differs."""
        # So a restart publishes only what changed meanwhile.
        self._published = dict(published)
        for name in sorted(self._current):
            self.upsert(name, self._current[name])

    def upsert(self, name: str, fact: F) -> None:
        """An object exists. Publishes its fact unless the same was published before."""
        self._current[name] = fact
        self._unread.discard(name)
        before = self._published.get(name)
        if before is None or not alike(before, fact):
            self._published[name] = fact
            self._publish(fact)

    def current(self) -> list[F]:
        """The facts of the objects that exist."""
        return list(self._current.values())

    def put(self, name: str, fact: F | None) -> None:
        """An object exists; None if there is no fact about it any more."""
        if fact is None:
            self.remove(name)
        else:
            self.upsert(name, fact)

    def keep(self, name: str) -> None:
        """An object exists and cannot be read: what was published of it stays until it is read again, or gone."""
        self._unread.add(name)

    def remove(self, name: str) -> None:
        """An object is gone. Withdraws its fact if it was published."""
        self._current.pop(name, None)
        self._unread.discard(name)
        published = self._published.pop(name, None)
        if published is not None:
            self._withdraw(published)

    def mark_synced(self, waiting: Collection[str] = ()) -> None:
        """Every object that exists was upserted, kept or is `waiting`: what was published and is none of that is gone."""
        for name in sorted(self._published.keys() - self._current.keys() - self._unread - set(waiting)):
            self.remove(name)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again each current fact that was last published this long ago."""
        for name, published in list(self._published.items()):
            if at - published.at >= older and (name in self._current or name in self._unread):
                self._published[name] = again = replace(self._current.get(name, published), at=at)
                self._publish(again)


def alike(left: F, right: F) -> bool:
    """Whether two facts say the same of an object, whenever and as whatever version they came."""
    content = _content(type(left))
    return type(left) is type(right) and content(left) == content(right)


@cache  # each object is compared at each look
def _content(kind: type[ObjectFact]) -> Callable[[ObjectFact], object]:
    """What a fact of this kind says of its object."""
    return attrgetter(*(name for name in kind.__dataclass_fields__ if name not in _OWN))
