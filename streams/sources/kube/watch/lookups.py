"""Questions that are asked aside, one after the other, so that nothing else waits for them: scales, and checkpoints."""

import queue
import threading

import structlog

from schemas.units import Seconds
from streams.clients.kube.list_watch import Lister, Resource
from streams.clients.kube.scales import Scales
from streams.clients.kube.watched_objects import CheckpointObject
from streams.errors import EdgeError, GiveUp, Outdated, TryAgain
from streams.sources.kube.owners.controllers import Key
from streams.sources.kube.watch.notifications import Change, CheckpointsFound, Errand, LookAnew, ScaleFound
from streams.sources.kube.watch.watched_resources import CHECKPOINTS, namespaced

_log = structlog.get_logger(__name__)


class Errands:
    """`put` from any thread, `step` from one. `namespaces` are those that may be looked at; none means all."""

    def __init__(self, lister: Lister, scales: Scales, namespaces: tuple[str, ...] = ()) -> None:
        self._lister, self._scales, self._namespaces = lister, scales, namespaces
        self._queue: queue.SimpleQueue[Errand] = queue.SimpleQueue()
        self._due: set[Errand] = set()
        self._lock = threading.Lock()

    def put(self, errand: Errand) -> None:
        """Ask this some time; once if it is put twice before."""
        with self._lock:
            if errand not in self._due:
                self._due.add(errand)
                self._queue.put(errand)

    def step(self, wait: Seconds) -> tuple[list[Change], Seconds]:
        """One answer, if there is a question within so long; and how long to pause then."""
        try:
            errand = self._queue.get(timeout=wait)
        except queue.Empty:
            return [], Seconds(0.0)
        with self._lock:
            self._due.discard(errand)
        match errand:
            case Key():
                return self._scale(errand)
            case LookAnew():
                self._scales.forget()
                return [], Seconds(0.0)
            case _:
                return self._checkpoints(errand)

    def _scale(self, key: Key) -> tuple[list[Change], Seconds]:
        try:
            found = self._scales.find(key.namespace, key.api_version, key.kind, key.name)
        except EdgeError as error:
            return [ScaleFound(key, None, str(error))], Seconds(0.0)
        return [ScaleFound(key, found)], Seconds(0.0)

    def _checkpoints(self, namespace: str) -> tuple[list[Change], Seconds]:
        """Asked again when it may yet be answered, and when the list took too long to read."""
        try:
            found = tuple(each for where in self._where(namespace) for each in self._allowed(where))
        except (TryAgain, Outdated) as error:
            self.put(namespace)
            return [], Seconds(min(error.after, 30.0) if isinstance(error, TryAgain) else 1.0)
        return [CheckpointsFound(namespace, found)], Seconds(0.0)

    def _where(self, namespace: str) -> list[Resource[CheckpointObject]]:
        wanted = [namespace] if namespace else list(self._namespaces)
        return [namespaced(CHECKPOINTS, each) for each in wanted] or [CHECKPOINTS]

    def _allowed(self, resource: Resource[CheckpointObject]) -> list[CheckpointObject]:
        """None where they may not be read, or have no type."""
        try:
            return self._list(resource)
        except Outdated:
            raise
        except GiveUp as error:
            _log.warning("a resource cannot be seen", resource=resource.name, error=str(error))
            return []

    def _list(self, resource: Resource[CheckpointObject]) -> list[CheckpointObject]:
        found = []
        for page in self._lister.pages(resource):
            for item in page.items:
                if item.object is None:
                    name = f"{item.metadata.namespace}/{item.metadata.name}"
                    _log.error("an object cannot be read", resource=resource.name, object=name, reason=item.fault)
                else:
                    found.append(item.object)
        return found
