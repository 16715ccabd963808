"""Records with anything in them, through a real Kafka: each is folded or set aside by every stage that reads it."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.pipeline import stages, ticked_topics
from agents.settings.tree import Settings
from streams.codec.event_codec import tick_number
from streams.topics import Topics
from tests.support.hostile_site import Site
from tests.support.log_conformance import read_all
from tests.support.poison import Poison

RECORDS, AT_ONCE = 200_000, 10_000
PARTITIONS = 2
"""One for each of two workers."""


def opened(site: Site) -> dict[str, int]:
    """How many partitions of each stage the workers have."""
    return dict(site.metric("ullage_partitions_open"))


def written(site: Site, name: str) -> int:
    """How many records a topic has."""
    return sum(site.log.end(site.topics.wire(name), partition) for partition in range(PARTITIONS))


def recorded(site: Site, name: str, partition: int) -> int:
    """How many records stand before the last tick of a partition, ticks aside."""
    ticks = [tick_number(record) is not None for record in read_all(site.log, site.topics.wire(name), partition)]
    before = ticks[: len(ticks) - ticks[::-1].index(True)] if True in ticks else []
    return before.count(False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_of_a_fuzz_is_folded_or_set_aside(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    site = Site(broker, topics_made(partitions=PARTITIONS), tmp_path)
    reads = {stage.name: stage.reads for stage in stages(Settings())}
    record = Poison(site.topics).anything(random.Random(20), *ticked_topics())
    try:
        for worker in ("one", "other"):
            site.start(worker)
        site.commands.wait(lambda: opened(site) == dict.fromkeys(reads, PARTITIONS), 240, "the workers have their partitions")
        put = Counter({name: written(site, name) for name in ticked_topics()})  # the rules that the first of them wrote
        for _ in range(RECORDS // AT_ONCE):
            batch = [replace(record(), partition=number % PARTITIONS) for number in range(AT_ONCE)]
            put.update(site.topics.short(each.topic) for each in batch)
            site.log.append(batch)
            site.tick()

        def wanted() -> Counter[str]:
            """Recommendations are an input too, as far as ticks follow them."""
            recommended = sum(recorded(site, "recommendations-by-cluster", partition) for partition in range(PARTITIONS))
            counts = Counter(put | Counter({"recommendations-by-cluster": recommended}))
            return Counter({stage: sum(counts[name] for name in names) for stage, names in reads.items()})

        def accounted() -> Counter[str]:
            return site.metric("ullage_records_total") + site.metric("ullage_dead_letters_total")

        site.commands.wait(lambda: sum(accounted().values()) >= sum(wanted().values()), 450, "every record is accounted for")
        assert accounted() == wanted()
        dead = site.metric("ullage_dead_letters_total")
        assert all(dead[stage] > 1_000 for stage in reads)
        site.commands.wait(lambda: site.lettered() >= sum(dead.values()), 60, "every dead letter is in the log")
        assert site.lettered() == sum(dead.values())
    finally:
        site.close()
