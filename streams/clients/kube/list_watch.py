"""Lists in pages and watches as streams, for one kind of object of a Kubernetes API server.

Knows how the server spells pages, events and versions. Keeps nothing: what a broken stream means is for who reads it. An object
that cannot be read comes with its fault instead of stopping the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from schemas.units import Seconds
from streams.clients.kube import refusals
from streams.clients.kube.api import Api, Question
from streams.clients.kube.pod_objects import Metadata, Status
from streams.clients.kube.watched_objects import AnyObject, Named
from streams.errors import GiveUp, Outdated

T_co = TypeVar("T_co", bound=Named, covariant=True)
T = TypeVar("T", bound=Named)
PATIENCE = Seconds(300.0)
SILENCE = Seconds(100.0)
PAGE = 500
"""Objects asked for at once."""


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """What is listed and watched. `name` is for people. Without `bookmarks`, a quiet stream is quiet until it ends."""

    name: str
    path: str
    kind: type[T_co]
    select: str = ""
    bookmarks: bool = True

    @property
    def may_be_missing(self) -> bool:
        """Whether its type is one that is installed: only their groups have dots."""
        _, root, group, *_ = self.path.split("/")
        return root == "apis" and "." in group


@dataclass(frozen=True, slots=True)
class Item(Generic[T_co]):
    """An object as far as it can be read: `object` is None where it cannot be, and then `fault` says why."""

    metadata: Metadata
    object: T_co | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """A part of a list, and the version that the list shows."""

    items: tuple[Item[T_co], ...]
    version: str


@dataclass(frozen=True, slots=True)
class Happened(Generic[T_co]):
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    item: Item[T_co]


class Lister(Protocol):
    """Lists and watches; the protocol is for sources, which name no server."""

    def pages(self, resource: Resource[T]) -> Iterator[Page[T]]:
        """All objects, page by page."""

    def events(self, resource: Resource[T], version: str) -> Iterator[Happened[T]]:
        """What happens after a version. Has begun when it returns."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class NotServed(GiveUp):
    """The server has no such resource: its type is not installed, so there is none of it. Built-in types always are."""


class Watching:
    """Lists and watches of one server. `patience` bounds a stream, in seconds; then the server ends it and it is opened again."""

    def __init__(self, api: Api, *, patience: Seconds = PATIENCE, silence: Seconds = SILENCE) -> None:
        """`silence`: seconds without a byte after which a stream with bookmarks is taken for broken."""
        self._api, self._patience, self._silence = api, patience, silence

    def pages(self, resource: Resource[T]) -> Iterator[Page[T]]:
        """All objects, page by page. Raises TryAgain, GiveUp, NotServed, and Outdated when the list took too long to read."""
        after = ""
        while True:
            question = self._question(resource, {"limit": str(PAGE), "continue": after}, "listing")
            page = self._api.find(question, _List)
            if page is None:
                kind = NotServed if resource.may_be_missing else GiveUp
                raise kind(doing=question.doing, to=question.to, answer="404: the server has no such resource")
            yield Page(tuple(_item(raw, resource) for raw in page.items or ()), page.metadata.resource_version)
            after = page.metadata.continue_
            if not after:
                return

    def events(self, resource: Resource[T], version: str) -> Iterator[Happened[T]]:
        """What happens after a version, until the server ends the stream. Raises as `pages`; has begun when it returns.

        A line that is no JSON raises Outdated: what it said cannot be known but from a list.
        """
        wanted = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._patience)),
        }
        question = self._question(resource, wanted, "watching")
        silence = self._silence if resource.bookmarks else Seconds(self._patience + 30.0)
        lines = self._api.lines(question, silence=Seconds(min(silence, self._patience + 30.0)))
        return (_happened(line, resource, question) for line in lines)

    def _question(self, resource: Resource[T], wanted: dict[str, str], doing: str) -> Question:
        query = {**wanted, "fieldSelector": resource.select}
        text = urlencode({name: value for name, value in query.items() if value})
        return Question(f"{resource.path}?{text}", doing, resource.name)


def _happened(line: bytes, resource: Resource[T], question: Question) -> Happened[T]:
    try:
        return _read(line, resource, question)
    except ValueError as error:
        answer = f"a line that cannot be read: {error}: {line[:100]!r}"
        raise Outdated(doing=question.doing, to=question.to, answer=answer) from error


def _read(line: bytes, resource: Resource[T], question: Question) -> Happened[T]:
    said = msgspec.json.decode(line, type=_Line)
    if said.type == "ERROR":
        status = msgspec.json.decode(said.object, type=Status)
        message = status.message or status.reason
        raise refusals.refused(doing=question.doing, to=question.to, code=status.code or 500, message=message)
    if said.type == "BOOKMARK":
        version = msgspec.json.decode(said.object, type=_Versioned).metadata.resource_version
        return Happened(said.type, Item(Metadata(name="", resource_version=version), None))
    return Happened(said.type, _item(said.object, resource))


def _item(raw: msgspec.Raw, resource: Resource[T]) -> Item[T]:
    """The object; of one that cannot be read, its name, and of one that has none, its beginning."""
    try:
        found = msgspec.json.decode(raw, type=resource.kind)
        return Item(found.metadata, found)
    except ValueError as fault:
        try:
            return Item(msgspec.json.decode(raw, type=AnyObject).metadata, None, str(fault))
        except ValueError:
            return Item(Metadata(name=""), None, f"{fault}: {bytes(raw)[:100]!r}")
