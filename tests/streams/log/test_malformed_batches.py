"""Batches of any bytes: every reader of a log goes on behind them, and all readers find the same in them."""

import gzip
import random
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka.consumer.fetcher
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.memory_records import MemoryRecords

import agents.app.kafka_client_options  # noqa: F401  # its import gives the client our reading
from agents.engine.turn_aligner import Input
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log import record_batches
from streams.log.bounded_decompression import MOST_PIECES
from streams.log.log_port import LEFT_OUT, LEFT_OUT_TO, Record
from streams.log.record_batches import FetchedRecords
from streams.log.record_format import MOST_HEADERS, MOST_HEADERS_IN_ALL, MOST_RECORDS
from streams.topics import Topics
from tests.support.raw_batches import PACKERS, batch, checked_lz4, record, varint, xerial

TP = TopicPartition("t", 0)
CODEC = Codec(Topics())
BASE = 100
Read = tuple[list[Record], int]


def by_kafka_python(fetched: bytes, kind: Any = Fetcher.PartitionRecords) -> Read:
    found = kind(BASE, TP, record_batches.guarded(MemoryRecords)(fetched))
    taken = [_record(each) for each in found.take(None)]
    return taken, found.next_fetch_offset


def by_range(fetched: bytes) -> Read:
    return by_kafka_python(fetched, FetchedRecords)


def by_aiokafka(fetched: bytes) -> Read:
    module = aiokafka.consumer.fetcher
    none = {"aborted_transactions": None, "key_deserializer": None, "value_deserializer": None}
    ways = {"fetch_offset": BASE, "check_crcs": True, "isolation_level": module.READ_UNCOMMITTED}
    found = module.PartitionRecords(TP, module.MemoryRecords(fetched), **none, **ways)
    taken = [_record(each) for each in found]
    return taken, found.next_fetch_offset


def _record(raw: Any) -> Record:
    at = raw.timestamp_ms if isinstance(raw, Record) else raw.timestamp
    return Record(raw.topic, raw.partition, raw.offset, raw.key, raw.value, tuple(raw.headers), at)


FIRST = record(0, b"k", b"v0")
READERS: tuple[Callable[[bytes], Read], ...] = (by_kafka_python, by_aiokafka, by_range)


def content(count: int = 3) -> bytes:
    return b"".join(record(n, b"k", b"v%d" % n, [(b"cause", b"c"), (b"x", None)]) for n in range(count))


def left_out(found: Record) -> str:
    """What a stand-in says."""
    return "".join(value.decode() for name, value in found.headers if name == LEFT_OUT)


def values(packed: bytes, codec: int, count: int = 3, **more: int) -> list[bytes | str | None]:
    """The values of the records that all readers find, and what a stand-in says in place of one. What follows is found too."""
    behind = batch(record(0, b"k", b"behind"), 0, 1, base=BASE + 10)
    fetched = batch(packed, codec, count, base=BASE, **more) + behind
    (records, after), *others = (read(fetched) for read in READERS)
    assert all(other == (records, after) for other in others)
    assert after == BASE + 11
    assert records[-1].value == b"behind"
    return [left_out(each) or each.value for each in records[:-1]]


GOOD: list[bytes | str | None] = [b"v0", b"v1", b"v2"]
ALL = "the batch of offsets 100 to 102 "
PACKED = ("", "gzip", "snappy", "lz4", "zstd")
CANNOT = ALL + "says that it is packed with {}, and cannot be unpacked"


@pytest.mark.parametrize("name", PACKERS)
def test_a_good_batch_is_read_by_all(name: str) -> None:
    codec, pack = PACKERS[name]
    assert values(pack(content()), codec) == GOOD


@pytest.mark.parametrize("tail", [b"garbage", bytes(1), bytes(16), b"\x1f\x8b", b"\x1f\x8b\x08", gzip.compress(b"", mtime=0)])
def test_what_stands_behind_a_member_of_gzip_is_nothing(tail: bytes) -> None:
    assert values(gzip.compress(content()) + tail, 1) == GOOD


def test_every_field_that_a_header_of_gzip_may_have_is_passed_over() -> None:
    plain = gzip.compress(content())
    fields = b"\x04\0abcd" + b"name\0" + b"comment\0"
    assert values(plain[:3] + b"\x1c" + plain[4:10] + fields + plain[10:], 1) == GOOD


