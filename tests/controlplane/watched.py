"""One namespace of the plane watched by the kube source into a log in memory, and what stands there then."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.settings import cluster_factory
from agents.settings.tree import ClusterSettings
from schemas.catalogue import Event
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.names import Workload
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.list_watch import Watching
from streams.codec.event_codec import Codec, tick_number
from streams.log.memory_log import MemoryLog
from streams.sources.kube.kube_source import Desk
from streams.sources.kube.watch.watch_threads import Watchers
from streams.topics import TOPICS, Topics
from tests.controlplane.asking import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

PARTITIONS = 2


def now() -> datetime:
    return datetime.now(UTC)


class Scene:
    """One log, and a source that watches one namespace of the plane into it."""

    def __init__(self, plane: Plane, world: World) -> None:
        self.plane, self.namespace = plane, world.namespace
        self.topics, self.log = Topics(partitions=PARTITIONS), MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), PARTITIONS)

    @contextmanager
    def watching(self, *, patience: float = 5.0) -> Iterator[Watchers]:
        """The source at work; everything that is there was seen when the block begins."""
        stop, api = threading.Event(), Api(cluster_factory.connection(ClusterSettings(kubeconfig=self.plane.kubeconfig)))
        desk = Desk("real", self.log, self.topics, Codec(self.topics), now, (self.namespace,), timedelta(seconds=1))
        watchers = Watchers(api, desk, watching=Watching(api, patience=Seconds(patience)))
        thread = threading.Thread(target=watchers.run, args=(stop,), daemon=True)
        thread.start()
        try:
            wait_for(lambda: not watchers.sights.reasons(), what="everything is in sight")
            yield watchers
        finally:
            stop.set()
            thread.join(10.0)

    def said(self, topic: str, partition: int | None = None) -> list[Event]:
        """What stands in a topic, in the order of its partitions; of broadcasts, one partition is enough."""
        found = []
        for p in range(PARTITIONS) if partition is None else [partition]:
            at = (self.topics.wire(topic), p)
            records = self.log.poll({at: 0}, limit=1_000_000)
            found += [Codec(self.topics).decode(record) for record in records if tick_number(record) is None]
        return found

    def pods(self, uid: str) -> list[PodChanged | PodDeleted]:
        found = self.said("pod-changes")
        return [event for event in found if isinstance(event, (PodChanged, PodDeleted)) and event.pod.uid == uid]

    def vpas(self, name: str) -> list[VpaChanged | VpaRemoved]:
        return [event for event in self.said("policies", 0) if isinstance(event, (VpaChanged, VpaRemoved)) and event.name == name]

    def workload(self, kind: str, name: str) -> Workload:
        return Workload("real", self.namespace, kind, name)


def repeats(scene: Scene) -> list[Event]:
    """Facts that say of a pod, VPA or node what was said of it just before."""
    last: dict[str, Event] = {}
    found = []
    for event in [*scene.said("pod-changes-by-cluster"), *scene.said("policies", 0), *scene.said("cluster-changes", 0)]:
        name = (
            event.pod.uid if isinstance(event, (PodChanged, PodDeleted)) else getattr(event, "name", getattr(event, "node", ""))
        )
        if name and name in last and replace(last[name], at=event.at) == event:
            found.append(event)
        last[name] = event
    return found


def uid_of(pod: Any) -> str:
    return str(pod["metadata"]["uid"])


def runs(scene: Scene, uid: str) -> bool:
    """Whether the newest word of a pod is that it runs, ready."""
    told = scene.pods(uid)
    newest = told[-1] if told else None
    return isinstance(newest, PodChanged) and newest.phase is PodPhase.RUNNING and newest.containers[0].ready


def gone(scene: Scene, uid: str) -> bool:
    return bool(scene.pods(uid)) and isinstance(scene.pods(uid)[-1], PodDeleted)
