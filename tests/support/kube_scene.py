"""The kube source on a log in memory, notified by the test of what a cluster shows. Its clock moves only when a test moves it."""

from datetime import datetime, timedelta
from typing import Any

from schemas.catalogue import Event
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube.watched_objects import KubeObject
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.sources.kube.kube_source import KubeSource, SourceOptions
from streams.sources.kube.publish.scheduling_publisher import STORAGE
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.watch.notifications import LookupChange, Notification, ObjectGone, ObjectSeen, WatchFailed, WatchSynced
from streams.sources.kube.watch.sync_status import SyncStatus
from streams.sources.kube.watch.watched_resources import CONTROLLERS
from streams.sources.kube.watch_threads import watches
from streams.topics import TOPICS, Topics
from tests.support.kube_objects import START
from tests.support.lossy_log import AwayLog

PARTITIONS = 2
KINDS = ("pods", "nodes", "limitranges", "events", "verticalpodautoscalers")


class KubeScene:
    """A log, and a source that can be started anew on it; `more` is what `SourceOptions` has besides the time."""

    def __init__(self, bound: int = 32 << 20, *, log: AwayLog | None = None, **more: Any) -> None:
        self.topics, self.log, self.at = Topics(partitions=PARTITIONS), log or AwayLog(), START
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), PARTITIONS)
        self.lookups: list[LookupChange] = []
        self.bound, self.options = bound, SourceOptions(lambda: self.at, **more)
        self.restart()

    def restart(self) -> None:
        """Another process, which knows only what the log tells."""
        chosen = self.options
        wanted = watches(
            nodes=chosen.nodes,
            replicas=chosen.replicas,
            webhook=chosen.webhook,
            priorities=chosen.priorities,
            control=chosen.control is not None,
            policies=chosen.policies is not None,
        )
        self.sync_status = SyncStatus({watch.name: watch.kind for watch in wanted})
        context = LogContext.of(self.log, self.topics, "real")
        outbox = Outbox(context, bound=self.bound)
        self.source = KubeSource(context, chosen, self.sync_status, self.lookups.append, outbox)
        self.source.restore()

    def later(self, by: timedelta) -> bool:
        self.at += by
        return self.source.publish_due()

    def see(self, kind: str, *objects: KubeObject) -> None:
        self.handle(*(ObjectSeen(kind, each) for each in objects))

    def lose(self, kind: str, each: KubeObject) -> None:
        meta = each.metadata
        self.handle(ObjectGone(kind, meta.namespace, meta.name, meta.uid))

    def sync(self, *kinds: str) -> None:
        """All of these are listed; none named means everything."""
        scaling = (*STORAGE, "csinodes", "namespaces", "poddisruptionbudgets") if self.options.nodes else ()
        updating = () if self.options.webhook is None else ("leases", *(row.resource.name for row in UPDATE_RESOURCES))
        everything = dict.fromkeys((*CONTROLLERS, *KINDS, *scaling, *updating))
        self.handle(*(WatchSynced(kind) for kind in kinds or everything))

    def fail(self, kind: str, *, refused: bool = False) -> None:
        self.handle(WatchFailed(kind, "403 forbidden", refused))

    def handle(self, *notifications: Notification) -> None:
        self.source.handle(notifications)
        self.source.publish_due()

    def events(self, topic: str, partition: int | None = None) -> list[Event]:
        found = []
        for p in range(PARTITIONS) if partition is None else [partition]:
            records = self.log.poll({(self.topics.wire(topic), p): 0}, limit=1_000_000)
            found += [Codec(self.topics).decode(record) for record in records if not is_of_a_clock(record)]
        return found

    def pods(self, name: str = "") -> list[PodChanged | PodDeleted]:
        """The facts about pods, in the cluster's own topic."""
        events = self.events("pod-changes-by-cluster")
        return [e for e in events if isinstance(e, (PodChanged, PodDeleted)) and name in ("", e.pod.name)]

    def kills(self) -> list[ContainerOOMKilled]:
        return [event for event in self.events("oom-events") if isinstance(event, ContainerOOMKilled)]

    def vpas(self) -> list[VpaChanged | VpaRemoved]:
        return [event for event in self.events("policies", 0) if isinstance(event, (VpaChanged, VpaRemoved))]

    def reports(self) -> list[SourceReported]:
        return [event for event in self.events("cluster-changes", 0) if isinstance(event, SourceReported)]

    def now(self) -> datetime:
        return self.at
