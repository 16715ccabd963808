r"""The lines of a log file: records and topics as readable JSON.

    {"format":"ullage.log","version":1}
    {"topic":"ullage.control.v1","partitions":1,"begin":[0]}
    {"at":"ullage.control.v1:0:0","ms":1700000000000,"key":"tick","value":"{\"at\":1700000000000}","headers":[]}

One JSON object a line. Bytes are text where they are UTF-8, else `{"base64":"..."}`, and null where there are none. A topic's
line comes before its records; a later line of the same topic says that its first kept offsets have moved.
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass

import orjson

from schemas.names import Place
from streams.log.log_port import Headers, Record
from streams.log.record_format import MOST_HEADERS

FORMAT = "ullage.log"
VERSION = 1
RECORD_LINE = re.compile(rb'\{"at":"([^"\\]+:\d{1,9}):(\d{1,18})","ms":.*\}\n')
"""A record's line as `encode_record` writes it: `topic:partition`, and the offset. The rest is parsed when somebody reads it."""

MOST_LINE = 64 << 20  # bytes: a record has 8 MiB at most, and JSON writes a byte as six characters at most
MOST_PARTITIONS = 100_000
"""Partitions of all topics of a file."""
# What a long line may have besides its texts: JSON of nothing but brackets takes thirty times its bytes of memory.
_MOST_AROUND_TEXTS, _LONG = 64 << 10, 1 << 20
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_LONGEST_TOPIC = 249
_MOST_INT64 = (1 << 63) - 1
_SHOWN = 300

Packed = str | dict[str, str] | None
"""Bytes in JSON."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic, and the first kept offset of each of its partitions."""

    topic: str
    begin: tuple[int, ...]


def first_line() -> bytes:
    """The first line of a log file."""
    return orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"


def is_first_line(line: bytes) -> bool:
    """Whether the file is one of ours, in a version that can be read."""
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and body.get("format") == FORMAT and body.get("version") == VERSION


def encode_topic(line: TopicLine) -> bytes:
    """The line of a topic."""
    return orjson.dumps({"topic": line.topic, "partitions": len(line.begin), "begin": list(line.begin)}) + b"\n"


def encode_record(record: Record) -> bytes:
    """The line of a record."""
    body = {
        "at": str(record.place),  # no topic name that Kafka allows holds a colon, so it can be parsed
        "ms": record.timestamp_ms,
        "key": pack(record.key),
        "value": pack(record.value),
        "headers": [[name, pack(data)] for name, data in record.headers],
    }
    return orjson.dumps(body) + b"\n"


def decode(line: bytes) -> Record | TopicLine:
    """The record or topic of a line. Raises ValueError that says what is wrong with it."""
    if len(line) > _LONG and len(_TEXT.sub(b"", line)) > _MOST_AROUND_TEXTS:
        msg = f"besides its texts it has more than {_MOST_AROUND_TEXTS} bytes, which no record has"
        raise ValueError(msg)
    body = orjson.loads(line)
    try:
        if "topic" in body:
            return _topic(str(body["topic"]), int(body["partitions"]), tuple(int(b) for b in body["begin"]))
        topic, partition, offset = _place(body["at"])
        key, value = unpack(body["key"]), unpack(body["value"])
        return Record(topic, partition, offset, key, value, unpack_headers(body["headers"]), _int64("ms", body["ms"]))
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        msg = f"it is neither a topic nor a record ({type(error).__name__}: {str(error)[:_SHOWN]})"
        raise ValueError(msg) from error


def _int64(name: str, value: str | int) -> int:
    number = int(value)
    if abs(number) > _MOST_INT64:
        msg = f"its '{name}' is beyond 64 bits"
        raise ValueError(msg)
    return number


def _check_topic(topic: str) -> None:
    if len(topic) > _LONGEST_TOPIC:
        msg = f"the name of a topic has {len(topic)} characters; {_LONGEST_TOPIC} are the most"
        raise ValueError(msg)


def _topic(topic: str, partitions: int, begin: tuple[int, ...]) -> TopicLine:
    _check_topic(topic)
    if partitions > MOST_PARTITIONS:
        msg = f"topic '{topic}' has {partitions} partitions; {MOST_PARTITIONS} are the most"
        raise ValueError(msg)
    if len(begin) != partitions:
        msg = f"topic '{topic}' has {partitions} partitions but {len(begin)} first offsets"
        raise ValueError(msg)
    return TopicLine(topic, begin)


def _place(text: str) -> tuple[str, int, int]:
    place = Place.parse(text)
    _check_topic(place.topic)
    return place.topic, _int64("partition", place.partition), _int64("offset", place.offset)


def unpack_headers(pairs: list[tuple[str, Packed]]) -> Headers:
    """The headers of a record, from names and packed bytes. Raises ValueError for more than a log takes."""
    if len(pairs) > MOST_HEADERS:
        msg = f"it has {len(pairs)} headers; {MOST_HEADERS} are the most"
        raise ValueError(msg)
    return tuple([(str(name), data.encode() if type(data) is str else unpack(data) or b"") for name, data in pairs])


def pack(data: bytes | None) -> Packed:
    """Bytes as JSON carries them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def unpack(packed: Packed) -> bytes | None:
    """Inverse of `pack`. Raises ValueError for base64 that is none."""
    if packed is None:
        return None
    return packed.encode() if isinstance(packed, str) else b64decode(packed["base64"], validate=True)
