"""The threads of the kube source: one for each watch, one for errands, and the caller's own, which takes in what they bring.

A watch blocks for minutes, so its thread is a daemon: it ends with the process, and what it had not brought is seen again.
"""

import threading
from collections.abc import Callable, Sequence

import structlog

from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.list_watch import Watching
from streams.clients.kube.scales import Scales
from streams.errors import LogUnavailable, UllageError
from streams.sources.kube.kube_source import Desk, KubeSource
from streams.sources.kube.watch.inbox import Inbox
from streams.sources.kube.watch.lookups import Errands
from streams.sources.kube.watch.reflector import Reflector
from streams.sources.kube.watch.sync_status import Sights
from streams.sources.kube.watch.watched_resources import Watch, watches

_log = structlog.get_logger(__name__)
PACE = Seconds(0.2)
AWAY = Seconds(2.0)
"""Seconds between two tries while the log is away."""


class WatcherDied(UllageError):
    """A thread that watches ended by itself."""


class Watchers:
    """The kube source at work. `patience` is for tests: how long the server is asked to keep a stream open, in seconds."""

    def __init__(self, api: Api, desk: Desk, *, watching: Watching | None = None) -> None:
        lister = Watching(api) if watching is None else watching
        self._all: Sequence[Watch] = watches(desk.namespaces)
        self._inbox = Inbox()
        self._errands = Errands(lister, Scales(api), desk.namespaces)
        self._reflectors = [Reflector(lister, watch.resource, self._inbox.put) for watch in self._all]
        self.sights = Sights({watch.resource.name: watch.kind for watch in self._all})
        self.source = KubeSource(desk, self.sights, self._errands.put)

    def run(self, stop: threading.Event, *, after: Callable[[], None] = lambda: None) -> None:
        """Watch until stopped; `after` is called after each round. Raises WatcherDied."""
        threads = [self._thread(reflector.resource.name, reflector.step, stop) for reflector in self._reflectors]
        threads.append(self._thread("errands", self._errand, stop))
        if not self._begun(stop):
            return
        while not stop.is_set():
            self.source.take(self._inbox.take(PACE))
            if not self.source.beat():
                stop.wait(AWAY)
            after()
            dead = [thread.name for thread in threads if not thread.is_alive()]
            if dead and not stop.is_set():
                raise WatcherDied(f"the watch of {dead[0]} ended by itself; the lines above say why")

    def _begun(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            try:
                self.source.begin()
            except LogUnavailable as error:
                _log.warning("the log is away, nothing is watched yet", error=str(error))
                stop.wait(AWAY)
            else:
                return True
        return False

    def _errand(self) -> Seconds:
        changes, pause = self._errands.step(Seconds(1.0))
        if changes:
            self._inbox.put(changes)
        return pause

    def _thread(self, name: str, step: Callable[[], Seconds], stop: threading.Event) -> threading.Thread:
        def run() -> None:
            while not stop.is_set():
                stop.wait(step())

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread
