"""Record batches taken apart in one pass say what the client says of them, and leave out the records of one key."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

import streams.log.kafka_reader  # noqa: F401  # its import gives the client the bound
from streams.log import bounded_decompression, record_batches, record_format
from streams.log.log_port import Record
from streams.log.record_batches import FetchedRecords
from tests.support import raw_batches

TP = TopicPartition("t", 0)
Raw = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
SMALL = st.binary(max_size=300)
RECORDS: st.SearchStrategy[list[Raw]] = st.lists(
    st.tuples(
        st.none() | st.sampled_from([b"tick", b"k"]) | SMALL,
        st.none() | SMALL,
        st.lists(st.tuples(st.sampled_from(["ce_type", "cause"]) | st.text(max_size=80), st.none() | SMALL), max_size=4),
    ),
    min_size=1,
    max_size=8,
)


Client: Any = Fetcher.PartitionRecords


def batch(records: Sequence[Raw], offset: int, codec: int) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20, offset=offset)
    for number, (key, value, headers) in enumerate(records):
        builder.append(timestamp=1_000 + number, key=key, value=value, headers=headers)
    builder.close()
    return bytes(builder.buffer())


def read(kind: Any, fetched: bytes, start: int = 0) -> tuple[list[Record], int]:
    """The records, and where the next fetch begins."""
    found = kind(start, TP, record_batches.guarded(MemoryRecords)(fetched))
    taken = found.take(None)
    records = [
        Record(TP.topic, TP.partition, r.offset, r.key, r.value, tuple((n, v or b"") for n, v in r.headers), _time(r))
        for r in taken
    ]
    return records, found.next_fetch_offset


def _time(record: Any) -> int:
    at = record.timestamp_ms if isinstance(record, Record) else record.timestamp
    return int(at)


@given(batches=st.lists(st.tuples(RECORDS, st.integers(0, 4)), min_size=1, max_size=5), start=st.integers(0, 12))
def test_it_reads_what_the_client_reads(batches: list[tuple[list[Raw], int]], start: int) -> None:
    fetched, offset = b"", 0
    for records, codec in batches:
        fetched += batch(records, offset, codec)
        offset += len(records)
    theirs, after = read(Fetcher.PartitionRecords, fetched, start)
    ours, behind = read(FetchedRecords, fetched, start)
    assert ours == theirs
    assert behind == after == offset


LOGS = st.lists(
    st.tuples(
        st.sampled_from([b"tick", b"tick", b"k"]),
        st.integers(0, 3),  # records in the batch: compaction keeps the last batch of a producer without any
        st.integers(0, 2),  # offsets behind its last record that compaction took
        st.integers(0, 2),  # offsets between it and the batch before it
        st.booleans(),  # a new leader wrote it
        st.sampled_from([0, 0, 0, 0x10, 0x30]),  # plain, or of a transaction: records, or the end of it
    ),
    min_size=1,
    max_size=30,
)


@given(batches=LOGS, start=st.integers(0, 20), most=st.integers(1, 4))
def test_after_each_step_its_place_is_the_clients_own_offset_and_leader_epoch(
    batches: list[tuple[bytes, int, int, int, bool, int]], start: int, most: int
) -> None:
    fetched, places = log_of(batches)
    theirs, ours = (kind(start, TP, record_batches.guarded(MemoryRecords)(fetched)) for kind in (Client, FetchedRecords))
    whole = {theirs.next_fetch_offset: theirs.leader_epoch}
    while theirs and (records := theirs.take(1)):
        whole |= {theirs.next_fetch_offset: records[-1].leader_epoch}
    whole |= places  # after a batch that gave no record
    while ours:
        ours.take(most)
        assert (ours.next_fetch_offset, ours.leader_epoch) in whole.items()
    assert (ours.next_fetch_offset, ours.leader_epoch) == (theirs.next_fetch_offset, theirs.leader_epoch)
    assert ours.bytes_read == len(fetched)


def log_of(batches: Sequence[tuple[bytes, int, int, int, bool, int]]) -> tuple[bytes, dict[int, int]]:
    """Fetched bytes, and the offset after each batch with its epoch."""
    fetched, offset, epoch, places = b"", 0, 0, {}
    for key, count, taken, gap, elected, attributes in batches:
        offset, epoch = offset + gap, epoch + elected
        records = 1 if attributes & record_format.CONTROL else count
        content = b"".join(raw_batches.record(n, key, b"v") for n in range(records))
        last = max(0, records + taken - 1)
        fetched += raw_batches.batch(content, attributes, records, base=offset, last=last, epoch=epoch)
        offset += last + 1
        places[offset] = epoch
    return fetched, places


@given(
    batches=st.lists(st.tuples(RECORDS, st.integers(0, 4)), min_size=1, max_size=5),
    start=st.integers(0, 12),
    wanted=st.sampled_from([b"ti", b"\0", b"k"]) | st.binary(min_size=1, max_size=3),
)
def test_of_records_that_hold_certain_bytes_none_is_left_out(
    batches: list[tuple[list[Raw], int]], start: int, wanted: bytes
) -> None:
    fetched, offset = b"", 0
    for records, codec in batches:
        fetched += batch(records, offset, codec)
        offset += len(records)
    theirs, after = read(Fetcher.PartitionRecords, fetched, start)
    ours, behind = read(type("Some", (FetchedRecords,), {"containing": wanted}), fetched, start)
    assert [each for each in ours if wanted in (each.value or b"")] == [r for r in theirs if wanted in (r.value or b"")]
    assert set(ours) <= set(theirs)
    assert behind == after == offset


def test_nothing_is_made_of_records_that_do_not_hold_the_bytes() -> None:
    fetched = batch([(b"k", b"v%d" % n, []) for n in range(50)], 0, 0)
    found, _ = read(type("Some", (FetchedRecords,), {"containing": b"v7"}), fetched)
    assert [record.value for record in found] == [b"v7"]


def test_a_batch_that_was_changed_on_its_way_is_refused() -> None:
    fetched = bytearray(batch([(b"k", b"value", [])], 0, 0))
    fetched[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="the batch at offset 0 of t:0 is not as it was written"):
        read(FetchedRecords, bytes(fetched))


def test_a_batch_over_the_bound_has_the_same_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = batch([(b"k", bytes(100_000), [])], 0, 1)
    monkeypatch.setattr(bounded_decompression, "MOST_BYTES", 1_000)
    theirs, _ = read(Fetcher.PartitionRecords, fetched)
    ours, _ = read(FetchedRecords, fetched)
    assert ours == theirs
    assert ours[0].value is None


def test_a_header_whose_name_is_no_text_is_read_as_the_client_reads_it() -> None:
    good = batch([(b"k", b"v", [("naam", b"x")])], 0, 0)
    bad = bytearray(good)
    bad[bad.index(b"naam")] = 0xFF
    bad[17:21] = calc_crc32c(memoryview(bad)[21:]).to_bytes(4)
    ours, _ = read(FetchedRecords, bytes(bad))
    theirs, _ = read(Fetcher.PartitionRecords, bytes(bad))
    assert ours == theirs
    assert ours[0].headers[0][1] == b"x"


def test_headers_that_are_alike_are_one_object_and_invented_values_are_not_kept() -> None:
    """A turn of 45,000 records held 4.3 million objects for their headers."""
    headers: list[tuple[str, bytes | None]] = [("ce_type", b"a.v1"), ("ce_id", b"x"), ("ce_source", b"/s"), ("mine", b"y")]
    first, second = (record_format.records(batch([(None, b"v", headers)], 0, 0)) for _ in range(2))
    pairs = list(zip(next(first).headers, next(second).headers, strict=True))
    assert [name for (name, _), _ in pairs] == ["ce_type", "ce_id", "ce_source", "mine"]
    assert [mine is yours for mine, yours in pairs] == [True, False, True, False]
    kept = record_format._NAMES[b"ce_source"][1]
    invented = [(None, b"v", [("ce_source", b"%d" % number), ("ce_source", b"long" * 26)]) for number in range(2_500)]
    assert [r.headers[0][1] for r in record_format.records(batch(invented, 0, 0))] == [b"%d" % n for n in range(2_500)]
    assert kept is not None
    assert len(kept) <= 1_000
    assert max(map(len, kept)) <= 100
