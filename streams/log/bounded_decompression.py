"""Unpacks the content of a record batch, whatever its bytes are, within a bound.

A topic's max.message.bytes bounds what is sent, and gzip makes 700 MB of 700 kB. So each codec stops at `MOST_BYTES`, or at
`MOST_PIECES` where a piece costs more than its bytes. It reads what Kafka's own Java client reads, such as gzip with trailing
bytes; anything else raises `NotReadable`, whose text does not depend on a library's version.
"""

import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress

import lz4.frame  # type: ignore[import-untyped]  # it ships no types
import snappy  # type: ignore[import-untyped]  # it ships no types
import zstandard

MOST_BYTES = 16 << 20  # twice the largest record that the topics take; what our own programs write as one batch stays below it
MOST_PIECES = 1 << 14  # members of gzip, blocks of xerial's Snappy: Java writes one member, and blocks of 1 KiB or more

_GZIP, _DEFLATE, _GZIP_HEADER, _GZIP_TRAILER = b"\x1f\x8b", 8, 10, 8
_HEADER_SUM, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_FIRST_SLICE, _LARGEST_SLICE = 512, 1 << 20
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16
_LZ4, _LZ4_VERSION, _LZ4_LARGEST_ID = b"\x04\x22\x4d\x18", 0x40, (4, 5, 6, 7)
_ALONE, _BLOCK_SUM, _CONTENT_SIZE, _RESERVED = 0x20, 0x10, 0x08, 0x03


class NotReadable(Exception):  # named for what it does
    """Why a batch cannot be read, as the rest of a sentence that begins with the batch."""


class UnpacksTooLarge(NotReadable):
    """A batch has more than `MOST_BYTES` when it is unpacked."""

    def __init__(self) -> None:
        super().__init__(f"has more than {MOST_BYTES} bytes unpacked")


def unpacked(codec: int, content: bytes) -> bytes:
    """The records of a batch whose attributes name this codec. Raises NotReadable."""
    if codec == 0:
        return content
    if codec not in _UNPACKERS:
        raise NotReadable(f"is packed in a way that has no name: {codec}")
    return _UNPACKERS[codec](content)


def gunzip(payload: bytes, most: int | None = None) -> bytes:
    """GZIP, of one member or several, of `most` bytes unpacked; by default as many as a batch may have. Raises NotReadable."""
    payload, out = bytes(payload), bytearray()
    at = _after_gzip_header(payload, 0)
    if at is None:
        raise _not("gzip")
    for _ in range(MOST_PIECES):
        following = _after_gzip_header(payload, _inflate(payload, at, out, MOST_BYTES if most is None else most))
        if following is None:  # as java.util.zip.GZIPInputStream, which ignores what follows the last member
            return bytes(out)
        at = following
    raise NotReadable(f"has more than {MOST_PIECES} members of gzip")


def unsnappy(payload: bytes) -> bytes:
    """Snappy, as it is or in the blocks of xerial's Java library. Each block states its size before it is unpacked."""
    payload = bytes(payload)
    if not payload.startswith(_XERIAL) or len(payload) < _XERIAL_HEADER:
        return _block(payload, so_far=0)
    out, at = bytearray(), _XERIAL_HEADER
    for _ in range(MOST_PIECES):
        if at + 4 > len(payload):  # that library ignores up to three bytes after the last block
            return bytes(out)
        if payload.startswith(_XERIAL[:4], at):  # it takes a repeated header between blocks, too
            at += _XERIAL_HEADER
            continue
        end = at + 4 + int.from_bytes(payload[at : at + 4])
        if end > len(payload):
            raise _not("snappy")
        out += _block(payload[at + 4 : end], so_far=len(out))
        at = end
    raise NotReadable(f"has more than {MOST_PIECES} blocks of snappy")


def unlz4(payload: bytes) -> bytes:
    """One frame of LZ4. As in Kafka's Lz4BlockInputStream neither the size nor the checksum of the whole content counts."""
    payload = bytes(payload)
    flags, largest = payload[4:5] or b"\0", payload[5:6] or b"\0"
    size_id = largest[0] >> 4
    if not payload.startswith(_LZ4) or flags[0] & 0xC0 != _LZ4_VERSION or flags[0] & _RESERVED or size_id not in _LZ4_LARGEST_ID:
        raise _not("lz4")
    context, unpacker = lz4.frame.create_compression_context(), lz4.frame.LZ4FrameDecompressor()
    linked, summed = not flags[0] & _ALONE, bool(flags[0] & _BLOCK_SUM)
    # The library would insist on both, so it gets the frame with a header that names neither.
    header = lz4.frame.compress_begin(context, block_size=size_id, block_linked=linked, block_checksum=summed)
    blocks = memoryview(payload)[15 if flags[0] & _CONTENT_SIZE else 7 :]
    try:
        content = bytes(unpacker.decompress(header + blocks, max_length=MOST_BYTES + 1))
    except RuntimeError as error:
        raise _not("lz4") from error
    if not unpacker.eof and len(content) <= MOST_BYTES:
        raise _not("lz4")
    return _bounded(content)


