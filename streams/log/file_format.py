r"""The lines of a log file: how records and topics look when they lie in a file that anyone may read.

    {"format":"ullage.log","version":1}
    {"topic":"ullage.control.v1","partitions":1,"begin":[0]}
    {"at":"ullage.control.v1:0:0","ms":1700000000000,"key":"tick","value":"{\"at\":1700000000000}","headers":[]}

One JSON object a line. Bytes are text where they are UTF-8, else `{"base64":"..."}`, and null where there are none. A
topic's line comes before its records; a later line of the same topic says that its first kept offsets have moved.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass

import orjson

from schemas.names import Place
from streams.log.port import Headers, Record

FORMAT = "ullage.log"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic, and the first kept offset of each of its partitions."""

    topic: str
    begin: tuple[int, ...]


def first_line() -> bytes:
    """What a log file begins with."""
    return orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"


def is_first_line(line: bytes) -> bool:
    """Whether the file is one of ours, in a version that can be read."""
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and body.get("format") == FORMAT and body.get("version") == VERSION


def write_topic(line: TopicLine) -> bytes:
    """The line of a topic."""
    return orjson.dumps({"topic": line.topic, "partitions": len(line.begin), "begin": list(line.begin)}) + b"\n"


def write_record(record: Record) -> bytes:
    """The line of a record. A topic name Kafka allows holds no colon, so the place can be read back."""
    body = {
        "at": str(record.place),
        "ms": record.timestamp_ms,
        "key": _pack(record.key),
        "value": _pack(record.value),
        "headers": [[name, _pack(data)] for name, data in record.headers],
    }
    return orjson.dumps(body) + b"\n"


def read(line: bytes) -> Record | TopicLine:
    """What a line says. Raises ValueError that says what is wrong with it."""
    body = orjson.loads(line)
    try:
        if "topic" in body:
            return _topic(str(body["topic"]), int(body["partitions"]), tuple(int(b) for b in body["begin"]))
        place = Place.parse(body["at"])
        key, value = _unpack(body["key"]), _unpack(body["value"])
        return Record(place.topic, place.partition, place.offset, key, value, _headers(body["headers"]), int(body["ms"]))
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"it is neither a topic nor a record ({type(error).__name__}: {error})"
        raise ValueError(msg) from error


def _topic(topic: str, partitions: int, begin: tuple[int, ...]) -> TopicLine:
    if len(begin) != partitions:
        msg = f"topic '{topic}' has {partitions} partitions but {len(begin)} first offsets"
        raise ValueError(msg)
    return TopicLine(topic, begin)


def _headers(pairs: list[list[str | dict[str, str] | None]]) -> Headers:
    return tuple((str(name), _unpack(data) or b"") for name, data in pairs)


def _pack(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _unpack(packed: str | dict[str, str] | None) -> bytes | None:
    if packed is None:
        return None
    return packed.encode() if isinstance(packed, str) else b64decode(packed["base64"], validate=True)
