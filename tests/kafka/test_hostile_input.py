"""A hostile tenant, and anything at all in the log, through a real Kafka and the product's own worker."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib import request

import orjson
import pytest
from kafka import KafkaProducer

from agents.pipeline import stages, ticked_topics
from agents.settings.tree import Settings
from schemas import times
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.policies.vertical import ContainerPolicy
from schemas.policies.vpa import TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams import refused_records
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec, tick, tick_number
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.topics import Topics, changelog_topic
from tests.support.commands import Commands
from tests.support.log_conformance import read_all

START = datetime.now(UTC).replace(microsecond=0)  # ticks are compared with the broker's clock
GOOD = Workload("c", "shop", "Deployment", "good")


class Site:
    """A log, its topics, and a worker whose metrics can be read."""

    def __init__(self, broker: str, topics: Topics, folder: Path) -> None:
        self.topics, self.log, self.codec = topics, KafkaLog(KafkaConnection(broker)), Codec(topics)
        (self.port,) = free_ports(1)
        self.commands = Commands(broker, topics, folder, {"METRICS__PORT": str(self.port)})
        self.turn = times.to_ms(START)

    def put(self, event: object, topic: str, key: str, *, everywhere: bool = False) -> None:
        partitions = range(self.topics.partitions) if everywhere else [self.topics.partition_of(key)]
        records = [self.codec.encode(event, topic=topic, key=key, partition=p, source="/test") for p in partitions]  # type: ignore[arg-type]  # events
        refused_records.append(self.log, self.topics, records)

    def tick(self, by: timedelta = timedelta(seconds=60)) -> None:
        self.turn += round(by.total_seconds() * 1000)
        names = [self.topics.wire(name) for name in ticked_topics()]
        self.log.append([tick(name, p, self.turn) for name in names for p in range(self.topics.partitions)])

    def metric(self, name: str) -> Counter[str]:
        """The sums of a metric by stage."""
        try:
            with request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return Counter()
        found: Counter[str] = Counter()
        for stage, value in re.findall(rf'^{name}{{[^}}]*stage="([a-z]+)"[^}}]*}} ([0-9.e+]+)$', text, re.MULTILINE):
            found[stage] += int(float(value))
        return found

    def letters(self) -> list[Record]:
        found = [r for p in range(self.topics.partitions) for r in read_all(self.log, self.topics.wire("dead-letters"), p)]
        return [record for record in found if tick_number(record) is None]

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


@pytest.fixture
def site(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Site]:
    site = Site(broker, topics_made(partitions=2), tmp_path)
    yield site
    site.close()


def vpa(name: str, *, policies: int = 0, annotations: int = 0) -> VpaChanged:
    return VpaChanged(
        START, "c", "shop", name, START, TargetRef("Deployment", "good"), selector=(),
        containers=tuple(ContainerPolicy(f"c{n}") for n in range(policies)),
        annotations={f"tenant.example/{n}": "x" * 1_000 for n in range(annotations)},
    )  # fmt: skip


def pod(workload: Workload, name: str, *, containers: int = 1, labels: int = 0) -> PodChanged:
    seen = tuple(ContainerSeen(f"c{n}", Amounts(Cores(0.1), Bytes(1 << 26))) for n in range(containers))
    texts = {f"label-{n}": "x" * 63 for n in range(labels)}
    return PodChanged(START, workload, PodName("shop", name, f"uid-{name}"), PodPhase.RUNNING, START, seen, labels=texts)


def use(site: Site, at: datetime) -> None:
    scrape = MetricsScraped(at, "c", (GOOD.key,), ("good-1",), ("c0",), [0.2], [1e8])
    site.put(scrape, "pod-metrics", GOOD.key)


class RawName(str):
    """The name of a header, in bytes that are no text."""

    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        return b"\xff\xfe-no-text"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_a_hostile_tenant_writes_is_set_aside_and_a_good_workload_is_served(site: Site, broker: str) -> None:
    site.put(vpa("huge", policies=8_000), "policies", "c/shop/huge", everywhere=True)
    for n in range(34):
        site.put(vpa(f"annotated-{n}", annotations=255), "policies", f"c/shop/annotated-{n}", everywhere=True)
    wide = Workload("c", "shop", "Deployment", "wide")
    site.put(pod(wide, "wide-1", containers=12_000), "pod-changes", wide.key)
    for n in range(10):
        site.put(pod(GOOD, f"labelled-{n}", labels=14_000), "pod-changes", GOOD.key)
    producer = KafkaProducer(bootstrap_servers=broker)
    for name in ("pod-changes", "policies", "control"):
        producer.send(site.topics.wire(name), b"v", b"k", headers=[(RawName("name"), b"x")], partition=0).get(20)
    producer.close()
    site.put(pod(GOOD, "good-1"), "pod-changes", GOOD.key)
    use(site, START)
    site.log.append([tick(site.topics.wire("oom-events"), 0, site.turn)])
    site.log.append([tick(site.topics.wire("oom-events"), 0, site.turn + 86_400_000)])
    site.commands.start("worker", "worker")
    for n in range(1, 4):
        use(site, START + timedelta(seconds=60 * n))
        site.tick()
    site.commands.wait(lambda: site.recommended(GOOD), 90, "the good workload is served")
    site.commands.wait(lambda: site.marks() >= 6, 60, "every stage has written a checkpoint")
    # 35 VPAs for five stages and two partitions, 11 pods for two, and the raw records: for two, five and three stages
    site.commands.wait(lambda: len(site.letters()) == 35 * 5 * 2 + 11 * 2 + 2 + 5 + 3, 60, "all of it is set aside")
    reasons = Counter(re.sub(r"[0-9]+", "N", orjson.loads(r.value or b"")["reason"]) for r in site.letters())
    assert reasons["containers has N entries; more than N are not possible"] == 5 * 2 + 2
    assert reasons["annotations has N characters; more than N are not possible"] == 34 * 5 * 2
    assert reasons["labels has N entries; more than N are not possible"] == 10 * 2
    site.commands.kill("worker")
    site.commands.start("again", "worker")
    before = site.marks()
    use(site, START + timedelta(seconds=300))
    site.tick()
    site.commands.wait(lambda: site.marks() > before, 90, "the worker goes on after a restart")
