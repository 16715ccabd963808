"""A log in memory that holds pods, and what a usage source publishes there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from schemas.units import Seconds
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.sources.usage.readings import Readings
from streams.sources.usage.usage_source import UsageOptions, UsageSource
from streams.topics import TOPICS, Topics
from tests.support.lossy_log import AwayLog

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
WEB = Workload("prod", "shop", "Deployment", "web")
CART = Workload("prod", "shop", "StatefulSet", "cart")
NAN = float("nan")
Row = tuple[str, str, str, float, float, float]
"""Namespace, pod, container, cores, bytes, and seconds after START at which the window ended."""


class UnreadableLog(AwayLog):
    """While `away`, it can be neither read nor written."""

    def end(self, topic: str, partition: int) -> int:
        self.require()
        return super().end(topic, partition)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def readings(*rows: Row, window: float = 30.0) -> Readings:
    namespaces, pods, containers, cores, memory, ends = zip(*rows, strict=True) if rows else ((),) * 6
    numbers = [np.array(column, np.float64) for column in (cores, memory, ends)]
    return Readings(namespaces, pods, containers, numbers[0], numbers[1], numbers[2] + START.timestamp(), Seconds(window))


@dataclass
class UsageScene:
    """A log with a usage source. `asks` answers the next scrape."""

    topics: Topics = field(default_factory=lambda: Topics(partitions=2))
    log: UnreadableLog = field(default_factory=UnreadableLog)
    asks: Callable[[datetime], Readings] = lambda _at: readings()

    def __post_init__(self) -> None:
        self.codec = Codec(self.topics)
        self.context = LogContext(self.log, self.topics, self.codec, "prod")
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)

    def source(self, *, zero: bool = False, bound: int = 32 << 20, when_empty: str = "") -> UsageSource:
        outbox = Outbox(self.context, bound=bound)
        return UsageSource(self._asked, self.context, UsageOptions(missing_is_zero=zero, when_empty=when_empty), outbox)

    def _asked(self, moment: datetime) -> Readings:
        return self.asks(moment)

    def has(
        self, pod: str, workload: Workload = WEB, *, when: float = 0.0, uid: str = "", containers: tuple[str, ...] = ()
    ) -> None:
        name, seen = PodName(workload.namespace, pod, uid or f"uid-{pod}"), tuple(map(ContainerSeen, containers))
        self.publish(PodChanged(at(when), workload, name, PodPhase.RUNNING, at(when), seen, labels={"app": workload.name}))

    def loses(self, pod: str, workload: Workload = WEB, *, when: float = 0.0, uid: str = "") -> None:
        self.publish(PodDeleted(at(when), workload, PodName(workload.namespace, pod, uid or f"uid-{pod}")))

    def publish(self, event: PodChanged | PodDeleted) -> None:
        for topic, key in (("pod-changes", event.workload.key), ("pod-changes-by-cluster", event.workload.cluster)):
            partition = self.topics.partition_of(key)
            self.log.append([self.codec.encode(event, topic=topic, key=key, partition=partition, source="test")])

    def events(self, topic: str) -> Iterator[tuple[int, Event]]:
        wire = self.topics.wire(topic)
        for partition in range(self.topics.partitions):
            for record in self.log.poll({(wire, partition): 0}, limit=1_000_000):
                if not is_of_a_clock(record):
                    yield partition, self.codec.decode(record)

    def scrapes(self) -> list[tuple[int, MetricsScraped]]:
        return [(partition, event) for partition, event in self.events("pod-metrics") if isinstance(event, MetricsScraped)]

    def rows(self) -> list[tuple[str, str, str, float, float, float]]:
        """Every row published: workload, pod, container, cores, bytes, and seconds after START at which its window ended."""
        published = []
        for partition, scrape in self.scrapes():
            ages = scrape.ages if len(scrape.ages) else [0.0] * len(scrape.pods)
            columns = (scrape.workloads, scrape.pods, scrape.containers, scrape.cores, scrape.memory, ages)
            for workload, pod, container, cores, memory, age in zip(*columns, strict=True):
                assert partition == self.topics.partition_of(workload)
                end = (scrape.at - START).total_seconds() - float(age)
                published.append((workload, pod, container, float(cores), float(memory), end))
        return published

    def reports(self) -> list[tuple[int, SourceReported]]:
        return [(partition, event) for partition, event in self.events("cluster-changes") if isinstance(event, SourceReported)]
