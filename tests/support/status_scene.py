"""A scene for the status consumer: a log in memory, an API of VPA objects on loopback, and a clock that a test sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from kubernetes import client as official

from agents.pipeline import ticked_topics
from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import StatusWritten
from schemas.policies.vpa import TargetRef, VpaChanged, VpaRemoved
from schemas.units import Bytes, Cores
from streams.clients.kube.api import Api
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.codec.event_codec import Codec, tick
from streams.consumers.executing.cursor import Cursor
from streams.consumers.vpa_status.conditions import Judging
from streams.consumers.vpa_status.projection import Service
from streams.consumers.vpa_status.status_consumer import Limits, StatusConsumer
from streams.log.memory_log import MemoryLog
from streams.log.port import Log
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics

START = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
AT = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600_000
MIB = 1 << 20


def amounts(millicores: float, mebibytes: float) -> Amounts:
    """CPU and memory."""
    return Amounts(Cores(millicores / 1000), Bytes(int(mebibytes * MIB)))


def vpa(name: str = "api", *, target: str = "api", **changed: object) -> VpaChanged:
    """The VPA `web/api` of generation 1 and uid `u1`."""
    made = VpaChanged(AT, "demo", "web", name, AT, TargetRef("Deployment", target, "apps/v1"), (), uid="u1", generation=1)
    return replace(made, **changed)  # type: ignore[arg-type]  # a test may say anything


def said(target: str = "api", *, turn: int = START, pods: int | None = 2, cpu: float = 100) -> RequestsRecommended:
    """A recommendation for a workload, of a turn, with one container."""
    one = ContainerRecommendation("app", amounts(50, 250), amounts(cpu, 500), amounts(900, 800), amounts(cpu, 500))
    key = f"demo/web/Deployment/{target}"
    at = AT + timedelta(milliseconds=turn - START)
    return RequestsRecommended(f"recommender/0/{turn}/requests/{key}", at, Workload.parse(key), (one,), {}, pods)


def pod(name: str, target: str = "api", phase: PodPhase = PodPhase.RUNNING) -> PodChanged:
    """A pod of a workload."""
    return PodChanged(AT, Workload("demo", "web", "Deployment", target), PodName("web", name, f"uid-{name}"), phase, AT, ())


def gone(name: str, target: str = "api") -> PodDeleted:
    """The pod is gone."""
    return PodDeleted(AT, Workload("demo", "web", "Deployment", target), PodName("web", name, f"uid-{name}"))


@dataclass
class StatusScene:
    """One log, one API, and as many consumers one after the other as a test wants."""

    url: str = ""
    api: official.ApiClient | None = None
    """A connection of its own, instead of the url."""
    topics: Topics = field(default_factory=lambda: Topics(partitions=2))
    log: Log = field(default_factory=MemoryLog)
    real: float = 1000.0

    def __post_init__(self) -> None:
        self.codec = Codec(self.topics)
        self.make_topics()

    def make_topics(self) -> None:
        """In a log that is new."""
        assert isinstance(self.log, MemoryLog)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)

    def consumer(self, **service: object) -> StatusConsumer:
        """A consumer that has read nothing yet."""
        configuration = official.Configuration(host=self.url, retries=False)
        configuration.proxy = None
        vpas = VpaStatusClient(Api(self.api or official.ApiClient(configuration)))
        context = LogContext(self.log, self.topics, self.codec, "demo")
        limits = Limits(writers=4, rate=1e6, burst=1000)
        made = Service(**service)  # type: ignore[arg-type]  # a test may say anything
        return StatusConsumer(context, vpas, made, judging=Judging(), limits=limits, clock=lambda: self.real)

    def say(self, *events: Event) -> None:
        """Put events where they belong."""
        for event in events:
            match event:
                case VpaChanged() | VpaRemoved():
                    for partition in range(self.topics.partitions):
                        self._append(event, "policies", event.key, partition)
                case RequestsRecommended():
                    self._append(event, "recommendations-by-cluster", "demo", self.topics.partition_of("demo"))
                case SourceReported():
                    self._append(event, "cluster-changes", "demo", self.topics.partition_of("demo"))
                case _:
                    self._append(event, "pod-changes-by-cluster", "demo", self.topics.partition_of("demo"))

    def tick(self, number: int = START) -> None:
        """Time in every topic that a stage reads."""
        self.log.append(
            tick(self.topics.wire(name), p, number) for name in ticked_topics() for p in range(self.topics.partitions)
        )

    def outcomes(self) -> Sequence[StatusWritten]:
        """What was told of writes."""
        place = (self.topics.wire("outcomes"), self.topics.partition_of("demo"))
        events = [self.codec.decode(record) for record in Cursor(self.log, [place]).catch_up() if record.key != b"tick"]
        return [event for event in events if isinstance(event, StatusWritten)]

    def _append(self, event: Event, topic: str, key: str, partition: int) -> None:
        self.log.append([self.codec.encode(event, topic=topic, key=key, partition=partition, source="/test")])
