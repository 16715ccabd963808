"""A log with EHPAs, a server that answers queries, and a source of loads between them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from agents.logic.replicas.metric_series import WantedLoads
from agents.processes.source_load import LoadWishesOfObjects
from schemas.catalogue import Event
from schemas.facts.replica_scaling import LoadHistoryRead, LoadQueryFailed, LoadScraped
from schemas.facts.sources import SourceReported
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import MetricSpec, MetricTarget
from schemas.policies.vpa import TargetRef
from schemas.units import Bytes, Seconds
from streams.clients.prometheus import AnswerLimits, Prometheus
from streams.codec.event_codec import Codec
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.sources.load_queries import LoadQueries
from streams.sources.load_source import LoadOptions, LoadSource
from streams.topics import TOPICS, Topics
from tests.support.canned_http_server import Answer, Asked
from tests.support.replica_scene import DSP
from tests.support.usage_scene import UnreadableLog

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUERY = "metric-query.autoscaling.crane.io/"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def vector(*values: str) -> bytes:
    """The answer for a moment: so many series."""
    series = [{"metric": {"pod": f"p-{n}"}, "value": [0.0, value]} for n, value in enumerate(values)]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


def matrix(*series: Sequence[tuple[float, str]]) -> bytes:
    """The answer for a range."""
    result = [{"metric": {"pod": f"p-{n}"}, "values": [list(value) for value in values]} for n, values in enumerate(series)]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def flat(value: str) -> Answer:
    """A server on which every load has always been the same."""

    def answer(asked: Asked) -> tuple[int, bytes]:
        if asked.path.endswith("query"):
            return 200, vector(value)
        first, last, step = (float(asked.fields[name]) for name in ("start", "end", "step"))
        return 200, matrix([(first + n * step, value) for n in range(int((last - first) / step) + 1)])

    return answer


def ehpa(name: str, *, query: str = "", **changes: object) -> EhpaChanged:
    """An EHPA on requests for each pod; `query` is what its annotation says."""
    rate = MetricSpec("Pods", "http_requests", MetricTarget("AverageValue", average_value="10"))
    made = EhpaChanged(
        START,
        "prod",
        "shop",
        name,
        START,
        TargetRef("Deployment", name, "apps/v1"),
        max_replicas=20,
        metrics=(rate,),
        prediction=DSP,
        uid=f"uid-{name}",
        annotations={f"{QUERY}pods.http_requests": query} if query else {},
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # names and values are the test's own


@dataclass
class LoadScene:
    """A log; what is said there is published as policies in every partition."""

    topics: Topics = field(default_factory=lambda: Topics(partitions=2))
    log: UnreadableLog = field(default_factory=UnreadableLog)

    def __post_init__(self) -> None:
        self.codec = Codec(self.topics)
        self.context = LogContext(self.log, self.topics, self.codec, "prod")
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)

    def say(self, *policies: EhpaChanged) -> None:
        for policy in policies:
            self.log.append(self.codec.encode_for_all(policy, topic="policies", key=policy.key, source="test"))

    def source(self, url: str, *, most: int = 1 << 20, bound: int = 32 << 20, **options: object) -> LoadSource:
        server = Prometheus(url, limits=AnswerLimits(Seconds(10.0), Bytes(most)))
        wishes = LoadWishesOfObjects(WantedLoads("prod", self.topics.partition_of, 50))
        told = LoadOptions(history=Seconds(3600.0), **options)  # type: ignore[arg-type]  # names and values are the test's own
        return LoadSource(LoadQueries(server), self.context, wishes, told, Outbox(self.context, bound=bound))

    def events(self, topic: str = "load-metrics") -> list[Event]:
        found: list[Event] = []
        for partition in range(self.topics.partitions):
            place = (self.topics.wire(topic), partition)
            records = self.log.poll({place: 0}, wait=0.0) if self.log.end(*place) else []
            found += [self.codec.decode(record) for record in records]
        return found

    def rows(self) -> list[tuple[str, str, float]]:
        """Workload, series without the query's number, and value of each row."""
        return [
            (workload.rpartition("/")[2], series.partition("#")[0], value)
            for event in self.events()
            if isinstance(event, LoadScraped)
            for workload, series, value in zip(event.workloads, event.series, event.values, strict=True)
        ]

    def histories(self) -> list[LoadHistoryRead]:
        return [event for event in self.events() if isinstance(event, LoadHistoryRead)]

    def failures(self) -> list[LoadQueryFailed]:
        return [event for event in self.events() if isinstance(event, LoadQueryFailed)]

    def sees(self) -> list[tuple[str, ...]]:
        """What each report says that the source sees."""
        found = [event for event in self.events("cluster-changes") if isinstance(event, SourceReported)]
        return [event.sees for event in found[: len(found) // self.topics.partitions]]