def test_members_of_gzip_follow_each_other() -> None:
    whole = content()
    assert values(b"".join(gzip.compress(whole[at : at + 5]) for at in range(0, len(whole), 5)), 1) == GOOD
    assert values(gzip.compress(whole) + gzip.compress(bytes(9))[:-1] + b"x", 1) == [CANNOT.format("gzip")]


def test_what_stands_behind_a_frame_of_lz4_is_nothing_and_neither_is_what_it_says_of_the_whole() -> None:
    good = checked_lz4(content())
    assert values(good + b"garbage", 3) == GOOD
    assert values(good[:-1] + bytes([good[-1] ^ 1]), 3) == GOOD  # the checksum of the content
    assert values(good[:6] + b"\xff" * 4 + good[10:], 3) == GOOD  # its size


def test_what_stands_behind_blocks_of_snappy_counts_from_four_bytes_on() -> None:
    good = xerial(content(), 16)
    assert values(good + b"xyz", 2) == GOOD
    assert values(good + good[:16], 2) == GOOD
    assert values(good + b"garbage", 2) == [CANNOT.format("snappy")]


BAD = {
    "nothing": b"",
    "zeros": bytes(40),
    "another format": b"SNAPPY, no, rather something else",
    "all ones": b"\xff" * 40,
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", [name for name, (codec, _) in PACKERS.items() if codec])
def test_what_is_not_packed_as_it_says_is_set_aside(name: str, bad: str) -> None:
    codec, _ = PACKERS[name]
    (found,) = values(BAD[bad], codec)
    assert str(found).startswith(ALL)


@pytest.mark.parametrize("name", ["gzip", "snappy", "xerial", "lz4", "lz4 with checksums"])
def test_what_breaks_off_is_set_aside(name: str) -> None:
    codec, pack = PACKERS[name]
    packed = pack(content())
    for size in range(len(packed) - 4):
        (found,) = values(packed[:size], codec)
        between = name == "xerial" and 16 <= size < 20  # before the first block there is nothing
        assert found == (f"{ALL}ends within a record" if between else CANNOT.format(PACKED[codec]))


def test_zstd_that_goes_on_with_anything_else_or_asks_for_too_much_memory_is_set_aside() -> None:
    good = zstandard.compress(content())
    wide = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=31)).compressobj()
    trained = zstandard.ZstdCompressor(dict_data=zstandard.ZstdCompressionDict(content() * 100)).compress(content())
    assert values(zstandard.compress(b"") + good, 4) == GOOD
    for bad in (good + b"garbage", good + bytes(16), wide.compress(content()) + wide.flush(), trained[:5] + b"\7" + trained[5:]):
        assert values(bad, 4) == [CANNOT.format("zstd")]


def test_a_codec_without_a_name_and_an_old_format_are_set_aside() -> None:
    for codec in (5, 6, 7):
        assert values(content(), codec) == [f"{ALL}is packed in a way that has no name: {codec}"]


def test_more_pieces_than_anybody_writes_are_set_aside() -> None:
    (found,) = values(gzip.compress(b"") * MOST_PIECES + gzip.compress(content()), 1)
    assert found == f"{ALL}has more than {MOST_PIECES} members of gzip"
    (found,) = values(xerial(b"") + b"\0\0\0\1\0" * MOST_PIECES, 2)
    assert found == f"{ALL}has more than {MOST_PIECES} blocks of snappy"
    whole = content()
    assert values(gzip.compress(b"") * (MOST_PIECES - 1) + gzip.compress(whole), 1) == GOOD


def test_a_count_that_is_too_small_ends_the_reading_and_one_that_is_too_large_leaves_a_stand_in() -> None:
    assert values(content(3), 0, count=2) == [b"v0", b"v1"]
    ends = "the batch of offsets 100 to 103 ends within a record, and is left out from 103 on"
    assert values(content(3), 0, count=4) == [*GOOD, ends]
    assert values(b"", 0, count=1) == ["the batch of offsets 100 to 100 ends within a record"]
    assert values(content(3), 0, count=-1, last=2) == []
    (found,) = values(record(0, None, None) * (MOST_RECORDS + 1), 0, count=MOST_RECORDS + 1, last=2)
    assert found == f"{ALL}has more than {MOST_RECORDS} records"


