"""A hostile tenant, and anything at all in the log, through a real Kafka and the product's own worker."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import orjson
import pytest
from kafka import KafkaProducer

from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.policies.vertical import ContainerPolicy
from schemas.policies.vpa import TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams.topics import Topics
from tests.support import ticks
from tests.support.hostile_site import START, Site

GOOD = Workload("c", "shop", "Deployment", "good")


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
    ticks.append(site.log, site.topics, site.turn)
    ticks.append(site.log, site.topics, site.turn + 86_400_000)
    site.start("worker")
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
    site.start("again")
    before = site.marks()
    use(site, START + timedelta(seconds=300))
    site.tick()
    site.commands.wait(lambda: site.marks() > before, 90, "the worker goes on after a restart")
