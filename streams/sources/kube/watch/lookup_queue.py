"""Look-ups beside the watches: scales and VPA checkpoints, one after the other, so that no watch waits for them."""

import heapq
import itertools
import threading
from collections import deque
from time import monotonic

import structlog

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey, ScaleClient
from streams.clients.kube.list_watch_requests import ApiResource, ListWatch
from streams.clients.kube.watched_objects import CheckpointObject
from streams.errors import EdgeError, GiveUp, Outdated, TryAgain
from streams.sources.kube.watch.notifications import (
    CheckpointLookup,
    CheckpointsFound,
    ForgetKinds,
    LookupChange,
    Notification,
    ScaleFound,
    ScaleLookup,
)
from streams.sources.kube.watch.watched_resources import CHECKPOINTS, namespaced

_log = structlog.get_logger(__name__)


class Lookups:
    """A queue of look-ups. Any thread may call `enqueue`, one calls `step`. No `namespaces` means that all are listed.

    A look-up that must be repeated later lets the others go first.
    """

    def __init__(self, list_watch: ListWatch, scales: ScaleClient, namespaces: tuple[str, ...] = ()) -> None:
        self._list_watch, self._scales, self._namespaces = list_watch, scales, namespaces
        self._queues: dict[str, deque[LookupChange]] = {}
        self._later: list[tuple[float, int, LookupChange]] = []
        self._enqueued: set[LookupChange] = set()
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def enqueue(self, lookup: LookupChange, after: float = 0.0) -> None:
        """Add a look-up, to be done in `after` seconds or later, unless it is in the queue already."""
        with self._changed:
            if lookup not in self._enqueued:
                self._enqueued.add(lookup)
                heapq.heappush(self._later, (monotonic() + after, next(self._numbers), lookup))
                self._changed.notify()

    def step(self, wait: Seconds) -> list[Notification]:
        """Do the next look-up, if one is due within `wait` seconds. Returns what it found."""
        lookup = self._next(wait)
        match lookup:
            case ScaleLookup():
                return [self._look_up_scale(lookup.key)]
            case CheckpointLookup():
                return self._list_checkpoints(lookup)
            case ForgetKinds():
                self._scales.forget_kinds()
        return []

    def _next(self, wait: Seconds) -> LookupChange | None:
        until = monotonic() + wait
        with self._changed:
            while True:
                now = monotonic()
                while self._later and self._later[0][0] <= now:
                    lookup = heapq.heappop(self._later)[2]
                    self._queues.setdefault(_namespace(lookup), deque()).append(lookup)
                if self._queues:
                    return self._take_turn()
                if now >= until:
                    return None
                self._changed.wait(min([until, *(due for due, _, _ in self._later[:1])]) - now)

    def _take_turn(self) -> LookupChange:
        """The first look-up of the namespace whose turn it is, which then goes to the end."""
        # One that needs ten thousand look-ups waits for them, and the others do not.
        namespace = next(iter(self._queues))
        waiting = self._queues.pop(namespace)
        lookup = waiting.popleft()
        if waiting:
            self._queues[namespace] = waiting
        self._enqueued.discard(lookup)
        return lookup

    def _look_up_scale(self, key: ControllerKey) -> Notification:
        try:
            return ScaleFound(key, self._scales.look_up(key))
        except EdgeError as error:
            return ScaleFound(key, None, str(error))

    def _list_checkpoints(self, lookup: CheckpointLookup) -> list[Notification]:
        resources = self._resources(lookup.namespace)
        try:
            checkpoints = tuple(checkpoint for resource in resources for checkpoint in self._list_if_allowed(resource))
        except (TryAgain, Outdated) as error:  # it may yet succeed, even if the server dropped the list while we read it
            self.enqueue(lookup, min(error.after, 30.0) if isinstance(error, TryAgain) else 1.0)
            return []
        return [CheckpointsFound(lookup.namespace, checkpoints)]

    def _resources(self, namespace: str) -> list[ApiResource[CheckpointObject]]:
        wanted = [namespace] if namespace else list(self._namespaces)
        return [namespaced(CHECKPOINTS, name) for name in wanted] or [CHECKPOINTS]

    def _list_if_allowed(self, resource: ApiResource[CheckpointObject]) -> list[CheckpointObject]:
        """No checkpoints where we may not read them or their type is not installed."""
        try:
            return self._list(resource)
        # It is a GiveUp, too, but the list can be read anew.
        except Outdated:
            raise
        except GiveUp as error:
            _log.warning("a resource cannot be seen", resource=resource.name, error=str(error))
            return []

    def _list(self, resource: ApiResource[CheckpointObject]) -> list[CheckpointObject]:
        checkpoints = []
        for page in self._list_watch.list_pages(resource):
            for item in page.items:
                if item.object is None:
                    name = f"{item.metadata.namespace}/{item.metadata.name}"
                    _log.error("an object cannot be read", resource=resource.name, object=name, reason=item.fault)
                else:
                    checkpoints.append(item.object)
        return checkpoints


def _namespace(lookup: LookupChange) -> str:
    """The namespace whose turn a look-up takes; empty if it concerns all."""
    match lookup:
        case ScaleLookup():
            return lookup.key.namespace
        case CheckpointLookup():
            return lookup.namespace
        case ForgetKinds():
            return ""
