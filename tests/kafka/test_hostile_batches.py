"""Batches that a real Kafka takes though they are not well made: every reader goes on behind them, the product's commands too."""

import asyncio
import gzip
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from agents.app import log_reader
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from streams.codec.event_codec import header
from streams.log.bounded_decompression import MOST_PIECES
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import LEFT_OUT, Record
from streams.log.record_format import MOST_HEADERS
from streams.topics import Topics
from tests.support.hostile_site import Site
from tests.support.log_conformance import read_all
from tests.support.raw_batches import batch, checked_lz4, produce, record, xerial

FIRST = record(0, b"k", b"v0")
CONTENT = FIRST + record(1, b"k", b"v1") + record(2, b"k", b"v2")
GOOD: list[bytes | None] = [b"v0", b"v1", b"v2"]
SUMMED = checked_lz4(CONTENT)
TWICE = FIRST + record(-1, b"k", b"v1") + record(2, b"k", b"v2")
AHEAD = FIRST + record(1 << 30, b"k", b"v1") + record(2, b"k", b"v2")
SIZE = FIRST + record(1, b"k", b"v1", size_lie=1) + record(2, b"k", b"v2")
MANY = FIRST + record(1, b"k", b"v1", [(b"", b"")] * (MOST_HEADERS + 1)) + record(2, b"k", b"v2")
ODD = record(0, b"k", b"v0", [(b"\xff", None)], attributes=0x81) + CONTENT[len(FIRST) :]
LONG = record(0, b"k", bytes(MOST_PIECES)) + record(1, b"k", b"v1") + record(2, b"k", b"v2")
CASES: dict[str, tuple[int, bytes, list[bytes | None]]] = {
    "gzip and a text": (1, gzip.compress(CONTENT) + b"garbage", GOOD),
    "gzip and zeros": (1, gzip.compress(CONTENT) + bytes(16), GOOD),
    "lz4 and a text": (3, lz4.frame.compress(CONTENT) + b"garbage", GOOD),
    "lz4 of another checksum": (3, SUMMED[:-1] + bytes([SUMMED[-1] ^ 1]), GOOD),
    "xerial and three bytes": (2, xerial(CONTENT) + b"xyz", GOOD),
    "attributes without meaning and odd headers": (4, zstandard.compress(ODD), GOOD),
    "more members than are read": (1, b"".join(gzip.compress(LONG[at : at + 1]) for at in range(len(LONG))), [None]),
    "more blocks than are read": (2, xerial(b"") + b"\0\0\0\1\0" * MOST_PIECES + xerial(CONTENT)[16:], [None]),
    "a size that is none": (1, gzip.compress(SIZE), [b"v0", None]),
    "offsets of before": (0, TWICE, [b"v0", None]),
    "offsets far ahead": (0, AHEAD, [b"v0", None]),
    "many headers": (4, zstandard.compress(MANY), [b"v0", None]),
}
"""Name to codec, content and the values that are found; None is a stand-in's."""


def raw(name: str) -> bytes:
    codec, content, _ = CASES[name]
    return batch(content, codec, 3, at=round(time.time() * 1000))


async def by_the_worker(broker: str, last: Record) -> list[Record]:
    """What the worker's client reads up to the last record."""
    found: list[Record] = []
    stretch = log_reader.Stretch((last.topic, last.partition), 0, last.offset)
    async for records, _ in log_reader.read_stretch(KafkaConnection(broker), stretch, lost=lambda *_: None):
        found += records
    return [*found, last]


def test_what_a_broker_takes_every_client_reads_and_goes_on_behind_it(broker: str, topics_made: Callable[..., Topics]) -> None:
    topic, log = topics_made().wire("policies"), KafkaLog(KafkaConnection(broker))
    wanted: list[bytes | None] = []
    for name, (_, _, values) in CASES.items():
        assert produce(broker, topic, 0, raw(name)) == 0, name
        wanted += values
    assert produce(broker, topic, 0, batch(record(0, b"k", b"last"), 0, 1)) == 0
    found = read_all(log, topic, 0)
    assert [each.value for each in found] == [*wanted, b"last"]
    assert all(each.headers[0][0] == LEFT_OUT for each in found if each.value is None)
    assert asyncio.run(by_the_worker(broker, found[-1])) == found
    assert list(log.read_ranges({(topic, 0): (0, found[-1].offset + 1)})) == found
    log.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_products_commands_go_on_behind_such_batches(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    site = Site(broker, topics_made(partitions=1), tmp_path)
    wire = site.topics.wire("oom-events")
    readers = sum("oom-events" in stage.reads for stage in stages(Settings()))
    each = readers * sum(len(values) for _, _, values in CASES.values())  # no record of these has a type
    try:
        for times, worker in enumerate(("one", "again"), 1):
            for name in CASES:
                assert produce(broker, wire, 0, raw(name)) == 0, name
            site.start(worker)
            site.commands.wait(partial(put_aside, site, each * times), 90, "all of it is set aside")
            assert put_aside(site, each * times)
            site.commands.kill(worker)
        for words in (["tap", "oom-events"], ["replay", "--verify"], ["status"]):
            site.commands.start(words[0], *words)
            assert site.commands.running[words[0]].wait(60) == 0, site.commands.said(words[0])
        assert "is left out from" in site.commands.said("tap")
    finally:
        site.close()


def put_aside(site: Site, letters: int) -> bool:
    """Whether there are so many dead letters and no other, one tick later; a restart may repeat some under their ids."""
    site.tick()
    return len({header(record, "ce_id") for record in site.letters()}) == letters