def test_more_headers_than_anybody_writes_are_set_aside() -> None:
    full, per = MOST_HEADERS_IN_ALL // MOST_HEADERS, [(b"", b"")] * MOST_HEADERS
    inside = b"".join(record(n, b"k", b"v", per) for n in range(full + 2))
    (found, _) = by_aiokafka(batch(inside, 0, full + 2, base=BASE))
    assert [left_out(each) for each in found[:-1]] == [""] * full
    assert left_out(found[-1]).endswith(f"has more than {MOST_HEADERS_IN_ALL} headers, and is left out from {BASE + full} on")


LONG_NUMBER = b"\x80" * 5 + b"\0"
SIZE, OFFSET = "has a record of another size than it says", "has offsets that are not its own"
HEADERS = "has a record with more than 1000 headers"
RECORDS = {
    "a size that is too small": (record(1, b"k", b"v", size_lie=-1), SIZE),
    "a size that is too large": (record(1, b"k", b"v", size_lie=1), SIZE),
    "a negative size": (varint(-7) + b"\0\2\2\1\1\0", SIZE),
    "a size of six bytes": (LONG_NUMBER + bytes(9), "has a number of more than 5 bytes"),
    "an offset of before": (record(-1, b"k", b"v"), OFFSET),
    "an offset twice": (record(0, b"k", b"v"), OFFSET),
    "an offset beyond the batch": (record(3, b"k", b"v"), OFFSET),
    "a header without a name": (varint(8) + b"\0\2\2\1\1\2\1\1", "has a header without a name"),
    "fewer headers than none": (varint(6) + b"\0\2\2\1\1\1", HEADERS),
    "more headers than its size": (varint(6) + b"\0\2\2\1\1\2", "ends within a record"),
    "more headers than are read": (record(1, b"k", b"v", [(b"", b"")] * (MOST_HEADERS + 1)), HEADERS),
}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("case", RECORDS)
def test_a_record_that_cannot_be_is_set_aside_with_what_follows_and_those_before_it_are_read(case: str, packer: str) -> None:
    (bad, why), (codec, pack) = RECORDS[case], PACKERS[packer]
    first, found, *rest = values(pack(record(0, b"k", b"v0") + bad + record(2, b"k", b"v2")), codec)
    assert (first, rest) == (b"v0", [])
    assert str(found).startswith(f"{ALL}{why}")
    assert str(found).endswith(", and is left out from 101 on")


@pytest.mark.parametrize("size", [5, 1 << 20, (1 << 31) - 1, (1 << 63) - 40])
@pytest.mark.parametrize("field", ["key", "value", "name", "text"])
def test_a_size_beyond_the_end_is_set_aside(field: str, size: int) -> None:
    before = {"key": b"", "value": b"\1", "name": b"\1\1\2", "text": b"\1\1\2\0"}[field]
    body = b"\0\0\0" + before + varint(size)
    (found,) = values(varint(len(body) + 4) + body + bytes(4), 0, count=1, last=2)
    assert str(found).startswith(ALL)


def test_the_last_header_ends_where_the_batch_ends() -> None:
    whole = record(0, b"k", b"v", [(b"cause", b"12345")])
    (found,) = values(whole[:-2], 0, count=1, last=2)
    assert found == f"{ALL}ends within a record"


def test_headers_count_for_the_memory_that_a_record_needs() -> None:
    assert Record("t", 0, 0, b"k", b"v", (("name", bytes(1_000)),)).size == Record("t", 0, 0, b"k", b"v").size + 1_004 + 150


def test_attributes_of_a_record_mean_nothing_and_an_empty_header_is_read() -> None:
    odd = record(0, b"k", b"v", [(b"ce_type", None), (b"\xff", b"x")], attributes=0x81)
    for read in READERS:
        (found,), _ = read(batch(odd, 0, 1, base=BASE))
        assert found.headers == (("ce_type", b""), ("\ufffd", b"x"))
        with pytest.raises(BadRecord):
            CODEC.decode(Record("ullage.policies.v1", 0, 0, found.key, found.value, found.headers))


