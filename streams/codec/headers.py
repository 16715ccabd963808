"""Headers of records: CloudEvents in binary mode, and `cause`. Also ticks, the only records that are not events.

A tick has no headers: its bytes follow from its number alone, so several clocks write the same bytes.
"""

from functools import lru_cache

import msgspec
import orjson

from schemas.names import Place
from streams import typed_json
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record

TICK = b"tick"
LAST_TICK = 253_402_300_800_000
"""Milliseconds of the year 10000, which no datetime can hold; a tick at or above it is no tick."""


class _Tick(msgspec.Struct):
    at: int


_read_tick = typed_json.decoder(_Tick).decode
_read_causes = typed_json.decoder(tuple[str, ...]).decode


def tick(topic: str, partition: int, number: int) -> NewRecord:
    """The tick `number` of one partition of a topic (wire name)."""
    return NewRecord(topic, partition, TICK, b'{"at":%d}' % number)


def tick_number(record: Record | NewRecord) -> int | None:
    """The number of a tick; None for any other record, and for a malformed tick."""
    if record.key != TICK or record.value is None:
        return None
    return _number(record.value) if len(record.value) < _LONGEST_TICK else _read_number(record.value)


def _read_number(value: bytes) -> int | None:
    try:
        number = _read_tick(value).at
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return number if 0 <= number < LAST_TICK else None


_number = lru_cache(maxsize=64)(_read_number)
"""One tick comes in every partition of every topic, and each stage asks for it."""
_LONGEST_TICK = 100
"""Bytes of a tick that is remembered; ours has 20."""


MOST_TICK_AHEAD = 300_000
"""Milliseconds that a tick may lie after the moment at which the log took it: far more than clocks that are kept differ."""


def is_implausible(record: Record, number: int) -> bool:
    """Whether the tick `number` is ignored because it lies far ahead of the time at which the log appended it.

    A log without times (-1) refuses no tick. The answer depends neither on earlier ticks nor on anything else in this one, so a
    writer to the topic cannot push time ahead, and it follows from the log alone. Simulated time therefore lies in the past.
    """
    return record.timestamp_ms >= 0 and number - record.timestamp_ms > MOST_TICK_AHEAD


def latest_tick(record: Record, *, before: int) -> int | None:
    """The newest valid tick after a record, where `before` was the newest so far (-1 for none); None if the record is no tick."""
    number = tick_number(record)
    if number is None:
        return None
    return before if is_implausible(record, number) else max(before, number)


def header(record: Record | NewRecord, name: str) -> str | None:
    """The first header of this name, or None. Bytes that are not UTF-8 come back with replacement characters."""
    for key, value in record.headers:
        if key == name:
            return value.decode(errors="replace")
    return None


@lru_cache(maxsize=4096)
def cause_bytes(places: tuple[Place, ...]) -> bytes:
    """The `cause` header: a JSON list of `topic:partition:offset`. Many decisions of a turn rest on the same scrape."""
    return orjson.dumps([str(place) for place in places])


def causes(record: Record | NewRecord) -> tuple[Place, ...]:
    """The places that a record rests on; none when it does not say. Raises BadRecord for a `cause` that is malformed."""
    text = header(record, "cause")
    if text is None:
        return ()
    try:
        return tuple(Place.parse(place) for place in _read_causes(text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord(f"the 'cause' header is not a list of places: {error}", "cause") from error
