"""Dead letters: a record that could not be read, the reason, its place, and who set it aside.

A dead letter follows from the record alone, so a turn that is taken again writes the same bytes under the same id. Its time is
the time at which the record was appended.
"""

from base64 import b64encode

import orjson

from schemas import bounds, plain_json, times
from streams.codec.headers import cause_headers
from streams.errors import BadRecord, ForgedPlan
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics

TYPE = "ullage.dead-letter.v1"
FORGED = ("ce_fault", b"forged-plan")
"""The header of a dead letter about a plan that no turn made."""
# Bytes of a key or value that a dead letter quotes: escaped and in the worst case well below a message's bound. More is not
# needed, because the record itself is still in the log.
KEEP = 64 << 10
# Characters of a reason or header, and how many headers: whatever comes in, a dead letter must fit into a message.
_SHORT, _HEADERS = 1 << 10, 32


def dead_letter(record: Record, error: BadRecord, *, by: str, topics: Topics) -> NewRecord:
    """The dead letter of a record, in the partition of the same number."""
    body = {
        "reason": error.reason[:_SHORT],
        "path": error.path[:_SHORT],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "by": by,
        "key": _quoted(record.key, KEEP),
        "value": _quoted(record.value, KEEP),
        "headers": [[name[:_SHORT], _quoted(value, _SHORT)] for name, value in record.headers[:_HEADERS]],
    }
    headers = (
        ("content-type", b"application/json"),
        ("ce_specversion", b"1.0"),
        ("ce_id", f"{by}/dead-letter/{record.place}".encode()),
        ("ce_type", TYPE.encode()),
        ("ce_source", by.encode()),
        ("ce_subject", str(record.place).encode()),
        ("ce_time", _time(record.timestamp_ms)),
        *cause_headers((record.place,)),
        *([FORGED] if isinstance(error, ForgedPlan) else []),
    )
    return NewRecord(
        topics.wire("dead-letters"),
        record.partition % topics.partitions,
        record.key if len(record.key or b"") <= KEEP else None,
        plain_json.fitted(orjson.dumps(body)),
        tuple(header for header in headers if header[1]),
    )


def refused_letter(record: NewRecord, why: str, *, topics: Topics) -> NewRecord:
    """The dead letter of a record that the log refused and that so has no place."""
    # Its parts are cut short, because a larger dead letter may be refused, too.
    headers = dict(record.headers)
    by, name = headers.get("ce_source", b""), headers.get("ce_id") or record.key or b""
    body = {
        "reason": f"the log never takes this record: {why}"[:_SHORT],
        "path": "$",
        "topic": record.topic,
        "partition": record.partition,
        "offset": None,
        "by": by[:_SHORT].decode(errors="replace"),
        "key": _quoted(record.key, _SHORT),
        "value": _quoted(record.value, _SHORT),
        "headers": [[name[:_SHORT], _quoted(value, _SHORT)] for name, value in record.headers[:_HEADERS]],
    }
    about = b"%b:%d" % (record.topic.encode(), record.partition)
    return NewRecord(
        topics.wire("dead-letters"),
        record.partition % topics.partitions,
        record.key if len(record.key or b"") <= _SHORT else None,
        plain_json.fitted(orjson.dumps(body)),
        (
            ("content-type", b"application/json"),
            ("ce_specversion", b"1.0"),
            ("ce_id", b"%b/refused/%b/%b" % (by[:_SHORT], about, name[:_SHORT])),
            ("ce_type", TYPE.encode()),
            ("ce_source", by[:_SHORT]),
            ("ce_subject", about),
            ("ce_time", headers.get("ce_time", b"")[:64]),
        ),
    )


def _quoted(data: bytes | None, keep: int) -> dict[str, object] | None:
    """`{"text": …}` when it is UTF-8, else `{"base64": …}`; with `size` when it was cut."""
    if data is None:
        return None
    cut: dict[str, object] = {"size": len(data)} if len(data) > keep else {}
    head = data[:keep]
    try:
        return {"text": head.decode(errors="strict" if not cut else "ignore"), **cut}
    except UnicodeDecodeError:
        return {"base64": b64encode(head).decode(), **cut}


def _time(ms: int) -> bytes:
    """RFC 3339 with milliseconds; empty if the log has no time, or one that a producer has made up."""
    if not 0 <= ms < bounds.LAST_SECOND * 1000:
        return b""
    at = times.from_ms(ms)
    return orjson.dumps(at, option=orjson.OPT_UTC_Z).strip(b'"')
