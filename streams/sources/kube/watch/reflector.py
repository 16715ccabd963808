"""Follows one resource: lists it, watches from there, resumes after a break, and lists again when its version is too old.

After a list it reports what changed since the last one and what is gone, by uid and version, so that nothing is reported twice.
It keeps names and versions, not objects. `step` does one list or one stream and returns how long to wait before the next; it
never raises for anything that the server does, and it never sleeps.
"""

from collections.abc import Callable, Sequence

import structlog

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.clients.kube.list_watch_requests import ListedObject, ListWatch, NotServed, WatchEvent
from streams.clients.kube.pod_objects import ObjectMeta
from streams.clients.kube.watched_objects import KubeObject
from streams.errors import EdgeError, GiveUp, Outdated, TryAgain, Unreachable
from streams.sources.kube.watch.notifications import Notification, ObjectGone, ObjectSeen, ObjectUnread, WatchFailed, WatchSynced
from streams.sources.kube.watch.watched_resources import ResourceWatch

_log = structlog.get_logger(__name__)
FIRST_WAIT = Seconds(0.25)
LONGEST_WAIT = Seconds(30.0)
FORBIDDEN_WAIT = Seconds(60.0)  # somebody may grant the right or install the type later, but hardly within seconds
# After so many refusals in a row, list again: a server that was restored from a backup never knows our version. It also takes so
# many before a type that was there counts as uninstalled.
MOST_REFUSALS = 5
MOST_DOUBLINGS = 4
"""The pause after a stream that ends without an event doubles up to so many times."""
Notify = Callable[[Sequence[Notification]], None]


class Reflector:
    """One watch. `notify` receives what it shows, in order, and may block."""

    def __init__(self, list_watch: ListWatch, watch: ResourceWatch, notify: Notify) -> None:
        self._list_watch, self.watch, self._notify = list_watch, watch, notify
        self._versions: dict[tuple[str, str], tuple[str, str]] = {}
        """By namespace and name: uid and resource version of each object that was reported."""
        self._version: str | None = None
        self._failures = self._empty_streams = 0
        self._in_sync: bool | None = None

    def step(self) -> Seconds:
        """List, or watch until the stream ends. Returns seconds to wait before the next step."""
        try:
            return self._list() if self._version is None else self._watch(self._version)
        except Outdated as error:
            self._version = None
            return self._failed(error, LONGEST_WAIT)
        except NotServed as error:
            self._not_served(error)
            return FORBIDDEN_WAIT
        except GiveUp as error:
            self._version = None
            self._failures += 1
            self._report_failed(error)
            return FORBIDDEN_WAIT
        except Unreachable as error:
            return self._failed(error, error.after)
        except TryAgain as error:
            self._failed(error, error.after)
            if self._failures >= MOST_REFUSALS:
                self._version = None
            return Seconds(min(error.after, LONGEST_WAIT))

    def _list(self) -> Seconds:
        listed: set[tuple[str, str]] = set()
        version = ""
        for page in self._list_watch.list_pages(self.watch.resource):
            version = page.version
            listed.update(_key(item.metadata) for item in page.items)
            self._report([notification for item in page.items for notification in self._seen(item)])
        self._report([self._forget(key) for key in sorted(self._versions.keys() - listed)])
        self._version = version
        self._report_synced()
        return Seconds(0.0)

    def _not_served(self, error: NotServed) -> None:
        self._version = None
        self._failures += 1
        # Objects are deleted before their type. So while we know some, the 404 may be an error of the server or of a proxy.
        if self._versions and self._failures < MOST_REFUSALS:
            self._report_failed(error)
        else:
            self._not_installed()

    def _not_installed(self) -> None:
        """The type is not installed, or no longer, so we know that there are no such objects."""
        if self._in_sync is not True:
            _log.info("a resource is not served, so there is none", resource=self.watch.name)
        self._report([self._forget(key) for key in sorted(self._versions)])
        self._report_synced()

    def _watch(self, version: str) -> Seconds:
        events = self._list_watch.watch(self.watch.resource, version)
        self._report_synced()
        empty_streams = self._empty_streams + 1
        for event in events:
            self._report(self._notifications(event))
            self._version = event.item.metadata.resource_version or self._version
            self._failures = empty_streams = 0
        self._failures, self._empty_streams = 0, empty_streams
        # Longer after each stream without an event, in case the server ends every stream at once.
        return Seconds(FIRST_WAIT * 2 ** min(empty_streams - 1, MOST_DOUBLINGS) if empty_streams else 0.0)

    def _notifications(self, event: WatchEvent[KubeObject]) -> list[Notification]:
        key = _key(event.item.metadata)
        if event.type == "DELETED":
            return [self._forget(key)] if key in self._versions else []
        if event.type in {"ADDED", "MODIFIED"}:
            return self._seen(event.item)
        return []

    def _seen(self, item: ListedObject[KubeObject]) -> list[Notification]:
        """Report an object, unless this version was reported."""
        key, identity = _key(item.metadata), (item.metadata.uid, item.metadata.resource_version)
        reported = self._versions.get(key)
        if reported == identity:
            return []
        if item.object is None:
            _log.error("an object cannot be read", resource=self.watch.name, object="/".join(key), reason=item.fault)
            if not item.metadata.name:
                return []
            identity = (identity[0] or ("" if reported is None else reported[0]), identity[1])
        # Another uid under the same name means that the former object is gone.
        another = reported is not None and "" not in (reported[0], identity[0]) and reported[0] != identity[0]
        before: list[Notification] = [self._forget(key)] if another else []
        self._versions[key] = identity
        if item.object is None:
            return [*before, ObjectUnread(self.watch.kind, *key, identity[0])]
        return [*before, ObjectSeen(self.watch.kind, item.object)]

    def _forget(self, key: tuple[str, str]) -> Notification:
        uid, _ = self._versions.pop(key)
        return ObjectGone(self.watch.kind, *key, uid)

    def _report(self, notifications: Sequence[Notification]) -> None:
        if notifications:
            self._notify(notifications)

    def _report_synced(self) -> None:
        if self._in_sync is not True:
            self._in_sync = True
            self._notify([WatchSynced(self.watch.name)])

    def _report_failed(self, error: EdgeError) -> None:
        if self._in_sync is not False:
            self._in_sync = False
            if not isinstance(error, Unreachable):  # an unreachable server is logged once, for all watches
                _log.warning("a resource cannot be seen", resource=self.watch.name, error=str(error))
            self._notify([WatchFailed(self.watch.name, str(error), error.detail is OutcomeDetail.FORBIDDEN)])

    def _failed(self, error: EdgeError, longest: Seconds) -> Seconds:
        self._failures += 1
        # A single break is no news, because the next step resumes after it; one before the first list is complete is.
        if self._failures > 1 or self._in_sync is None:
            self._report_failed(error)
        wait = FIRST_WAIT * 2 ** min(self._failures - 1, 10)
        return Seconds(min(wait, longest, LONGEST_WAIT))


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace, metadata.name