def unzstd(payload: bytes) -> bytes:
    """Zstandard, of one frame or several."""
    payload = bytes(payload)
    try:
        # Memory for all that is asked for is taken at once, which for `MOST_BYTES` costs more than to unpack a small batch.
        expected = _expected(payload) + 1
        content = _read_zstd(payload, expected)
        # From the start, because a reader forgets what it has unpacked beyond the end of a payload that was cut off.
        return _bounded(content if len(content) < expected else _read_zstd(payload, MOST_BYTES + 1))
    except zstandard.ZstdError as error:
        raise _not("zstd") from error


def _read_zstd(payload: bytes, most: int) -> bytes:
    with _unzstd().stream_reader(payload, read_across_frames=True) as reader:
        return bytes(reader.read(most))


def _expected(payload: bytes) -> int:
    """The size of the first frame if it says one, and at most `MOST_BYTES`; these where it says none."""
    size = -1
    with suppress(zstandard.ZstdError):  # whether the payload can be read is the reader's to say
        size = zstandard.frame_content_size(payload)
    return size if 0 <= size < MOST_BYTES else MOST_BYTES


_THREAD = threading.local()


def _unzstd() -> zstandard.ZstdDecompressor:
    """The decompressor of this thread: to make one costs ten times as much as to unpack a small batch."""
    if not hasattr(_THREAD, "zstd"):
        _THREAD.zstd = zstandard.ZstdDecompressor()
    return _THREAD.zstd  # type: ignore[no-any-return]  # a thread's own attributes have no types


def _after_gzip_header(payload: bytes, at: int) -> int | None:
    """Where the data of a member with its header at `at` begins; None if that is no header (RFC 1952, 2.3)."""
    begin, flags = at, payload[at + 3 : at + 4]
    if not payload.startswith(_GZIP, at) or payload[at + 2 : at + 3] != bytes([_DEFLATE]) or not flags:
        return None
    at += _GZIP_HEADER
    if flags[0] & _EXTRA:
        at += 2 + int.from_bytes(payload[at : at + 2], "little")
    for text in (_NAME, _COMMENT):
        if flags[0] & text:
            at = payload.find(b"\0", at) + 1 or len(payload) + 1
    if flags[0] & _HEADER_SUM:
        checksum = int.from_bytes(payload[at : at + 2], "little")
        if checksum != zlib.crc32(memoryview(payload)[begin:at]) & 0xFFFF:
            return None
        at += 2
    return at if at <= len(payload) else None


def _inflate(payload: bytes, at: int, out: bytearray, most: int) -> int:
    """Put the data of a member behind `out`; returns where its trailer ends. The time is linear in what is read and made."""
    # Zlib copies unused input, so it gets a member in growing slices: a short member costs a short copy.
    member, view, begin, size = zlib.decompressobj(wbits=-15), memoryview(payload), len(out), _FIRST_SLICE
    while not member.eof:
        piece = view[at : at + size]
        if not piece:
            raise _not("gzip")
        try:
            out += member.decompress(piece, most + 1 - len(out))
        except zlib.error as error:
            raise _not("gzip") from error
        if len(out) > most:
            raise UnpacksTooLarge
        at, size = at + len(piece), min(2 * size, _LARGEST_SLICE)
    at -= len(member.unused_data)
    trailer = zlib.crc32(memoryview(out)[begin:]).to_bytes(4, "little") + (len(out) - begin).to_bytes(4, "little")
    if not payload.startswith(trailer, at):
        raise _not("gzip")
    return at + _GZIP_TRAILER


def _block(block: bytes, *, so_far: int) -> bytes:
    """One block of Snappy, which begins with its unpacked size: seven bits a byte, the lowest first."""
    size = 0
    for shift, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:  # noqa: PLR2004  # the highest bit says that more follows
            break
    if so_far + size > MOST_BYTES:
        raise UnpacksTooLarge
    try:
        return bytes(snappy.decompress(block))
    except snappy.UncompressError as error:
        raise _not("snappy") from error


def _bounded(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise UnpacksTooLarge
    return data


def _not(codec: str) -> NotReadable:
    return NotReadable(f"says that it is packed with {codec}, and cannot be unpacked")


_UNPACKERS: Mapping[int, Callable[[bytes], bytes]] = {1: gunzip, 2: unsnappy, 3: unlz4, 4: unzstd}
