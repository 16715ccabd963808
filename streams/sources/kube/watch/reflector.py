"""One resource, kept in sight: lists it, watches from there, resumes after a break, and lists again when its place is too old.

After a list it tells what changed while nobody looked and what is gone, by uid and version, so nothing is told twice. It keeps
names and versions, not objects. `step` does one list or one stream and says how long to wait; it never raises for what the
server does, and it sleeps nowhere.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import structlog

from schemas.units import Seconds
from streams.clients.kube.list_watch import Happened, Item, Lister, NotServed, Resource
from streams.clients.kube.pod_objects import Metadata
from streams.clients.kube.watched_objects import Named
from streams.errors import GiveUp, Outdated, TryAgain, Unreachable
from streams.sources.kube.watch.notifications import Blind, Change, Gone, InSync, Seen

_log = structlog.get_logger(__name__)
T = TypeVar("T", bound=Named)
FIRST_WAIT = Seconds(0.25)
LONGEST_WAIT = Seconds(30.0)
FORBIDDEN_WAIT = Seconds(60.0)
"""Rights may be granted and resources installed later; who has none is not asked often."""
MOST_REFUSALS = 5
"""A server that was restored from a backup never knows our version; a list helps. And a type that was there is not taken for
uninstalled at the first word."""
MOST_EMPTY = 4
"""The pause after streams that end without a word doubles so often."""
Tell = Callable[[Sequence[Change]], None]


class Reflector(Generic[T]):
    """One resource. `tell` is handed changes in order, and may block."""

    def __init__(self, lister: Lister, resource: Resource[T], tell: Tell) -> None:
        self._lister, self._tell, self.resource = lister, tell, resource
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._version: str | None = None
        self._failures = self._empty = 0
        self._in_sync: bool | None = None

    def step(self) -> Seconds:
        """List, or watch until the stream ends. Returns seconds to wait before the next step."""
        try:
            return self._list() if self._version is None else self._watch(self._version)
        except Outdated as error:
            self._version = None
            return self._failed(error, LONGEST_WAIT)
        except NotServed as error:
            self._missing(error)
            return FORBIDDEN_WAIT
        except GiveUp as error:
            self._version = None
            self._failures += 1
            self._blind(error)
            return FORBIDDEN_WAIT
        except Unreachable as error:
            return self._failed(error, error.after)
        except TryAgain as error:
            self._failed(error, error.after)
            if self._failures >= MOST_REFUSALS:
                self._version = None
            return Seconds(min(error.after, LONGEST_WAIT))

    def _list(self) -> Seconds:
        here: set[tuple[str, str]] = set()
        version = ""
        for page in self._lister.pages(self.resource):
            version = page.version
            here.update(_key(item.metadata) for item in page.items)
            self._say([change for item in page.items for change in self._seen(item)])
        self._say([self._forget(key) for key in sorted(self._known.keys() - here)])
        self._version = version
        self._seeing()
        return Seconds(0.0)

    def _missing(self, error: NotServed) -> None:
        """Objects go before their type does. While some were there, the server or who stands before it may be in error."""
        self._version = None
        self._failures += 1
        if self._known and self._failures < MOST_REFUSALS:
            self._blind(error)
        else:
            self._nothing()

    def _nothing(self) -> None:
        """The type is not installed, or no more: there is none of it, which is something seen."""
        if self._in_sync is not True:
            _log.info("a resource is not served, so there is none", resource=self.resource.name)
        self._say([self._forget(key) for key in sorted(self._known)])
        self._seeing()

    def _watch(self, version: str) -> Seconds:
        """How long to wait then: streams that end without a word, one after the other, may be a server's that only says yes."""
        events = self._lister.events(self.resource, version)
        self._seeing()
        empty = self._empty + 1
        for happened in events:
            self._say(self._changes(happened))
            self._version = happened.item.metadata.resource_version or self._version
            self._failures = empty = 0
        self._failures, self._empty = 0, empty
        return Seconds(FIRST_WAIT * 2 ** min(empty - 1, MOST_EMPTY) if empty else 0.0)

    def _changes(self, happened: Happened[T]) -> list[Change]:
        key = _key(happened.item.metadata)
        if happened.type == "DELETED":
            return [self._forget(key)] if key in self._known else []
        if happened.type in {"ADDED", "MODIFIED"}:
            return self._seen(happened.item)
        return []

    def _seen(self, item: Item[T]) -> list[Change]:
        """Nothing for a version that was told; another uid under a name means that its predecessor is gone."""
        key, identity = _key(item.metadata), (item.metadata.uid, item.metadata.resource_version)
        known = self._known.get(key)
        if known == identity:
            return []
        before: list[Change] = [self._forget(key)] if known is not None and known[0] != identity[0] else []
        if item.object is None:
            _log.error("an object cannot be read", resource=self.resource.name, object="/".join(key), reason=item.fault)
            return before
        self._known[key] = identity
        return [*before, Seen(self.resource.name, item.object)]

    def _forget(self, key: tuple[str, str]) -> Change:
        uid, _ = self._known.pop(key)
        return Gone(self.resource.name, *key, uid)

    def _say(self, changes: Sequence[Change]) -> None:
        if changes:
            self._tell(changes)

    def _seeing(self) -> None:
        if self._in_sync is not True:
            self._in_sync = True
            self._tell([InSync(self.resource.name)])

    def _failed(self, error: Exception, most: Seconds) -> Seconds:
        """One break is no news: the next step resumes. From the second on, and before the first list, nothing is seen."""
        self._failures += 1
        if self._failures > 1 or self._in_sync is None:
            self._blind(error)
        wait = FIRST_WAIT * 2 ** min(self._failures - 1, 10)
        return Seconds(min(wait, most, LONGEST_WAIT))

    def _blind(self, error: Exception) -> None:
        if self._in_sync is not False:
            self._in_sync = False
            _log.warning("a resource cannot be seen", resource=self.resource.name, error=str(error))
            self._tell([Blind(self.resource.name, str(error))])


def _key(metadata: Metadata) -> tuple[str, str]:
    return metadata.namespace, metadata.name
