"""`python -m tests.bench.five_workers`: updater and node scaler of one cluster in 16 partitions, with one worker and with five.

Both are keyed by cluster, so one partition carries them: the row says what more workers are worth to them. The backlog is ten
minutes of `BusyCluster`, appended while no worker is there. Measured from the first partition that is opened to the last turn of
each stage in the cluster's partition. In `make bench`.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from streams.broker import Broker, BrokerSettings
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.sources.clock import TickWriter
from streams.topics import Topics
from tests.bench import measure as notes
from tests.bench.measure import Site
from tests.bench.one_partition import TICK, BusyCluster
from tests.support import node_scene
from tests.support.cluster_events import MINUTE
from tests.torture import kafka_topics
from tests.torture.processes import Process

Put = Callable[[str, float, str, str], None]
PARTITIONS, PODS, MINUTES, WORKERS = 16, 20_000, 10, 5
STAGES = ("updater", "scaler")
_BATCH = 2_000


def measure(put: Put, brokers: str, pods: int = PODS, minutes: int = MINUTES) -> None:
    """Times real time at which each stage catches up, with one worker and with five."""
    topics = Topics("benchfive", PARTITIONS)
    kafka_topics.create(brokers, topics)
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as folder, KafkaLog(KafkaConnection(brokers)) as log:
        site = Site(brokers, Path(folder), pods, PARTITIONS)
        site.topics = topics
        start = int(time.time() * 1000) // MINUTE * MINUTE - (2 * minutes + 2) * MINUTE
        day = Backlog(log, BusyCluster(topics, pods, start), start)
        try:
            day.append(day.cluster.begin(), 1)
            _ended(_caught_up(site, day, 1))
            for workers in (1, WORKERS):
                for _ in range(minutes):
                    day.append(day.cluster.minute(day.at), 1)
                running = _caught_up(site, day, workers)
                for stage in STAGES:
                    label = f"{PARTITIONS} partitions, {pods:,} pods: {stage} with {workers} worker{'s' * (workers > 1)}"
                    put(label, minutes * 60 / _seconds(running, stage, day), "times real time", "")
                _ended(running)
        finally:
            for worker in site.workers:
                worker.kill()


class Backlog:
    """A log that a busy cluster fills, minute by minute."""

    def __init__(self, log: KafkaLog, cluster: BusyCluster, at: int) -> None:
        self.log, self.cluster, self.at = log, cluster, at
        self.writer = TickWriter(log, cluster.context.topics)
        self.partition = cluster.context.topics.partition_of(node_scene.CLUSTER)

    def append(self, records: Iterable[NewRecord], minutes: int) -> None:
        """These records, and the ticks of so many minutes."""
        batch: list[NewRecord] = []
        for record in records:
            batch.append(record)
            if len(batch) == _BATCH:
                self.log.append(batch)
                batch = []
        self.log.append(batch)
        for _ in range(minutes * MINUTE // TICK):
            self.at += TICK
            self.writer.write(self.at)


def _caught_up(site: Site, day: Backlog, count: int) -> list[Process]:
    """So many workers, once the stages have taken the last turn."""
    running = [site.worker(turns=True) for _ in range(count)]
    until = time.monotonic() + 600
    while not all(_last(running, stage, day) for stage in STAGES):
        assert time.monotonic() < until, f"the last turn is not taken; see {running[0].log}"
        assert not any(worker.dead for worker in running), running[0].log
        time.sleep(0.2)
    return running


def _last(running: list[Process], stage: str, day: Backlog) -> float | None:
    """When the last turn of a stage was taken in the cluster's partition."""
    taken = [note for note in notes.of_all(running, "turn", stage) if note["partition"] == day.partition]
    return next((note["at"] for note in taken if note["turn"] == day.at), None)


def _seconds(running: list[Process], stage: str, day: Backlog) -> float:
    last = _last(running, stage, day)
    assert last is not None
    return float(last - min(note["at"] for note in notes.of_all(running, "opened")))


def _ended(running: list[Process]) -> None:
    for worker in running:
        worker.stop(60)


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<80} {value:>12,.3f} {unit:<16} {goal}\n")
        sys.stdout.flush()

    with Broker(BrokerSettings(heap_mb=512)) as broker:
        measure(show, broker.bootstrap)
