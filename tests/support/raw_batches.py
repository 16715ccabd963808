"""Record batches byte by byte, well made or not, and a way to send them to a broker as they are."""

import gzip
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence

import lz4.frame
import snappy
import zstandard
from kafka.record.util import calc_crc32c

NOW = 1_700_000_000_000
_NOT_YET = (3, 6)
"""The topic is not there yet, or nobody leads the partition."""
Header = tuple[bytes, bytes | None]


def xerial(data: bytes, block: int = 32_768) -> bytes:
    """As snappy's Java library writes it: a header, and blocks with their sizes."""
    blocks = [snappy.compress(data[at : at + block]) for at in range(0, len(data), block)]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(each)) + each for each in blocks)


def lz4_frame(data: bytes) -> bytes:
    """With blocks that can be unpacked alone, as Kafka wants them."""
    return bytes(lz4.frame.compress(data, block_linked=False))


def checked_lz4(data: bytes) -> bytes:
    """With every size and checksum that LZ4 knows."""
    return bytes(lz4.frame.compress(data, content_checksum=True, block_checksum=True, store_size=True, block_linked=False))


PACKERS: Mapping[str, tuple[int, Callable[[bytes], bytes]]] = {
    "plain": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, snappy.compress),
    "xerial": (2, xerial),
    "lz4": (3, lz4_frame),
    "lz4 with checksums": (3, checked_lz4),
    "zstd": (4, zstandard.compress),
}
"""Name to the codec's number in a batch's attributes and what packs for it."""


def varint(number: int) -> bytes:
    """In zigzag, seven bits a byte, the lowest first."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    place: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = (), *, attributes: int = 0, size_lie: int = 0
) -> bytes:
    """One record; `place` is its offset after the batch's, and `size_lie` what its size is wrong by."""
    named = b"".join(sized(name) + sized(text) for name, text in headers)
    body = bytes([attributes]) + varint(place) * 2 + sized(key) + sized(value) + varint(len(headers)) + named
    return varint(len(body) + size_lie) + body


def batch(
    packed: bytes,
    codec: int,
    count: int,
    *,
    base: int = 0,
    last: int | None = None,
    at: int = NOW,
    version: int = 2,
    epoch: int = -1,
) -> bytes:
    """A batch of this content, with the right checksum. `last` is the last offset's delta, by default that of `count`.

    `codec` are its attributes, of which the lowest bits name the codec; `epoch` is that of the leader who wrote it.
    """
    delta = count - 1 if last is None else last
    summed = struct.pack(">hiqqqhii", codec, delta, at, at + max(0, delta), -1, -1, -1, count) + packed
    return struct.pack(">qiibI", base, len(summed) + 9, epoch, version, calc_crc32c(summed)) + summed


def produce(address: str, topic: str, partition: int, raw: bytes) -> int:
    """Send a batch to a broker as it is; returns Kafka's error code, 0 for taken, -1 if it hangs up."""
    until = time.monotonic() + 60
    while (code := _produce(address, topic, partition, raw)) in _NOT_YET and time.monotonic() < until:
        time.sleep(0.2)
    return code


def _produce(address: str, topic: str, partition: int, raw: bytes) -> int:
    """One ProduceRequest, of version 7."""

    def text(name: str) -> bytes:
        return struct.pack(">h", len(name)) + name.encode()

    head = struct.pack(">hhi", 0, 7, 1) + text("raw")
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + text(topic) + struct.pack(">iii", 1, partition, len(raw)) + raw
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(head + body)) + head + body)
        answer = connection.makefile("rb")
        try:
            told = answer.read(int.from_bytes(answer.read(4)))
        except ConnectionResetError:
            told = b""
    if not told:
        return -1
    code: int = struct.unpack_from(">h", told, 4 + 4 + 2 + len(topic) + 4 + 4)[0]
    return code
