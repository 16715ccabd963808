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

FORMAT = "ullage.log"
VERSION = 1
RECORD_LINE = re.compile(rb'\{"at":"([^"\\]+:\d{1,9}):(\d{1,18})","ms":.*\}\n')
"""A record's line as `encode_record` writes it: `topic:partition`, and the offset. The rest is parsed when somebody reads it."""

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
    """The line of a record. A topic name that Kafka allows holds no colon, so the place can be parsed."""
    body = {
        "at": str(record.place),
        "ms": record.timestamp_ms,
        "key": pack(record.key),
        "value": pack(record.value),
        "headers": [[name, pack(data)] for name, data in record.headers],
    }
    return orjson.dumps(body) + b"\n"


def decode(line: bytes) -> Record | TopicLine:
    """The record or topic of a line. Raises ValueError that says what is wrong with it."""
    body = orjson.loads(line)
    try:
        if "topic" in body:
            return _topic(str(body["topic"]), int(body["partitions"]), tuple(int(b) for b in body["begin"]))
        topic, partition, offset = _place(body["at"])
        key, value = unpack(body["key"]), unpack(body["value"])
        return Record(topic, partition, offset, key, value, unpack_headers(body["headers"]), int(body["ms"]))
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"it is neither a topic nor a record ({type(error).__name__}: {error})"
        raise ValueError(msg) from error


def _topic(topic: str, partitions: int, begin: tuple[int, ...]) -> TopicLine:
    if len(begin) != partitions:
        msg = f"topic '{topic}' has {partitions} partitions but {len(begin)} first offsets"
        raise ValueError(msg)
    return TopicLine(topic, begin)


def _place(text: str) -> tuple[str, int, int]:
    place = Place.parse(text)
    return place.topic, place.partition, place.offset


def unpack_headers(pairs: list[tuple[str, Packed]]) -> Headers:
    """The headers of a record, from names and packed bytes."""
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
