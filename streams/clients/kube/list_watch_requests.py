"""Lists in pages and watches as streams, for one kind of object on a Kubernetes API server.

This module knows the server's format of pages, events and versions. It keeps no state; the caller decides what a broken stream
means. An object that cannot be read comes with the reason, so that it does not stop the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from schemas.units import Seconds
from streams import typed_json
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube import refusals
from streams.clients.kube.api import Api, ApiRequest, ResponseTooLarge
from streams.clients.kube.pod_objects import ObjectMeta
from streams.clients.kube.refusals import ApiStatus
from streams.clients.kube.watched_objects import KubeObject, PartialObject
from streams.errors import GiveUp, Outdated

T_co = TypeVar("T_co", bound=KubeObject, covariant=True)
T = TypeVar("T", bound=KubeObject)
# The least that client-go asks for (reflector.go, minWatchTimeout).
STREAM_TIMEOUT = Seconds(300.0)
# A server sends a bookmark about once a minute.
IDLE_TIMEOUT = Seconds(100.0)
PAGE = 500
"""Objects in one page of a list."""
_METADATA = {
    "listing": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "watching": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}
"""The form in which a server sends nothing but the metadata of objects."""


@dataclass(frozen=True, slots=True)
class ApiResource(Generic[T_co]):
    """What to list and watch. `name` is for people, `type` is what its objects are decoded as.

    Without `bookmarks` a quiet stream stays silent until it ends. With `metadata` the server sends nothing else of an object.
    """

    name: str
    path: str
    type: type[T_co]
    field_selector: str = ""
    bookmarks: bool = True
    metadata: bool = False

    @property
    def may_be_missing(self) -> bool:
        """Whether its type may be absent from a healthy server: only groups of installed types have dots."""
        return "." in self.group

    @property
    def group(self) -> str:
        """The API group, by which rights are granted; empty for the core's."""
        _, root, group, *_ = self.path.split("/")
        return group if root == "apis" else ""

    @property
    def plural(self) -> str:
        """The resource's name in a right, such as `pods`."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ListedObject(Generic[T_co]):
    """An object as far as it could be read. `object` is None where it could not be, and then `fault` says why."""

    metadata: ObjectMeta
    object: T_co | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T_co]):
    """One page of a list, and the resource version that the whole list shows."""

    items: tuple[ListedObject[T_co], ...]
    version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T_co]):
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    item: ListedObject[T_co]


class ListWatch(Protocol):
    """Lists and watches, whatever stands behind them."""

    def list_pages(self, resource: ApiResource[T]) -> Iterator[ListPage[T]]:
        """All objects, page by page."""

    def watch(self, resource: ApiResource[T], version: str) -> Iterator[WatchEvent[T]]:
        """What happens after a version. The stream is open when this returns."""


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


class _Name(msgspec.Struct, frozen=True):
    name: str
    namespace: str = "default"


class _NamedObject(msgspec.Struct, frozen=True):
    metadata: _Name


class NotServed(GiveUp):
    """The server does not know the resource: its type is not installed, so no such objects exist. Built-in types always are."""


class ListWatchClient:
    """Lists and watches of one API server."""

    def __init__(self, api: Api, *, stream_timeout: Seconds = STREAM_TIMEOUT, idle_timeout: Seconds = IDLE_TIMEOUT) -> None:
        """`stream_timeout`: after this long the server ends a watch, and the caller opens the next.

        `idle_timeout`: a stream with bookmarks that sends no byte for this long counts as broken. Both in seconds.
        """
        self._api, self._stream_timeout, self._idle_timeout = api, stream_timeout, idle_timeout

    def list_pages(self, resource: ApiResource[T]) -> Iterator[ListPage[T]]:
        """All objects, page by page. Raises TryAgain, GiveUp, NotServed, and Outdated when reading the list took too long."""
        after, size, pages = "", PAGE, PageTokens("listing", resource.name)
        while True:
            request = self._request(resource, {"limit": str(size), "continue": after}, "listing")
            try:
                page = self._api.find(request, _List)
            except ResponseTooLarge as error:
                size = error.smaller_page(size)  # one tenant's large objects must not hide those of others
                continue
            if page is None:
                kind = NotServed if resource.may_be_missing else GiveUp
                raise kind(doing=request.doing, to=request.to, answer="404: the server has no such resource")
            yield ListPage(tuple(_item(raw, resource) for raw in page.items or ()), page.metadata.resource_version)
            after = pages.following(page.metadata.continue_)
            if not after:
                return

    def watch(self, resource: ApiResource[T], version: str) -> Iterator[WatchEvent[T]]:
        """What happens after a version, until the server ends the stream, which is open when this returns.

        Raises as `list_pages`, and Outdated for a line that is not JSON.
        """
        parameters = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._stream_timeout)),
        }
        request = self._request(resource, parameters, "watching")
        # Without bookmarks a quiet stream is silent until the server ends it, which it may do a little late.
        longest = Seconds(self._stream_timeout + 30.0)
        idle = min(self._idle_timeout, longest) if resource.bookmarks else longest
        lines = self._api.stream_lines(request, idle_timeout=Seconds(idle))
        return (_watch_event(line, resource, request) for line in lines)

    def _request(self, resource: ApiResource[T], parameters: dict[str, str], doing: str) -> ApiRequest:
        query = {**parameters, "fieldSelector": resource.field_selector}
        text = urlencode({name: value for name, value in query.items() if value})
        request = ApiRequest(f"{resource.path}?{text}", doing, resource.name)
        return replace(request, accept=_METADATA[doing]) if resource.metadata else request


def _watch_event(line: bytes, resource: ApiResource[T], request: ApiRequest) -> WatchEvent[T]:
    try:
        return _decode_line(line, resource, request)
    except ValueError as error:
        answer = f"a line that cannot be read: {error}: {line[:100]!r}"
        raise Outdated(doing=request.doing, to=request.to, answer=answer) from error  # only a new list shows what it held


def _decode_line(line: bytes, resource: ApiResource[T], request: ApiRequest) -> WatchEvent[T]:
    event = typed_json.decode(line, _Line)
    if event.type == "ERROR":
        status = typed_json.decode(event.object, ApiStatus)
        message = status.message or status.reason
        raise refusals.error_for_status(doing=request.doing, to=request.to, code=status.code or 500, message=message)
    if event.type == "BOOKMARK":
        version = typed_json.decode(event.object, _Versioned).metadata.resource_version
        return WatchEvent(event.type, ListedObject(ObjectMeta(name="", resource_version=version), None))
    return WatchEvent(event.type, _item(event.object, resource))


def _item(raw: msgspec.Raw, resource: ApiResource[T]) -> ListedObject[T]:
    """The object. If it cannot be read, its metadata, or its name alone; if it has none, the fault quotes its beginning."""
    try:
        decoded = typed_json.decode_object(raw, resource.type)
        return ListedObject(decoded.metadata, decoded)
    except ValueError as fault:
        about = _metadata(raw)
        quote = "" if about.name else f": {bytes(raw)[:100]!r}"
        return ListedObject(about, None, f"{fault}{quote}")


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    """The metadata of an object that cannot be read as a whole, as far as it can be; without a name if it has none."""
    try:
        return typed_json.decode_object(raw, PartialObject).metadata
    except ValueError:
        pass
    try:
        about = typed_json.decode_object(raw, _NamedObject).metadata
    except ValueError:
        return ObjectMeta(name="")
    return ObjectMeta(about.name, about.namespace)
