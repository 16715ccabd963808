"""200,000 records with anything in them, through a real Kafka: each is folded or set aside by every stage that reads it."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.pipeline import stages, ticked_topics
from agents.settings.tree import Settings
from streams.topics import Topics
from tests.support.hostile_site import Site
from tests.support.poison import Poison

RECORDS, AT_ONCE = 20_000, 10_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_of_a_fuzz_is_folded_or_set_aside(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    site = Site(broker, topics_made(partitions=1), tmp_path)
    reads = {stage.name: stage.reads for stage in stages(Settings())}
    record = Poison(site.topics).anything(random.Random(20), *ticked_topics())
    try:
        site.commands.start("worker", "worker")
        site.commands.wait(lambda: len(site.metric("ullage_partitions_open")) == len(reads), 60, "the worker has its partitions")
        put = Counter({name: site.log.end(site.topics.wire(name), 0) for name in ticked_topics()})  # the rules that it wrote
        for _ in range(RECORDS // AT_ONCE):
            batch = [record() for _ in range(AT_ONCE)]
            put.update(site.topics.short(each.topic) for each in batch)
            site.log.append(batch)
            site.tick()
        wanted = Counter({stage: sum(put[name] for name in names) for stage, names in reads.items()})

        def accounted() -> Counter[str]:
            return site.metric("ullage_records_total") + site.metric("ullage_dead_letters_total")

        site.commands.wait(lambda: sum(accounted().values()) >= sum(wanted.values()), 300, "every record is accounted for")
        assert accounted() == wanted
        dead = site.metric("ullage_dead_letters_total")
        assert all(dead[stage] > 1_000 for stage in reads)
        site.commands.wait(lambda: site.lettered() >= sum(dead.values()), 60, "every dead letter is in the log")
        assert site.lettered() == sum(dead.values())
    finally:
        site.close()
