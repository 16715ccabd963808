"""Batches that become too large when they are unpacked: every codec stops at the bound, and a stand-in takes their place."""

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kafka.consumer import fetcher
from kafka.record.memory_records import MemoryRecordsBuilder

import agents.app.kafka_client_options
import streams.log.kafka_reader  # noqa: F401  # its import puts the guard in place, as does the line above
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log import bounded_decompression
from streams.log.bounded_decompression import MOST_BYTES, UnpacksTooLarge
from streams.log.log_port import LEFT_OUT, LEFT_OUT_TO, Record
from streams.topics import Topics


def xerial(data: bytes) -> bytes:
    """As snappy's Java library writes it: a header, and blocks of 32 KiB with their sizes."""
    blocks = [snappy.compress(data[at : at + 32_768]) for at in range(0, len(data), 32_768)]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(each)) + each for each in blocks)


def members(data: bytes) -> bytes:
    return gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])


def frames(data: bytes) -> bytes:
    """Three frames, of which only the second says its size."""
    third = len(data) // 3
    parts = data[:third], data[third : 2 * third], data[2 * third :]
    return b"".join(zstandard.ZstdCompressor(write_content_size=n == 1).compress(part) for n, part in enumerate(parts))


Codecs = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]
CODECS: dict[str, Codecs] = {
    "gzip": (gzip.compress, bounded_decompression.gunzip),
    "gzip of two members": (members, bounded_decompression.gunzip),
    "snappy": (snappy.compress, bounded_decompression.unsnappy),
    "snappy of blocks": (xerial, bounded_decompression.unsnappy),
    "lz4": (lz4.frame.compress, bounded_decompression.unlz4),
    "zstd": (zstandard.compress, bounded_decompression.unzstd),
    "zstd of frames without sizes": (frames, bounded_decompression.unzstd),
    "zstd of frames": (lambda data: zstandard.compress(data[:9]) + frames(data[9:]), bounded_decompression.unzstd),
}


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=100_000))
def test_what_was_packed_comes_out(name: str, data: bytes) -> None:
    pack, unpack = CODECS[name]
    assert unpack(pack(data)) == data


@pytest.mark.parametrize("name", CODECS)
def test_the_bound_holds_to_the_byte_and_memory_stays_near_it(name: str) -> None:
    pack, unpack = CODECS[name]
    assert len(unpack(pack(bytes(MOST_BYTES)))) == MOST_BYTES
    over, far = pack(bytes(MOST_BYTES + 1)), pack(bytes(8 * MOST_BYTES))
    tracemalloc.start()
    for bomb in (over, far):
        with pytest.raises(UnpacksTooLarge):
            unpack(bomb)
    assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    tracemalloc.stop()


@pytest.mark.parametrize("first", [b"", b"abc"])
@given(data=st.binary(min_size=1, max_size=5_000), cut=st.integers(1, 40))
def test_of_frames_that_are_cut_off_as_much_is_read_as_of_one_read(first: bytes, data: bytes, cut: int) -> None:
    payload = (zstandard.compress(first) + zstandard.compress(data))[:-cut]
    with zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True) as reader:
        assert bounded_decompression.unzstd(payload) == reader.read(MOST_BYTES + 1)


def test_snappy_is_refused_by_the_size_that_it_claims() -> None:
    with pytest.raises(UnpacksTooLarge):
        bounded_decompression.unsnappy(b"\xff\xff\xff\xff\x0f" + b"a")


def batch(compression: int, *values: bytes, first: int = 100) -> bytes:
    """A record batch as a broker hands it out, at offset `first`."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 30)
    for value in values:
        builder.append(timestamp=1_700_000_000_000, key=None, value=value)
    builder.close()
    written = bytearray(builder.buffer())
    written[:8] = struct.pack(">q", first)
    return bytes(written)


GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


@pytest.mark.parametrize("compression", [GZIP, SNAPPY, LZ4, ZSTD])
def test_in_both_clients_a_stand_in_takes_the_place_of_a_batch_that_is_too_large_and_the_next_is_read(compression: int) -> None:
    fetched = batch(compression, bytes(MOST_BYTES), b"x") + batch(compression, b"small", first=102)
    for module in (fetcher, agents.app.kafka_client_options.aiokafka.consumer.fetcher):
        records, found = module.MemoryRecords(fetched), []
        while records.has_next():
            found += [(each.offset, each.value, list(each.headers)) for each in records.next_batch()]
        sentence = f"the batch of offsets 100 to 101 has more than {MOST_BYTES} bytes unpacked".encode()
        assert found == [(100, None, [(LEFT_OUT, sentence), (LEFT_OUT_TO, b"101")]), (102, b"small", [])]


def test_a_stand_in_is_a_bad_record_that_says_what_was_left_out() -> None:
    record = Record("ullage.policies.v1", 0, 100, None, None, ((LEFT_OUT, b"the batch of offsets 100 to 101 was"),))
    with pytest.raises(BadRecord, match="the batch of offsets 100 to 101 was"):
        Codec(Topics()).decode(record)
