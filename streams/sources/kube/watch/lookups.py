"""Look-ups beside the watches: scales and VPA checkpoints, one after the other, so that no watch waits for them."""

import queue
import threading

import structlog

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.clients.kube.list_watch import ApiResource, ListWatch
from streams.clients.kube.scales import ScaleClient
from streams.clients.kube.watched_objects import CheckpointObject
from streams.errors import EdgeError, GiveUp, Outdated, TryAgain
from streams.sources.kube.watch.notifications import (
    CheckpointLookup,
    CheckpointsFound,
    ForgetKinds,
    Lookup,
    Notification,
    ScaleFound,
    ScaleLookup,
)
from streams.sources.kube.watch.watched_resources import CHECKPOINTS, namespaced

_log = structlog.get_logger(__name__)


class Lookups:
    """A queue of look-ups. Any thread may call `enqueue`, one calls `step`. No `namespaces` means that all are listed."""

    def __init__(self, list_watch: ListWatch, scales: ScaleClient, namespaces: tuple[str, ...] = ()) -> None:
        self._list_watch, self._scales, self._namespaces = list_watch, scales, namespaces
        self._queue: queue.SimpleQueue[Lookup] = queue.SimpleQueue()
        self._enqueued: set[Lookup] = set()
        self._lock = threading.Lock()

    def enqueue(self, lookup: Lookup) -> None:
        """Add a look-up, unless it is in the queue already."""
        with self._lock:
            if lookup not in self._enqueued:
                self._enqueued.add(lookup)
                self._queue.put(lookup)

    def step(self, wait: Seconds) -> tuple[list[Notification], Seconds]:
        """Do the next look-up, if there is one within `wait` seconds. Returns what it found, and how long to pause then."""
        try:
            lookup = self._queue.get(timeout=wait)
        except queue.Empty:
            return [], Seconds(0.0)
        with self._lock:
            self._enqueued.discard(lookup)
        match lookup:
            case ScaleLookup():
                return [self._look_up_scale(lookup.key)], Seconds(0.0)
            case CheckpointLookup():
                return self._list_checkpoints(lookup)
            case ForgetKinds():
                self._scales.forget_kinds()
                return [], Seconds(0.0)

    def _look_up_scale(self, key: ControllerKey) -> Notification:
        try:
            return ScaleFound(key, self._scales.look_up(key))
        except EdgeError as error:
            return ScaleFound(key, None, str(error))

    def _list_checkpoints(self, lookup: CheckpointLookup) -> tuple[list[Notification], Seconds]:
        """A look-up that may yet succeed goes back into the queue, also when the server dropped the list while we read it."""
        try:
            found = tuple(each for resource in self._resources(lookup.namespace) for each in self._list_if_allowed(resource))
        except (TryAgain, Outdated) as error:
            self.enqueue(lookup)
            return [], Seconds(min(error.after, 30.0) if isinstance(error, TryAgain) else 1.0)
        return [CheckpointsFound(lookup.namespace, found)], Seconds(0.0)

    def _resources(self, namespace: str) -> list[ApiResource[CheckpointObject]]:
        wanted = [namespace] if namespace else list(self._namespaces)
        return [namespaced(CHECKPOINTS, each) for each in wanted] or [CHECKPOINTS]

    def _list_if_allowed(self, resource: ApiResource[CheckpointObject]) -> list[CheckpointObject]:
        """No checkpoints where we may not read them or their type is not installed."""
        try:
            return self._list(resource)
        except Outdated:
            raise
        except GiveUp as error:
            _log.warning("a resource cannot be seen", resource=resource.name, error=str(error))
            return []

    def _list(self, resource: ApiResource[CheckpointObject]) -> list[CheckpointObject]:
        found = []
        for page in self._list_watch.list_pages(resource):
            for item in page.items:
                if item.object is None:
                    name = f"{item.metadata.namespace}/{item.metadata.name}"
                    _log.error("an object cannot be read", resource=resource.name, object=name, reason=item.fault)
                else:
                    found.append(item.object)
        return found
