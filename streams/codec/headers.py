"""Headers of records: CloudEvents in binary mode, and what a record rests on, under two names."""

from functools import lru_cache

import msgspec

from schemas import plain_json
from schemas.names import Place
from streams import typed_json
from streams.clock_rules import FILL, PROBE, TICK
from streams.errors import BadRecord
from streams.log.log_port import Headers, NewRecord, Record

_read_causes = typed_json.decoder(tuple[str, ...]).decode
CAUSES = ("ce_cause", "cause")  # our readers know `cause`; CloudEvents' libraries hand on extension attributes alone
_OF_A_CLOCK = frozenset({TICK, PROBE, FILL})


def is_of_a_clock(record: Record | NewRecord) -> bool:
    """Whether a clock wrote this record: a tick, a probe, or what fills up a partition. It is no event."""
    return record.key in _OF_A_CLOCK


def header(record: Record | NewRecord, name: str) -> str | None:
    """The first header of this name, or None. Bytes that are not UTF-8 come back with replacement characters."""
    for key, value in record.headers:
        if key == name:
            return value.decode(errors="replace")
    return None


@lru_cache(maxsize=4096)  # many decisions of a turn rest on the same scrape
def cause_headers(places: tuple[Place, ...]) -> Headers:
    """What a record rests on: a JSON list of `topic:partition:offset`."""
    text = plain_json.dumps([str(place) for place in places])
    return tuple((name, text) for name in CAUSES)


def causes(record: Record | NewRecord) -> tuple[Place, ...]:
    """The places that a record rests on; none when it does not say. Raises BadRecord for a `cause` that is malformed."""
    text = header(record, "cause")
    if text is None:
        return ()
    try:
        return tuple(Place.parse(place) for place in _read_causes(text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRecord(f"the 'cause' header is not a list of places: {error}", "cause") from error
