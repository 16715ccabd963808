"""A scene for the status of VPAs: a log in memory, the conditions stage, an API of VPA objects, and a clock that a test sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from kubernetes import client as official

from agents.engine.stage import Stage
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings, TopicSettings
from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.decisions.vpa_conditions import VpaConditionsDecided
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.ids import DecisionId
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import StatusWritten
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.policies.vpa import TargetRef, VpaChanged, VpaRemoved
from schemas.units import Bytes, Cores
from streams.clients.kube.api import Api
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.codec.event_codec import Codec
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.vpa_status_consumer import StatusConsumer, StatusOptions
from streams.log.log_port import Log
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import Cursor
from streams.topics import TOPICS, Topics
from tests.support import ticks

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


def conditions_stage(topics: Topics) -> Stage:
    """The stage as the pipeline has it, for these topics."""
    settings = Settings(topics=TopicSettings(partitions=topics.partitions))
    return next(stage for stage in stages(settings) if stage.name == "conditions")


@dataclass
class StagedConsumer:
    """A status consumer behind the conditions stage: before it polls, time goes on and the stage decides."""

    scene: "StatusScene"
    alone: StatusConsumer

    def poll_once(self) -> int:
        """How many outcomes the consumer appended."""
        self.scene.decide()
        return self.alone.poll_once()

    @property
    def waiting(self) -> int:
        """How many objects could be looked at now."""
        return self.alone.waiting


@dataclass
class StatusScene:
    """One log, one stage, one API, and as many consumers one after the other as a test wants."""

    url: str = ""
    api: official.ApiClient | None = None
    """A connection of its own, instead of the url."""
    topics: Topics = field(default_factory=lambda: Topics(partitions=2))
    log: Log = field(default_factory=MemoryLog)
    real: float = 1000.0
    now: int = -1
    """The number of the last tick."""
    newest: int = -1
    """The newest turn of a recommendation. Time does not lag behind it, since the stage refuses what is of a turn to come."""

    def __post_init__(self) -> None:
        self.codec = Codec(self.topics)
        self.make_topics()
        self.stage = conditions_stage(self.topics)
        self.runner = Runner((self.stage,), LogContext(self.log, self.topics, self.codec))

    def make_topics(self) -> None:
        """In a log that is new."""
        assert isinstance(self.log, MemoryLog)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)

    def decide(self) -> None:
        """A millisecond goes by, or all the time up to the newest recommendation, and the stage takes the turn."""
        self.tick(max(self.now + 1, self.newest))
        self.runner.run()

    def decisions(self) -> list[VpaConditionsDecided]:
        """All decisions of the stage, in the order of the log within each partition."""
        places = [(self.topics.wire("vpa-conditions"), partition) for partition in range(self.topics.partitions)]
        events = [self.codec.decode(record) for record in Cursor(self.log, places).catch_up()]
        return [event for event in events if isinstance(event, VpaConditionsDecided)]

    def consumer(self, lease: HolderLease | None = None) -> StagedConsumer:
        """A consumer that has read nothing yet."""
        configuration = official.Configuration(host=self.url, retries=False)
        configuration.proxy = None
        api = VpaStatusClient(Api(self.api or official.ApiClient(configuration)))
        context = LogContext(self.log, self.topics, self.codec, "demo")
        options = StatusOptions(writers=4, rate=1e6, burst=1000)
        return StagedConsumer(self, StatusConsumer(context, api, options, clock=lambda: self.real, lease=lease))

    def say(self, *events: Event) -> None:
        """Put events where they belong."""
        for event in events:
            match event:
                case VpaChanged() | VpaRemoved():
                    for partition in range(self.topics.partitions):
                        self._append(event, "policies", event.key, partition)
                case VerticalPolicyChanged():
                    for partition in range(self.topics.partitions):
                        self._append(event, "rules", event.target, partition)
                case RequestsRecommended():
                    self.newest = max(self.newest, DecisionId.parse(event.id).turn)
                    self._append(event, "recommendations-by-cluster", "demo", self.topics.partition_of("demo"))
                case SourceReported():
                    self._append(event, "cluster-changes", "demo", self.topics.partition_of("demo"))
                case _:
                    self._append(event, "pod-changes-by-cluster", "demo", self.topics.partition_of("demo"))

    def tick(self, number: int = START) -> None:
        """Time in every topic that a stage reads."""
        self.now = number
        ticks.append(self.log, self.topics, number)

    def outcomes(self) -> Sequence[StatusWritten]:
        """What was told of writes."""
        place = (self.topics.wire("outcomes"), self.topics.partition_of("demo"))
        events = [self.codec.decode(record) for record in Cursor(self.log, [place]).catch_up() if record.key != b"tick"]
        return [event for event in events if isinstance(event, StatusWritten)]

    def _append(self, event: Event, topic: str, key: str, partition: int) -> None:
        self.log.append([self.codec.encode(event, topic=topic, key=key, partition=partition, source="/test")])
