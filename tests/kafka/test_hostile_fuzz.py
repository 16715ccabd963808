"""Records with anything in them, in batches of every codec, well made or not, through a real Kafka: each is folded or set aside.

By every stage that reads it: what no client can read of a batch counts as the one record that stands for it.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.run.pipeline import stages
from agents.run.stage_topics import input_topics
from agents.settings.all_settings import Settings
from streams import clock_log
from streams.log.bounded_decompression import MOST_BYTES, MOST_PIECES
from streams.log.log_port import NewRecord
from streams.log.record_format import MOST_HEADERS
from streams.topics import Topics
from tests.support.corrupt_events import Poison
from tests.support.hostile_site import Site
from tests.support.raw_batches import PACKERS, batch, checked_lz4, produce, record, xerial

RECORDS, AT_ONCE = 200_000, 10_000
PARTITIONS = 2
"""One for each of two workers."""


def opened(site: Site) -> dict[str, int]:
    """How many partitions of each stage the workers have."""
    return dict(site.metric("ullage_partitions_open"))


def written(site: Site, name: str) -> int:
    """How many records a topic has."""
    return sum(site.log.end(site.topics.wire(name), partition) for partition in range(PARTITIONS))


def in_turns(site: Site, name: str) -> int:
    """How many records of a topic belong to a turn: those before the ends that the newest tick says. The topic keeps them all."""
    reader = clock_log.ClockReader(site.log, site.topics)
    reader.catch_up()
    return sum(reader.counted.end(name, partition) for partition in range(PARTITIONS))


def packed(chance: random.Random, records: list[NewRecord]) -> tuple[bytes, int]:
    """A batch of these that a broker takes, and how many records are found in it."""
    place, count = chance.randrange(len(records)), len(records)
    kind = chance.choice(["good"] * 6 + ["tail", "checksum", "offset", "size", "headers", "pieces", "large"])
    bad = {
        "offset": lambda r: record(place - 1, r.key, r.value),
        "size": lambda r: record(place, r.key, r.value, size_lie=-1),
        "headers": lambda r: record(place, r.key, r.value, [(b"", b"")] * (MOST_HEADERS + 1)),
        "large": lambda r: record(place, r.key, bytes(MOST_BYTES)),
    }
    content = b"".join(
        bad[kind](r) if kind in bad and n == place else record(n, r.key, r.value, [(name.encode(), v) for name, v in r.headers])
        for n, r in enumerate(records)
    )
    codec, pack = chance.choice([each for name, each in PACKERS.items() if kind == "good" or name != "plain"])
    found = {"offset": place + 1, "size": place + 1, "headers": place + 1, "pieces": 1, "large": 1}.get(kind, count)
    if kind == "offset":
        codec, pack = PACKERS["plain"]  # in others a broker looks at offsets
    elif kind == "large":
        codec, pack = PACKERS["gzip"]
    sent = pack(content)
    if kind == "tail":
        codec, pack = PACKERS[chance.choice(["gzip", "lz4"])]
        sent = pack(content) + chance.choice([bytes(16), chance.randbytes(20)])
    elif kind == "checksum":
        codec, sent = 3, checked_lz4(content)[:-1] + b"?"
    elif kind == "pieces":
        codec, sent = 2, xerial(b"") + b"\0\0\0\1\0" * MOST_PIECES + xerial(content)[16:]
    return batch(sent, codec, count, at=round(time.time() * 1000)), found


def send(site: Site, broker: str, chance: random.Random, records: list[NewRecord]) -> tuple[Counter[str], Counter[str]]:
    """Write records in batches of up to 200; returns how many can be read of each topic, and how many offsets they take."""
    places = defaultdict(list)
    for made in records:
        places[made.topic, made.partition].append(made)
    readable, offsets = Counter[str](), Counter[str]()
    for (topic, partition), waiting in places.items():
        offsets[site.topics.short(topic)] += len(waiting)
        while waiting:
            size = chance.randint(1, 200)
            raw, count = packed(chance, waiting[:size])
            assert produce(broker, topic, partition, raw) == 0
            readable[site.topics.short(topic)] += count
            del waiting[:size]
    return readable, offsets


DECIDED = sorted({*input_topics()} & {name for stage in stages(Settings()) for name in stage.writes})
"""Inputs of one stage that another decides."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_of_a_fuzz_is_folded_or_set_aside(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    site = Site(broker, topics_made(partitions=PARTITIONS), tmp_path)
    reads = {stage.name: stage.reads for stage in stages(Settings())}
    chance = random.Random(20)
    poisoned = Poison(site.topics).anything(chance, *input_topics())
    try:
        for worker in ("one", "other"):
            site.start(worker)
        site.commands.wait(lambda: opened(site) == dict.fromkeys(reads, PARTITIONS), 240, "the workers have their partitions")
        put = Counter({name: written(site, name) for name in input_topics()})  # the rules that the first of them wrote
        taken = Counter[str]()
        for _ in range(RECORDS // AT_ONCE):
            readable, offsets = send(
                site, broker, chance, [replace(poisoned(), partition=n % PARTITIONS) for n in range(AT_ONCE)]
            )
            put, taken = put + readable, taken + offsets
            site.tick()
        # The newest tick came after all that was sent, so the offsets before its ends that are not ours are decisions' own.
        put += Counter({name: in_turns(site, name) - taken[name] for name in DECIDED})
        wanted = Counter({stage: sum(put[name] for name in names) for stage, names in reads.items()})

        def accounted() -> Counter[str]:
            return site.metric("ullage_records_total") + site.metric("ullage_dead_letters_total")

        site.commands.wait(lambda: accounted().total() >= wanted.total(), 450, f"every record of {wanted} is accounted for")
        assert accounted() == wanted
        dead = site.metric("ullage_dead_letters_total")
        assert all(dead[stage] > 1_000 for stage in reads)
        site.commands.wait(lambda: site.lettered() >= sum(dead.values()), 60, "every dead letter is in the log")
        assert site.lettered() == sum(dead.values())
    finally:
        site.close()
