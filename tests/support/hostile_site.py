"""A log in a real Kafka, and the product's own worker on it, whose metrics can be read."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib import request

from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas import times
from schemas.catalogue import Event
from schemas.names import Workload
from streams import refused_records
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.topics import Topics, changelog_topic
from tests.support import ticks
from tests.support.commands import Commands
from tests.support.log_conformance import read_all

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=20)
"""A tick counts for nothing when it is ahead of the time of its append; those of a test come a minute apart."""


class Site:
    """A log, its topics, and a worker whose metrics can be read."""

    def __init__(self, broker: str, topics: Topics, folder: Path) -> None:
        self.topics, self.log, self.codec = topics, KafkaLog(KafkaConnection(broker)), Codec(topics)
        self.ports: list[int] = []
        self.commands = Commands(broker, topics, folder)
        self.turn = times.to_ms(START)

    def put(self, event: Event, topic: str, key: str, *, everywhere: bool = False) -> None:
        partitions = range(self.topics.partitions) if everywhere else [self.topics.partition_of(key)]
        records = [self.codec.encode(event, topic=topic, key=key, partition=p, source="/test") for p in partitions]
        refused_records.append(self.log, self.topics, records)

    def tick(self, by: timedelta = timedelta(seconds=60)) -> None:
        self.turn += round(by.total_seconds() * 1000)
        ticks.append(self.log, self.topics, self.turn)

    def start(self, name: str) -> None:
        """Start a worker."""
        self.ports += free_ports(1)
        self.commands.start(name, "worker", "--set", f"metrics.port={self.ports[-1]}")

    def metric(self, name: str) -> Counter[str]:
        """The sums of a metric of all workers by stage."""
        return sum((self._metric(port, name) for port in self.ports), Counter[str]())

    @staticmethod
    def _metric(port: int, name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        try:
            with request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return found
        for stage, value in re.findall(rf'^{name}{{[^}}]*stage="([a-z]+)"[^}}]*}} ([0-9.e+]+)$', text, re.MULTILINE):
            found[stage] += int(float(value))
        return found

    def lettered(self) -> int:
        """How many records the topic of dead letters has; no ticks come into it here."""
        return sum(self.log.end(self.topics.wire("dead-letters"), p) for p in range(self.topics.partitions))

    def letters(self) -> list[Record]:
        found = [r for p in range(self.topics.partitions) for r in read_all(self.log, self.topics.wire("dead-letters"), p)]
        return [record for record in found if not is_of_a_clock(record)]

    def recommended(self, workload: Workload) -> int:
        place = self.topics.wire("recommendations"), self.topics.partition_of(workload.key)
        return sum(r.key == workload.key.encode() for r in read_all(self.log, *place))

    def marks(self) -> int:
        """Marks of all stages and partitions."""
        names = [changelog_topic(self.topics.prefix, stage.name) for stage in stages(Settings())]
        records = [r for name in names for p in range(self.topics.partitions) for r in read_all(self.log, name, p)]
        return sum(b"/mark/" in (r.key or b"") for r in records)

    def close(self) -> None:
        self.commands.close()
        self.log.close()
