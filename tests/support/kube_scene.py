"""The kube source on a log in memory, told by hand what a cluster shows. Its clock stands still until a test moves it."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from schemas.catalogue import Event
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube.watched_objects import Named
from streams.codec.event_codec import Codec, tick_number
from streams.errors import LogUnavailable
from streams.log.memory_log import MemoryLog
from streams.log.port import NewRecord
from streams.publishing.outbox import Outbox
from streams.sources.kube.kube_source import Desk, KubeSource
from streams.sources.kube.watch.notifications import Blind, Change, Errand, Gone, InSync, Seen
from streams.sources.kube.watch.sync_status import Sights
from streams.sources.kube.watch.watched_resources import CONTROLLERS, watches
from streams.topics import TOPICS, Topics
from tests.support.kube_objects import START

PARTITIONS = 2
KINDS = ("pods", "nodes", "limitranges", "events", "verticalpodautoscalers")


class AwayLog(MemoryLog):
    """While `away`, nothing can be appended."""

    away = False

    def append(self, records: Iterable[NewRecord]) -> Sequence[object]:  # type: ignore[override]  # places are not looked at
        if self.away:
            raise LogUnavailable("the log in this test is away")
        return super().append(records)


class Scene:
    """A log, and a source that can be started anew on it."""

    def __init__(self, bound: int = 32 << 20) -> None:
        self.topics, self.log, self.at = Topics(partitions=PARTITIONS), AwayLog(), START
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), PARTITIONS)
        self.errands: list[Errand] = []
        self.bound = bound
        self.restart()

    def restart(self) -> None:
        """Another process: it knows what the log tells, and nothing else."""
        self.sights = Sights({watch.resource.name: watch.kind for watch in watches()})
        desk = Desk("real", self.log, self.topics, Codec(self.topics), lambda: self.at)
        self.source = KubeSource(desk, self.sights, self.errands.append, Outbox(self.log, bound=self.bound))
        self.source.begin()

    def later(self, by: timedelta) -> bool:
        self.at += by
        return self.source.beat()

    def see(self, kind: str, *objects: Named) -> None:
        self.take(*(Seen(kind, each) for each in objects))

    def lose(self, kind: str, each: Named) -> None:
        meta = each.metadata
        self.take(Gone(kind, meta.namespace, meta.name, meta.uid))

    def sync(self, *kinds: str) -> None:
        """All of these are listed; none named means everything."""
        self.take(*(InSync(kind) for kind in kinds or (*CONTROLLERS, *KINDS)))

    def blind(self, kind: str) -> None:
        self.take(Blind(kind, "403 forbidden"))

    def take(self, *changes: Change) -> None:
        self.source.take(changes)
        self.source.beat()

    def said(self, topic: str, partition: int | None = None) -> list[Event]:
        found = []
        for p in range(PARTITIONS) if partition is None else [partition]:
            records = self.log.poll({(self.topics.wire(topic), p): 0}, limit=1_000_000)
            found += [Codec(self.topics).decode(record) for record in records if tick_number(record) is None]
        return found

    def pods(self, name: str = "") -> list[PodChanged | PodDeleted]:
        """What was said of pods, to the cluster."""
        events = self.said("pod-changes-by-cluster")
        return [e for e in events if isinstance(e, (PodChanged, PodDeleted)) and name in ("", e.pod.name)]

    def kills(self) -> list[ContainerOOMKilled]:
        return [event for event in self.said("oom-events") if isinstance(event, ContainerOOMKilled)]

    def vpas(self) -> list[VpaChanged | VpaRemoved]:
        return [event for event in self.said("policies", 0) if isinstance(event, (VpaChanged, VpaRemoved))]

    def reports(self) -> list[SourceReported]:
        return [event for event in self.said("cluster-changes", 0) if isinstance(event, SourceReported)]

    def now(self) -> datetime:
        return self.at
