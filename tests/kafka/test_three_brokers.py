"""Turns on three real brokers: one after the other restarts, and one that lacks the newest records becomes leader."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streams import clock_log
from streams.broker import JarsUnavailable
from streams.clock_rules import FILL, Counted
from streams.errors import LogUnavailable, UllageError
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.sources.clock import Clock
from streams.topics import TOPICS, Topics
from tests.kafka.test_worker_turns import Bench
from tests.support.broker_cluster import ThreeBrokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE = 180.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreeBrokers]:
    try:
        with ThreeBrokers() as brokers:
            yield brokers
    except JarsUnavailable as error:
        pytest.skip(str(error))


def make(cluster: ThreeBrokers, topics: Topics, lossy: str = "") -> None:
    """The topics as an installation of three brokers has them; `lossy` has copies on 2 and 3 alone, and any of them may lead."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        until(lambda: len(admin.describe_cluster()["brokers"]) == len(cluster.nodes), "a broker of the test before is not back")
        short = {topics.wire(topic.name): topic.name for topic in TOPICS}
        made = [
            NewTopic(
                spec.name,
                replica_assignments={p: [2, 3] for p in range(spec.partitions)},
                topic_configs={**spec.configs, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
            )
            if short[spec.name] == lossy
            else NewTopic(spec.name, num_partitions=spec.partitions, replication_factor=3, topic_configs=dict(spec.configs))
            for spec in topics.specs(replication=3)
        ]
        admin.create_topics(made, wait_for_metadata=True)
    finally:
        admin.close()


@contextmanager
def ticking(cluster: ThreeBrokers, topics: Topics) -> Iterator[list[str]]:
    """A clock at work, and what it warns of."""
    warnings, stop = list[str](), threading.Event()
    with KafkaLog(KafkaConnection(cluster.bootstrap)) as log:
        thread = threading.Thread(target=Clock(log, topics, warn=warnings.append).run, args=(stop.is_set,))
        thread.start()
        try:
            yield warnings
        finally:
            stop.set()
            thread.join()


def until(reached: Callable[[], bool], what: str) -> None:
    """Wait for it. That nobody leads a partition for a while is what these tests are about, so it only means "not yet"."""
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(LogUnavailable):
            if reached():
                return
        assert time.monotonic() < end, what
        time.sleep(0.2)


def again(act: Callable[[], object]) -> None:
    """Try for a while: a leader may be on its way."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            act()
        except UllageError:
            assert time.monotonic() < end
            time.sleep(0.5)
        else:
            return


def until_ticks(bench: Bench, more: int, what: str) -> None:
    """Wait until so many more ticks count than do now."""
    counts: list[int] = []

    def came() -> bool:
        counts.append(sum(1 for _ in clock_log.ticks_from(bench.log, bench.topics, Counted())))
        return counts[-1] >= counts[0] + more

    until(came, what)


def decided(bench: Bench) -> int:
    """How many decisions the worker has written, which has made its changelog then: that takes all three brokers."""
    return sum(map(len, bench.read("recommendations")))


@contextmanager
def benched(cluster: ThreeBrokers, topics: Topics, folder: Path) -> Iterator[Bench]:
    bench = Bench(cluster.bootstrap, topics, folder)
    try:
        yield bench
    finally:
        bench.close()


def test_a_rolling_restart_changes_no_turn(cluster: ThreeBrokers, tmp_path: Path) -> None:
    topics = Topics("rolling", 2)
    make(cluster, topics)
    with benched(cluster, topics, tmp_path) as bench:
        bench.worker()
        with ticking(cluster, topics):
            bench.oom("first")
            until(lambda: decided(bench) > 0, "the worker has not begun")
            for node, broker in cluster.nodes.items():
                broker.stop()
                for n in range(20):
                    again(lambda n=n, node=node: bench.oom(f"w{node}-{n}"))
                until_ticks(bench, 5, f"no ticks without broker {node}")
                broker.start()
        report = bench.settled(PATIENCE)
    assert report.exact, report
    assert report.figures["records"] >= 60


@pytest.mark.parametrize("lossy", ["oom-events", "clock"])
def test_what_an_unclean_election_loses_is_taken_back_by_all(cluster: ThreeBrokers, tmp_path: Path, lossy: str) -> None:
    """The worker has read and decided from what is gone; then it ends, and its successor agrees with the log as it is now."""
    topics = Topics(f"unclean-{lossy}", 2)
    make(cluster, topics, lossy)
    with benched(cluster, topics, tmp_path) as bench:
        worker = bench.worker()
        with ticking(cluster, topics) as warnings:
            bench.oom(*(f"a{n}" for n in range(10)))
            until(lambda: decided(bench) >= 10, "the worker has not begun")
            cluster.nodes[3].stop()
            again(lambda: bench.oom(*(f"lost{n}" for n in range(10))))
            until(lambda: decided(bench) >= 20, "the worker has not read what is to be lost")
            cluster.nodes[2].kill()
            cluster.nodes[3].start()
            again(lambda: bench.log.append([NewRecord(topics.wire(lossy), 0, b"k", b"{}")]))
            cluster.nodes[2].start()
            until(lambda: worker.dead, "the worker goes on with what is gone")
            assert "under a leader of epoch" in worker.log.read_text()
            bench.worker()
            until_ticks(bench, 5, "no ticks count any more")
            if lossy != "clock":
                until(lambda: any(r.key == FILL for p in bench.read(lossy) for r in p), f"nothing was filled up: {warnings}")
            again(lambda: bench.oom(*(f"b{n}" for n in range(10))))
            until_ticks(bench, 5, "no ticks count any more")
        report = bench.settled(PATIENCE, about="sums/")  # what was decided from the lost records stays in the log
    assert [difference for difference in report.wrong if difference.startswith("sums/")] == [], report
