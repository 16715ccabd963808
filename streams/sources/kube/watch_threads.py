"""The threads of the kube source: one for each watch, one for look-ups, and the caller's, which handles what they bring in.

A watch blocks for minutes, so its thread is a daemon that ends with the process. What it had not passed on by then is seen again
after the next start. `watches` says which resources are watched: in the whole cluster, or in some namespaces only.
"""

import queue
import threading
from collections.abc import Callable, Collection, Sequence

from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ScaleClient
from streams.clients.kube.list_watch_requests import ApiResource, ListWatchClient
from streams.clients.kube.watched_objects import KubeObject
from streams.errors import LogUnavailable, UllageError
from streams.log_context import LogContext
from streams.sources.kube.kube_source import KubeSource, SourceOptions
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.watch.lookup_queue import Lookups
from streams.sources.kube.watch.notifications import Notification
from streams.sources.kube.watch.reflector import Reflector
from streams.sources.kube.watch.sync_status import SyncStatus
from streams.sources.kube.watch.watched_resources import (
    BUDGETS,
    BUFFERS,
    CONTROLS,
    DETAILED,
    EHPAS,
    FAILED_CREATIONS,
    HPAS,
    IN_NAMESPACES,
    NAMESPACES,
    NODES,
    POLICIES,
    STORAGE,
    TSPS,
    PrioritiesMap,
    ResourceWatch,
    WebhookLease,
    namespaced,
)


def watches(  # noqa: PLR0913  # one flag for each capability, all by keyword
    namespaces: Sequence[str] = (),
    *,
    nodes: bool = False,
    replicas: bool = False,
    webhook: WebhookLease | None = None,
    priorities: PrioritiesMap | None = None,
    control: bool = False,
    policies: bool = False,
) -> tuple[ResourceWatch, ...]:
    """Every watch, controllers first. No namespaces means all of them.

    With `nodes`, all that node scaling needs is read, and `priorities` where they are named; with `replicas`, autoscalers; with
    `webhook`, further constraints on updates of pods; with `control`, the object that commands the cluster; with
    `policies`, VerticalPolicies.
    """
    scaling = (EHPAS, TSPS) if replicas else ()
    updating = () if webhook is None else (*(row.resource for row in UPDATE_RESOURCES), FAILED_CREATIONS)
    scoped = _by_name(*IN_NAMESPACES, *scaling, *((POLICIES,) if policies else ()), *((HPAS,) if replicas else ()), *updating)
    commanding = (ResourceWatch(CONTROLS.name, CONTROLS),) if control else ()
    more = (*(() if webhook is None else (webhook.watch,)), *commanding)
    if nodes:
        whole = _by_name(*scoped, BUDGETS, *STORAGE, *BUFFERS, NAMESPACES, NODES)
        detailed = [DETAILED.get(resource.name, resource) for resource in whole]
        config_map = () if priorities is None else (priorities.watch,)
        return (*(ResourceWatch(resource.name, resource) for resource in detailed), *config_map, *more)
    watched = [ResourceWatch(resource.name, resource) for resource in scoped]
    if namespaces:
        watched = [ResourceWatch(resource.name, namespaced(resource, name)) for resource in scoped for name in namespaces]
    return (*watched, ResourceWatch("nodes", NODES), *more)


def _by_name(*resources: ApiResource[KubeObject]) -> Collection[ApiResource[KubeObject]]:
    """Each resource once, as two watches of it would be two copies, and as who comes last reads it, who reads most."""
    watches: dict[str, ApiResource[KubeObject]] = {}
    for resource in resources:
        before = watches.get(resource.name, resource)
        # The list of one would withdraw what the other has published.
        if (before.path, before.field_selector) != (resource.path, resource.field_selector):
            raise ValueError(f"two watches are called '{resource.name}': give one of them a name of its own")
        watches[resource.name] = resource
    return watches.values()


