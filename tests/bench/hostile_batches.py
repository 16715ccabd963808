"""`python -m tests.bench.hostile_batches`: what one record batch may cost its reader, in CPU seconds.

Each is as large as a topic takes, and is read as a worker reads it, to its last record or to what stands for the rest.
"""

import gzip
import sys
import time
from collections.abc import Callable, Mapping

import aiokafka.consumer.fetcher
import lz4.frame
import zstandard

import agents.app.kafka_client_options  # noqa: F401  # its import gives the client our reading
from streams.log.bounded_decompression import MOST_BYTES, MOST_PIECES
from streams.log.log_port import MAX_RECORD_BYTES
from streams.log.record_format import MOST_HEADERS, MOST_RECORDS
from tests.support.raw_batches import batch, record, varint, xerial

Put = Callable[[str, float, str, str], None]
Case = tuple[int, int, Callable[[int], bytes]]
"""A codec, the records that the batch says it has, and its content of about so many bytes."""


def _repeated(piece: bytes) -> Callable[[int], bytes]:
    return lambda size: piece * (size // len(piece))


def _in_members(size: int) -> bytes:
    """As many members as are read, of which each unpacks to its share of the bound."""
    member = gzip.compress(bytes(MOST_BYTES // MOST_PIECES), mtime=0)
    return member * min(MOST_PIECES, size // len(member))


def _stored(size: int) -> bytes:
    """One member of blocks that hold nothing."""
    return gzip.compress(b"", mtime=0)[:10] + b"\0\0\0\xff\xff" * (size // 5) + b"\3\0" + bytes(8)


def _blocks_of_lz4(size: int) -> bytes:
    """Blocks of one byte each."""
    return bytes(lz4.frame.compress(b"", block_linked=False, store_size=False))[:7] + b"\1\0\0\x80a" * (size // 5) + bytes(4)


def _many(headers: int, of: int) -> Callable[[int], bytes]:
    """So many records with so many headers each, packed."""
    return lambda _: gzip.compress(b"".join(record(n, None, None, [(b"", b"")] * headers) for n in range(of)), 1)


SHORT, WIDE = MOST_BYTES // 10, MOST_BYTES // (2 * MOST_HEADERS + 20)
HEADERS = varint(6 + MOST_BYTES - 100) + b"\0\0\0\1\1" + varint(MOST_BYTES // 2 - 100) + bytes(MOST_BYTES - 200)
CASES: Mapping[str, Case] = {
    "members of gzip, as many as are read": (1, 1, _in_members),
    "members of gzip, as many as a batch holds": (1, 1, _repeated(gzip.compress(b"a", mtime=0))),
    "empty blocks in a member of gzip": (1, 1, _stored),
    "blocks of xerial's snappy": (2, 1, lambda size: xerial(b"") + b"\0\0\0\1\0" * (size // 5)),
    "blocks of lz4": (3, 1, _blocks_of_lz4),
    "frames of zstd": (4, 1, _repeated(zstandard.compress(b"a"))),
    "records, as many as are read": (1, MOST_RECORDS, _many(0, MOST_RECORDS)),
    "records, as many as a batch holds": (1, SHORT, _many(0, SHORT)),
    "records with as many headers as are read": (1, WIDE, _many(MOST_HEADERS, WIDE)),
    "one record of eight million headers": (1, 1, lambda _: gzip.compress(HEADERS, 1)),
}


def measure(put: Put, size: int = MAX_RECORD_BYTES - 1_000) -> None:
    """A row for each."""
    module = aiokafka.consumer.fetcher
    for label, (codec, count, content) in CASES.items():
        fetched = batch(content(size), codec, count)
        began = time.process_time()
        for record_batch in iter(module.MemoryRecords(fetched).next_batch, None):
            list(record_batch)
        put(f"a batch of {label}, to read", time.process_time() - began, "s", "<= 1")


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<75} {value:>8,.3f} {unit:<3} {goal}\n")
        sys.stdout.flush()

    measure(show)
