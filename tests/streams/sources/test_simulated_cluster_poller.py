"""The cluster source on the simulated cluster and the log in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from streams.clients.cluster_port import PodUsage
from streams.codec.event_codec import Codec
from streams.errors import TryAgain
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.simulated.api_server import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import TOPICS, Topics
from tests.support.lossy_log import AwayLog
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass
class Scene:
    """A cluster, a log and a source between them."""

    log: AwayLog
    topics: Topics
    codec: Codec
    cluster: SimulatedCluster
    source: SimulatedClusterPoller

    @property
    def context(self) -> LogContext:
        return LogContext(self.log, self.topics, self.codec, self.cluster.name)

    def another_source(self, bound: int = 32 << 20) -> SimulatedClusterPoller:
        outbox = Outbox(self.context, bound=bound)
        return SimulatedClusterPoller(SimulatedClient(self.cluster), self.context, outbox=outbox)

    def minutes(self, first: int, last: int) -> None:
        for minute in range(first, last + 1):
            self.cluster.advance(START + minute * MINUTE)
            self.source.scrape(START + minute * MINUTE)

    def records(self, topic: str) -> Iterator[Record]:
        wire = self.topics.wire(topic)
        for partition in range(self.topics.partitions):
            yield from self.log.poll({(wire, partition): 0}, limit=1_000_000)

    def events(self, topic: str) -> list[object]:
        return [self.codec.decode(record) for record in self.records(topic)]


@pytest.fixture
def scene() -> Scene:
    topics, log, cluster = Topics(partitions=2), AwayLog(), demo_cluster(3, start=START)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    codec = Codec(topics)
    return Scene(
        log,
        topics,
        codec,
        cluster,
        SimulatedClusterPoller(SimulatedClient(cluster), LogContext(log, topics, codec, cluster.name)),
    )


def test_every_pod_is_announced_once_to_both_topics_and_then_only_when_it_changes(scene: Scene) -> None:
    scene.cluster.advance(START + MINUTE)
    scene.source.scrape(START + MINUTE)
    scene.source.scrape(START + 2 * MINUTE)
    by_workload, by_cluster = scene.events("pod-changes"), scene.events("pod-changes-by-cluster")
    assert len(by_workload) == len(by_cluster) == 36
    assert {event.pod.uid for event in by_cluster if isinstance(event, PodChanged)} == {p.pod.uid for p in scene.cluster.pods()}
    scene.cluster.advance(START + timedelta(hours=1))
    scene.source.scrape(START + timedelta(hours=1))
    changed = {event.workload.name for event in scene.events("pod-changes-by-cluster")[36:] if isinstance(event, PodChanged)}
    assert changed == {"cart", "checkout", "ledger"}


def test_a_pod_of_which_there_is_nothing_new_is_published_again_after_three_hours(scene: Scene) -> None:
    scene.cluster.advance(START + MINUTE)
    for minute in (1, 180, 181, 182):
        scene.source.scrape(START + minute * MINUTE)
    facts = [event for event in scene.events("pod-changes-by-cluster") if isinstance(event, PodChanged)]
    assert [event.at for event in facts] == [START + MINUTE] * 36 + [START + 181 * MINUTE] * 36
    assert [replace(event, at=START) for event in facts[:36]] == [replace(event, at=START) for event in facts[36:]]


def test_each_record_stands_where_its_key_belongs(scene: Scene) -> None:
    scene.minutes(1, 40)
    for topic in ("pod-changes", "oom-events"):
        for record in scene.records(topic):
            assert record.key is not None
            event = scene.codec.decode(record)
            assert isinstance(event, (PodChanged, ContainerOOMKilled))
            assert record.key.decode() == event.workload.key
            assert record.partition == scene.topics.partition_of(event.workload.key)
    places = {(record.key, record.partition) for record in scene.records("pod-changes-by-cluster")}
    assert places == {(b"demo", scene.topics.partition_of("demo"))}


def test_a_scrape_is_one_record_a_partition_with_all_containers_at_work_in_order(scene: Scene) -> None:
    scene.minutes(1, 1)
    scrapes = [event for event in scene.events("pod-metrics") if isinstance(event, MetricsScraped)]
    rows = [
        (partition, *row)
        for partition, s in enumerate(scrapes)
        for row in zip(s.workloads, s.pods, s.containers, s.cores, s.memory, strict=True)
    ]
    wanted = {
        (pod.workload.key, used.pod, name, amounts.cpu, amounts.memory)
        for used in scene.cluster.usage()
        for pod in scene.cluster.pods()
        if pod.pod.name == used.pod
        for name, amounts in used.containers.items()
    }
    assert {row[1:] for row in rows} == wanted
    assert len(rows) == len(wanted) >= 40
    assert all(partition == scene.topics.partition_of(str(workload)) for partition, workload, *_ in rows)
    assert rows == sorted(rows, key=lambda row: row[:4])
    assert {(s.at, s.window, s.cluster) for s in scrapes} == {(START + MINUTE, 60.0, "demo")}


def test_a_scrape_with_many_rows_is_published_in_several_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.publishing.scrape_batches.ROWS", 7)
    scene.minutes(1, 1)
    scrapes = [event for event in scene.events("pod-metrics") if isinstance(event, MetricsScraped)]
    sizes = [len(scrape.pods) for scrape in scrapes]
    assert sum(sizes) == sum(len(used.containers) for used in scene.cluster.usage())
    assert (max(sizes), len([size for size in sizes if size < 7])) == (7, 2)
    assert {scrape.at for scrape in scrapes} == {START + MINUTE}


def test_a_usage_that_is_answered_twice_is_published_once(scene: Scene) -> None:
    scene.cluster.advance(START + MINUTE)
    scene.source.scrape(START + MINUTE)
    scene.source.scrape(START + 2 * MINUTE)
    scene.cluster.advance(START + 3 * MINUTE)
    scene.source.scrape(START + 3 * MINUTE)
    scrapes = [event for event in scene.events("pod-metrics") if isinstance(event, MetricsScraped)]
    assert sorted({scrape.at for scrape in scrapes}) == [START + MINUTE, START + 3 * MINUTE]


def test_what_was_not_seen_is_nan(scene: Scene) -> None:
    class HalfBlind(SimulatedClient):
        def usage(self) -> Sequence[PodUsage]:
            return [
                replace(used, containers={name: replace(amounts, memory=None) for name, amounts in used.containers.items()})
                for used in super().usage()
            ]

    scene.cluster.advance(START + MINUTE)
    SimulatedClusterPoller(HalfBlind(scene.cluster), scene.context).scrape(START + MINUTE)
    for scrape in scene.events("pod-metrics"):
        assert isinstance(scrape, MetricsScraped)
        assert all(memory != memory for memory in scrape.memory)  # noqa: PLR0124  # NaN is what differs from itself
        assert all(cores > 0 for cores in scrape.cores)


def test_each_oom_kill_is_published_once_with_what_was_in_force(scene: Scene) -> None:
    scene.minutes(1, 120)
    kills = [event for event in scene.events("oom-events") if isinstance(event, ContainerOOMKilled)]
    published = [(kill.pod.uid, kill.container, kill.restarts) for kill in kills]
    assert len(published) == len(set(published)) > 20
    assert {(kill.memory_request, kill.memory_limit) for kill in kills if kill.container == "cart"} == {(160 << 20, 256 << 20)}
    for pod in scene.cluster.pods():
        last = max((restarts for uid, _, restarts in published if uid == pod.pod.uid), default=None)
        assert last == (pod.ooms[0].restarts if pod.ooms else None)


def test_a_pod_that_is_gone_is_published_as_gone_once(scene: Scene) -> None:
    scene.minutes(1, 2)
    pod = scene.cluster.pods()[0]
    scene.cluster.evict(pod.pod)
    scene.minutes(3, 5)
    assert [event for event in scene.events("pod-changes-by-cluster") if isinstance(event, PodDeleted)] == [
        PodDeleted(START + 3 * MINUTE, pod.workload, pod.pod)
    ]
    assert len([event for event in scene.events("pod-changes") if isinstance(event, PodDeleted)]) == 1


def test_a_restart_publishes_every_pod_and_those_that_left_meanwhile_and_repeats_no_kill(scene: Scene) -> None:
    scene.minutes(1, 60)
    kills, pod = len(scene.events("oom-events")), scene.cluster.pods()[0]
    assert kills > 5
    scene.cluster.evict(pod.pod)
    scene.source = scene.another_source()
    before = len(scene.events("pod-changes-by-cluster"))
    scene.source.scrape(START + 60 * MINUTE)
    facts = scene.events("pod-changes-by-cluster")[before:]
    assert [event.pod for event in facts if isinstance(event, PodDeleted)] == [pod.pod]
    assert len([event for event in facts if isinstance(event, PodChanged)]) == 35
    assert len(scene.events("oom-events")) == kills


def test_two_sources_over_the_same_cluster_write_the_same_bytes() -> None:
    written = []
    for _ in range(2):
        topics, log, cluster = Topics(partitions=2), AwayLog(), demo_cluster(3, start=START)
        for topic in TOPICS:
            log.create(topics.wire(topic.name), topics.partitions)
        codec = Codec(topics)
        scene = Scene(
            log,
            topics,
            codec,
            cluster,
            SimulatedClusterPoller(SimulatedClient(cluster), LogContext(log, topics, codec, cluster.name)),
        )
        scene.minutes(1, 30)
        written.append([record for topic in TOPICS for record in scene.records(topic.name)])
    assert written[0] == written[1]
    assert len(written[0]) > 100


def test_while_the_log_is_away_facts_wait_and_nothing_is_lost(scene: Scene) -> None:
    scene.minutes(1, 1)
    scene.log.away = True
    scene.cluster.evict(scene.cluster.pods()[0].pod)
    scene.minutes(2, 10)
    scene.cluster.advance(START + 11 * MINUTE)
    assert scene.source.scrape(START + 11 * MINUTE) is False
    scene.log.away = False
    scene.cluster.advance(START + 12 * MINUTE)
    assert scene.source.scrape(START + 12 * MINUTE) is True
    scrapes = [event.at for event in scene.events("pod-metrics") if isinstance(event, MetricsScraped)]
    assert sorted(set(scrapes)) == [START + minute * MINUTE for minute in range(1, 13)]
    assert len([event for event in scene.events("pod-changes") if isinstance(event, PodDeleted)]) == 1


def test_beyond_the_bound_old_scrapes_are_dropped_first(scene: Scene) -> None:
    scene.source = scene.another_source(bound=90_000)
    scene.minutes(1, 1)
    scene.log.away = True
    scene.minutes(2, 20)
    scene.log.away = False
    scene.minutes(21, 21)
    scrapes = {event.at for event in scene.events("pod-metrics") if isinstance(event, MetricsScraped)}
    assert START + MINUTE in scrapes
    assert START + 2 * MINUTE not in scrapes
    assert START + 21 * MINUTE in scrapes
    for topic in ("pod-metrics", "cluster-changes"):  # two partitions, and one record for each in every minute
        assert scene.source.dropped[f"ullage.{topic}.v1"] == 2 * 21 - sum(1 for _ in scene.records(topic))
    assert scene.source.dropped.keys() == {"ullage.pod-metrics.v1", "ullage.cluster-changes.v1"}


def test_it_reports_in_every_partition_each_minute_that_it_is_at_work(scene: Scene) -> None:
    for seconds in (60, 90, 120):
        scene.source.scrape(START + timedelta(seconds=seconds))
    facts = [(event.at, event.sees) for event in scene.events("cluster-changes") if isinstance(event, SourceReported)]
    assert facts == [(START + minutes * MINUTE, ("oom-events", "pod-changes", "pod-metrics")) for minutes in (1, 2)] * 2


def test_when_even_facts_had_to_go_everything_is_published_anew(scene: Scene) -> None:
    scene.source = scene.another_source(bound=3_000)
    scene.log.away = True
    scene.minutes(1, 40)
    scene.log.away = False
    scene.minutes(41, 41)
    announced = {event.pod.uid for event in scene.events("pod-changes-by-cluster") if isinstance(event, PodChanged)}
    assert len(announced) < 36
    assert scene.source.dropped["ullage.pod-changes.v1"] >= 36 - len(announced)
    scene.minutes(42, 42)
    announced = {event.pod.uid for event in scene.events("pod-changes-by-cluster") if isinstance(event, PodChanged)}
    assert announced == {pod.pod.uid for pod in scene.cluster.pods()}


def test_a_cluster_that_is_away_is_the_callers_to_wait_for(scene: Scene) -> None:
    class Away(SimulatedClient):
        def pods(self) -> Sequence[object]:  # type: ignore[override]  # never returns
            raise TryAgain(doing="listing pods of", to="demo", answer="no route to host", after=10.0)  # type: ignore[arg-type]

    source = SimulatedClusterPoller(Away(scene.cluster), scene.context)
    with pytest.raises(TryAgain, match="no route to host"):
        source.scrape(START)
    assert scene.events("pod-metrics") == []