PERIOD = Seconds(0.2)
"""How long the caller's thread waits for notifications before it looks at what is due by time."""
LOG_RETRY = Seconds(2.0)
"""Between two attempts while the log is away."""
_STANDBY = 0.2
"""Seconds between two looks at whether another instance is still at work."""
INBOX_BATCHES = 64  # one page of a list is a batch; beyond that a long list waits its turn
MOST_AT_ONCE = 2_000
"""About how many notifications the caller's thread handles at once."""


class WatcherDied(UllageError):
    """A thread that watches ended by itself."""


class LeaseLost(UllageError):
    """Another instance may publish now, so what this one has seen is useless."""


def _alone() -> bool:
    """For an instance that shares its work with no other."""
    return True


class Inbox:
    """The queue between the watches and the caller's thread. It is bounded, so that a long list waits its turn."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Sequence[Notification]] = queue.Queue(INBOX_BATCHES)

    def put(self, notifications: Sequence[Notification]) -> None:
        """Add a batch, from any thread. Blocks while the inbox is full."""
        self._queue.put(notifications)

    def get(self, wait: Seconds) -> list[Notification]:
        """What has come in, in order. Waits up to `wait` seconds for the first batch."""
        notifications: list[Notification] = []
        try:
            notifications.extend(self._queue.get(timeout=wait))
            while len(notifications) < MOST_AT_ONCE:
                notifications.extend(self._queue.get_nowait())
        except queue.Empty:
            pass
        return notifications


class WatchThreads:
    """Runs the whole kube source. Tests pass another `list_watch` with shorter streams."""

    def __init__(
        self, api: Api, context: LogContext, options: SourceOptions, *, list_watch: ListWatchClient | None = None
    ) -> None:
        list_watch = ListWatchClient(api) if list_watch is None else list_watch
        wanted = watches(
            options.namespaces,
            nodes=options.nodes,
            replicas=options.replicas,
            webhook=options.webhook,
            priorities=options.priorities,
            control=options.control is not None,
            policies=options.policies is not None,
        )
        self._inbox = Inbox()
        self._lookups = Lookups(list_watch, ScaleClient(api), options.namespaces)
        self._reflectors = [Reflector(list_watch, watch, self._inbox.put) for watch in wanted]
        self.sync_status = SyncStatus({watch.name: watch.kind for watch in wanted})
        self.source = KubeSource(context, options, self.sync_status, self._lookups.enqueue)

    def run(self, stop: threading.Event, *, after: Callable[[], None] = lambda: None, held: Callable[[], bool] = _alone) -> None:
        """Watch until stopped, calling `after` after each round. Raises WatcherDied, and LeaseLost.

        With `held`, it begins when that is true, and publishes nothing once it is false, so that only one of several instances
        works.
        """
        # An instance that stands by watches nothing: it would hold a second copy of the cluster for nothing.
        while not held():
            if stop.wait(_STANDBY):
                return
        threads = [self._start(reflector.watch.name, reflector.step, stop) for reflector in self._reflectors]
        threads.append(self._start("look-ups", self._look_up, stop))
        if not self._restored(stop):
            return
        while not stop.is_set():
            self.source.handle(self._inbox.get(PERIOD))
            if not held():
                # Its idea of what is published grows stale while another publishes, so a fresh start is the safe way on.
                raise LeaseLost("another instance holds the Lease of the kube source now, so this one ends")
            if not self.source.publish_due():
                stop.wait(LOG_RETRY)
            after()
            dead = [thread.name for thread in threads if not thread.is_alive()]
            if dead and not stop.is_set():
                raise WatcherDied(f"the watch of {dead[0]} ended by itself; the lines above say why")

    def _restored(self, stop: threading.Event) -> bool:
        """Whether the log could be read before `stop` was set."""
        while not stop.is_set():
            try:
                self.source.restore()
            except LogUnavailable:  # the process says so
                stop.wait(LOG_RETRY)
            else:
                return True
        return False

    def _look_up(self) -> Seconds:
        notifications = self._lookups.step(Seconds(1.0))
        if notifications:
            self._inbox.put(notifications)
        return Seconds(0.0)

    def _start(self, name: str, step: Callable[[], Seconds], stop: threading.Event) -> threading.Thread:
        def run() -> None:
            while not stop.is_set():
                stop.wait(step())

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread
