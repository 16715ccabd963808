"""A log in memory into which the real kube source writes what a real API server shows of nodes, and a test publishes the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.catalogue import Event
from streams.clients.kube.api import Api
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.kube.kube_source import SourceOptions
from streams.sources.kube.watch.watched_resources import WebhookLease
from streams.sources.kube.watch_threads import WatchThreads
from streams.topics import TOPICS, Topics
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import at_work
from tests.controlplane.world import World
from tests.support.attested_plans import with_attestations
from tests.support.node_scene import CLUSTER


class WatchedNodes:
    """The log of one partition, and the source beside it."""

    def __init__(self, plane: Plane, world: World) -> None:
        self.plane, self.world = plane, world
        self.topics, self.log = Topics(partitions=1), MemoryLog()
        self.codec = Codec(self.topics)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.context = LogContext(self.log, self.topics, self.codec, CLUSTER)

    def now(self) -> datetime:
        """The time of what is published."""
        return datetime.now(UTC)

    def publish(self, event: Event, topic: str) -> None:
        record = self.codec.encode(event, topic=topic, key=CLUSTER, partition=0, source="/test")
        self.log.append(with_attestations([record], self.topics))

    @contextmanager
    def watching(self) -> Iterator[WatchThreads]:
        """The kube source at work, which has listed everything."""
        api = Api(cluster_factory.connection(ClusterSettings(kubeconfig=self.plane.kubeconfig)))
        options = SourceOptions(self.now, (), timedelta(seconds=1), nodes=True, webhook=WebhookLease("kube-system", "none"))
        threads = WatchThreads(api, self.context, options)
        with at_work(threads):
            yield threads
