"""One namespace of the plane, watched by the kube source into a log in memory, and what the log holds then."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from agents.logic import stage_rules
from agents.logic.updates.update_settings import UpdateSettings
from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.catalogue import Event
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.names import Workload
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams.clients.kube import commanding_objects
from streams.clients.kube.api import Api
from streams.clients.kube.list_watch_requests import ListWatchClient
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.file_log import FileLog
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.kube.kube_source import SourceOptions
from streams.sources.kube.publish.cluster_control import ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor
from streams.sources.kube.watch.watched_resources import WebhookLease
from streams.sources.kube.watch_threads import WatchThreads
from streams.topics import TOPICS, Topics
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

PARTITIONS = 2


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def at_work(threads: WatchThreads) -> Iterator[None]:
    """A source at work: when the block begins, all is seen."""
    stop = threading.Event()
    thread = threading.Thread(target=threads.run, args=(stop,), daemon=True)
    thread.start()
    try:
        wait_for(lambda: not threads.sync_status.reasons(), what="everything is in sight")
        yield
    finally:
        stop.set()
        thread.join(60.0)


class WatchedScene:
    """One log, and a source that watches one namespace of the plane into it."""

    def __init__(self, plane: Plane, world: World, log: MemoryLog | FileLog | None = None) -> None:
        self.plane, self.namespace = plane, world.namespace
        self.topics, self.log = Topics(partitions=PARTITIONS), log or MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), PARTITIONS)

    @contextmanager
    def watching(
        self, *, stream_timeout: float = 5.0, lease: str = "", control: bool = False, policies: bool = False
    ) -> Iterator[WatchThreads]:
        """The source at work; when the block begins all is seen. With a webhook's `lease`: also what holds updates.

        With `control`: also the object that commands the cluster. With `policies`: also VerticalPolicies.
        """
        api = Api(cluster_factory.connection(ClusterSettings(kubeconfig=self.plane.kubeconfig)))
        context = LogContext.of(self.log, self.topics, "real")
        webhook = WebhookLease(self.namespace, lease) if lease else None
        door = ControlDoor(partial(commanding_objects.write_control_status, api), lambda: None) if control else None
        policy_door = PolicyDoor(partial(commanding_objects.write_policy_status, api), partial(stage_rules.fault, UpdateSettings))
        options = SourceOptions(
            now,
            (self.namespace,),
            timedelta(seconds=1),
            webhook=webhook,
            control=door,
            policies=policy_door if policies else None,
        )
        list_watch = ListWatchClient(api, stream_timeout=Seconds(stream_timeout))
        threads = WatchThreads(api, context, options, list_watch=list_watch)
        with at_work(threads):
            yield threads

    def events(self, topic: str, partition: int | None = None) -> list[Event]:
        """The events of a topic, in the order of its partitions. Of a broadcast topic one partition is enough."""
        found = []
        for p in range(PARTITIONS) if partition is None else [partition]:
            at = (self.topics.wire(topic), p)
            records = self.log.poll({at: 0}, limit=1_000_000)
            found += [Codec(self.topics).decode(record) for record in records if not is_of_a_clock(record)]
        return found

    def pods(self, uid: str) -> list[PodChanged | PodDeleted]:
        found = self.events("pod-changes")
        return [event for event in found if isinstance(event, (PodChanged, PodDeleted)) and event.pod.uid == uid]

    def vpas(self, name: str) -> list[VpaChanged | VpaRemoved]:
        return [
            event for event in self.events("policies", 0) if isinstance(event, (VpaChanged, VpaRemoved)) and event.name == name
        ]

    def workload(self, kind: str, name: str) -> Workload:
        return Workload("real", self.namespace, kind, name)


def repeats(scene: WatchedScene) -> list[Event]:
    """Facts that repeat what was published about the same pod, VPA or node just before."""
    last: dict[str, Event] = {}
    found = []
    for event in [*scene.events("pod-changes-by-cluster"), *scene.events("policies", 0), *scene.events("cluster-changes", 0)]:
        name = (
            event.pod.uid if isinstance(event, (PodChanged, PodDeleted)) else getattr(event, "name", getattr(event, "node", ""))
        )
        if name and name in last and replace(last[name], at=event.at) == event:
            found.append(event)
        last[name] = event
    return found


def uid_of(pod: Any) -> str:
    return str(pod["metadata"]["uid"])


def runs(scene: WatchedScene, uid: str) -> bool:
    """Whether the newest fact about a pod is that it runs and is ready."""
    facts = scene.pods(uid)
    newest = facts[-1] if facts else None
    return isinstance(newest, PodChanged) and newest.phase is PodPhase.RUNNING and newest.containers[0].ready


def gone(scene: WatchedScene, uid: str) -> bool:
    return bool(scene.pods(uid)) and isinstance(scene.pods(uid)[-1], PodDeleted)