@pytest.mark.parametrize("at", [-1, -2, 0, -(1 << 63), (1 << 63) - 1])
def test_any_time_is_read_as_it_is(at: int) -> None:
    for read in READERS:
        (found,), _ = read(batch(record(0, b"k", b"v"), 0, 1, base=BASE, at=min(at, (1 << 63) - 1)))
        assert found.timestamp_ms == at
    for read in READERS:
        found = read(batch(record(0, b"k", b"v0") + record(1, b"k", b"v1"), 0, 2, base=BASE, at=(1 << 63) - 1, last=0))[0][0]
        assert -(1 << 63) <= found.timestamp_ms < 1 << 63


def test_a_stand_in_says_how_far_it_reaches_and_no_record_of_others_says_so() -> None:
    for read in READERS:
        found = read(batch(FIRST + record(7, b"k", b"v"), 0, 5, base=BASE))[0]
        assert [(each.offset, each.last_offset) for each in found] == [(BASE, BASE), (BASE + 1, BASE + 4)]
        (forged,), _ = read(
            batch(record(0, None, None, [(LEFT_OUT.encode(), b"x"), (LEFT_OUT_TO.encode(), b"999")]), 0, 1, base=BASE)
        )
        assert (forged.offset, forged.last_offset, left_out(forged)) == (BASE, BASE, "")


def test_an_input_goes_on_behind_what_a_stand_in_stands_for() -> None:
    (found,), _ = by_aiokafka(batch(b"", 0, 5, base=BASE))
    source: Input[Record] = Input(BASE)
    source.add(found.offset, found, found.size, last=found.last_offset)
    assert source.next == BASE + 5


def test_a_batch_of_before_headers_is_set_aside() -> None:
    old = batch(content(), 0, 3, base=BASE, version=1)
    (found,), after = by_range(old)
    assert left_out(found) == "the batch at offset 100 has the format of before Kafka 0.11, which knows no headers"
    assert after == BASE + 1


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The same with up to three changes, most of them near the beginning or the end."""
    changed = bytearray(data)
    for _ in range(chance.randint(0, 3)):
        at = chance.choice([chance.randrange(len(changed) + 1), chance.randrange(min(24, len(changed) + 1)), len(changed)])
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at:at] = chance.randbytes(chance.randint(1, 20))
        elif kind == 3:
            changed[at:at] = bytes(chance.randint(1, 20))
        elif kind == 4:
            changed[at : at + 4] = chance.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4, b"\x80" * 11, varint(1 << 62)])
        else:
            changed += data[: chance.randrange(len(data) + 1)]
    return bytes(changed)


def batches(chance: random.Random) -> Iterator[bytes]:
    base = BASE
    for _ in range(chance.randint(1, 4)):
        count = chance.randint(1, 5)
        inside = b"".join(
            record(n, chance.choice([None, b"tick", b"k"]), chance.choice([None, b"v", bytes(3_000)]), [(b"cause", b"c")])
            for n in range(count)
        )
        codec, pack = chance.choice(list(PACKERS.values()))
        inside = mutated(inside, chance) if chance.random() < 0.5 else inside
        packed = mutated(pack(inside), chance) if chance.random() < 0.5 else pack(inside)
        told = count + chance.choice([0, 0, 0, -1, 1, 1 << 20])
        yield batch(packed, codec, told, base=base, last=count - 1)
        base += count


@given(seed=st.integers(0, 1 << 64))
def test_no_batch_ends_a_reader_and_all_readers_find_the_same(seed: int) -> None:
    fetched = b"".join(batches(random.Random(seed)))
    (records, after), other = by_kafka_python(fetched), by_aiokafka(fetched)
    assert (records, after) == other
    others, behind = by_range(fetched)
    assert (others, behind) == (records, after)
    some, behind = by_kafka_python(fetched, type("Some", (FetchedRecords,), {"containing": b"v"}))
    assert {each for each in records if b"v" in (each.value or b"")} <= set(some)
    assert behind == after
    offsets = [each.offset for each in records]
    assert after > BASE
    assert offsets == sorted(set(offsets))
    assert all(BASE <= offset < after for offset in offsets)
    for found in records:
        if left_out(found):
            assert (found.key, found.value) == (None, None)
            with pytest.raises(BadRecord, match="the batch of offsets"):
                CODEC.decode(Record("ullage.policies.v1", 0, 0, found.key, found.value, found.headers))
