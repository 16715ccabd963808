"""The codec: events to records and back, as plain JSON with CloudEvents headers. A reader knows nothing but the record.

The same event always gives the same bytes. Reading is strict about types and lenient about unknown things: it ignores unknown
fields, lifts old versions, and lets a topic that carries only one type leave `ce_type` out, so that anybody can write plain JSON.
Everything else is BadRecord with the path; no other exception leaves `decode`.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from types import NoneType
from typing import Any, cast, get_args, get_type_hints
from zlib import crc32

import msgspec
import orjson

from schemas import event_bounds, plain_json
from schemas.catalogue import CATALOGUE, Catalogue, Event, EventBody, Kind, parse_wire_name, wire_name
from schemas.facts.usage import MetricsScraped
from schemas.names import Place
from schemas.plain_json import WrittenEvent
from streams import typed_json
from streams.codec import dead_letters
from streams.codec.headers import cause_headers, causes, header, is_of_a_clock
from streams.codec.usage_columns import ScrapeCodec
from streams.errors import BadRecord
from streams.log.log_port import LEFT_OUT, Headers, NewRecord, Record
from streams.topics import Topics

__all__ = ["Codec", "causes", "header", "is_of_a_clock"]

_CONTENT_TYPE, _SPEC_VERSION = ("content-type", b"application/json"), ("ce_specversion", b"1.0")


class Codec:
    """Encodes and decodes the events of one set of topics. A codec serves one thread."""

    def __init__(self, topics: Topics, catalogue: Catalogue = CATALOGUE) -> None:
        """`catalogue` is another one in tests only."""
        self._topics, self._catalogue = topics, catalogue
        self._kinds = {kind.event: (kind, ("ce_type", kind.wire.encode())) for kind in catalogue.kinds}
        self._scrapes = ScrapeCodec()
        self._decoders: dict[str, Callable[[bytes], Event]] = {}
        self._kinds_found: dict[tuple[str, bytes | None], tuple[Kind, int]] = {}
        self._last_written: tuple[Event, WrittenEvent] | tuple[None, None] = (None, None)
        self._last_cause: tuple[Sequence[Place], Headers] = ((), ())

    def encode(  # noqa: PLR0913  # all by keyword; a record has that many parts
        self, event: Event | WrittenEvent, *, topic: str, key: str, partition: int, source: str, cause: Sequence[Place] = ()
    ) -> NewRecord:
        """The record of an event. `topic` is a short name. Raises KeyError for a class that is not in the catalogue.

        Raises ValueError for a time without offset, TypeError for what JSON cannot carry; both are bugs.
        """
        written = event if isinstance(event, WrittenEvent) else self._written(event)
        (kind, type_header), subject = self._kinds[written.kind], key.encode()
        headers: Headers = (
            _CONTENT_TYPE,
            _SPEC_VERSION,
            ("ce_id", (_id(kind, written, partition) if written.id is None else written.id).encode()),
            type_header,
            ("ce_source", source.encode()),
            ("ce_subject", subject),
            ("ce_time", time_bytes(written.at)),
        )
        if cause:
            headers += self._cause_headers(cause)
        return NewRecord(self._topics.wire(topic), partition, subject, written.body, headers)

    def _cause_headers(self, cause: Sequence[Place]) -> Headers:
        last, headers = self._last_cause
        if cause is not last:  # as below, and to find them by their places takes half as long as the rest of a record
            headers = cause_headers(tuple(cause))
            self._last_cause = cause, headers
        return headers

    def _written(self, event: Event) -> WrittenEvent:
        last, written = self._last_written
        if written is None or event is not last:  # an event that goes to two topics, one after the other, is written once
            if event.at.tzinfo is None:
                raise ValueError(f"the time {event.at.isoformat()} of a {type(event).__name__} has no offset from UTC")
            body = self._scrapes.encode(event) if isinstance(event, MetricsScraped) else plain_json.dumps(event)
            written = WrittenEvent(type(event), getattr(event, "id", None), event.at, body)
            self._last_written = event, written
        return written

    def encode_for_all(self, event: Event, *, topic: str, key: str, source: str) -> list[NewRecord]:
        """The records of an event that every partition needs, one copy for each. Raises what `encode` raises."""
        partitions = range(self._topics.partitions)
        return [self.encode(event, topic=topic, key=key, partition=partition, source=source) for partition in partitions]

    def decode_or_none(self, record: Record) -> Event | None:
        """The event in a record; None for a tick, and for what cannot be read, because the stages set that aside."""
        if is_of_a_clock(record):
            return None
        try:
            return self.decode(record)
        except BadRecord:
            return None

    def decode(self, record: Record) -> Event:
        """The event in a record. Raises BadRecord, and nothing else, when there is none.

        A tombstone is no event.
        """
        if record.value is None:
            # A removal is an event of its own, because a stage could not explain a decision that rests on a silent removal.
            left_out = header(record, LEFT_OUT)
            raise BadRecord(left_out or "the value is missing: a tombstone says nothing; removals are events of their own")
        kind, version = self._kind(record)
        value = record.value if version == kind.version else self._lift(kind, version, record.value)
        return self._decoder(kind)(value)

    def older_version(self, record: Record | NewRecord) -> str:
        """The `ce_type` of a record that an older version of its type wrote; empty for today's. Raises BadRecord as `decode`."""
        kind, version = self._kind(record)
        return "" if version == kind.version else wire_name(kind.name, version)

    def fields(self, record: Record | NewRecord) -> dict[str, object]:
        """The event's fields as today's version writes them, without those that the record's own version does not have.

        The lift leaves a field that the older version lacks to its default. Raises BadRecord as `decode`.
        """
        if record.value is None:
            raise BadRecord("the value is missing: a tombstone says nothing; removals are events of their own")
        kind, version = self._kind(record)
        value = record.value if version == kind.version else self._lift(kind, version, record.value)
        body: dict[str, object] = orjson.loads(self._written(self._decoder(kind)(value)).body)
        had = orjson.loads(value).keys()
        return {name: content for name, content in body.items() if name in had}

    def dead_letter(self, record: Record, error: BadRecord, *, by: str) -> NewRecord:
        """The dead letter of a record. Every run over the same log gives the same one."""
        return dead_letters.dead_letter(record, error, by=by, topics=self._topics)

    def _kind(self, record: Record | NewRecord) -> tuple[Kind, int]:
        """Kind and version, remembered for each topic and `ce_type` that was good."""
        wire = None
        for name, value in record.headers:
            if name == "ce_type":
                wire = value
                break
        kind_and_version = self._kinds_found.get((record.topic, wire))
        if kind_and_version is None:
            kind_and_version = self._find(record.topic, wire)
            self._kinds_found[record.topic, wire] = kind_and_version
        return kind_and_version

    def _find(self, topic: str, wire: bytes | None) -> tuple[Kind, int]:
        try:
            carried = self._catalogue.carried_by(self._topics.short(topic))
        except KeyError:
            raise BadRecord(f"the topic '{topic}' is none of ours", "ce_type") from None
        if wire is None and len(carried) == 1:
            return carried[0], carried[0].version
        wanted = " or ".join(kind.wire for kind in carried) or "no events at all"
        if wire is None:
            raise BadRecord(f"there is no ce_type header, and '{topic}' carries {wanted}", "ce_type")
        text = wire.decode(errors="replace")
        name, version = parse_wire_name(text) or ("", 0)
        kind = self._catalogue.named(name)
        if kind is None or kind not in carried:
            raise BadRecord(f"the ce_type is '{text}', but '{topic}' carries {wanted}", "ce_type")
        if version > kind.version:
            raise BadRecord(f"the ce_type is '{text}', newer than '{kind.wire}', the newest this program reads", "ce_type")
        return kind, version

    def _lift(self, kind: Kind, version: int, value: bytes) -> bytes:
        """The bytes of today's version."""
        try:
            body = orjson.loads(value)  # old events are rare, so they are encoded again and then read like all others
            for old in range(version, kind.version):
                body = self._catalogue.lifts.get((kind.name, old), _only_new_fields)(body)
            return orjson.dumps(body)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadRecord(f"version {version} of {kind.name} cannot be lifted to {kind.version}: {error!r}") from error

    def _decoder(self, kind: Kind) -> Callable[[bytes], Event]:
        decoder = self._decoders.get(kind.name)
        if decoder is None:  # made when its first event comes, because most programs only read a few kinds
            decoder = self._decoders[kind.name] = self._new_decoder(kind)
        return decoder

    def _new_decoder(self, kind: Kind) -> Callable[[bytes], Event]:
        read: Callable[[bytes], Any]
        read = self._scrapes.decode if kind.event is MetricsScraped else typed_json.decoder(kind.event).decode
        times = _time_fields(kind.event)

        def decode(value: bytes) -> Event:
            try:
                event: Event = read(value)
                _convert_to_utc(event, times)
                if kind.event is not MetricsScraped and _is_odd(value):
                    plain_json.dumps(event)  # refuses what we could not write again: integers beyond 64 bits, lone surrogates
            except msgspec.MsgspecError as error:
                raise _bad_record(kind, error) from error
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                raise BadRecord(f"the value is no {kind.name}: {error}") from error
            _refuse_unbounded(event)
            return event

        return decode


_ZEROS = bytes(ord("0") if byte in b"123456789" else byte for byte in range(256))
_LONG_NUMBER = b"0" * 19
_DEEPEST = 250  # orjson writes 254 levels


def _is_odd(value: bytes) -> bool:
    """Whether a value may be impossible to write again: it has long integers, escapes, or many levels."""
    return b"\\u" in value or value.count(b"{") + value.count(b"[") > _DEEPEST or _LONG_NUMBER in value.translate(_ZEROS)


def _refuse_unbounded(event: Event) -> None:
    """Raise BadRecord for an event with a number, text, list or time that is beyond the bounds of all events."""
    fault = event_bounds.fault(event)
    if fault is not None:
        where, what = fault
        raise BadRecord(f"{where.lstrip('.')} {what}", f"${where}")


def _only_new_fields(body: EventBody) -> EventBody:
    """The lift of a version that says no more than its defaults do."""
    return body


def _id(kind: Kind, written: WrittenEvent, partition: int) -> str:
    """The id of an event without one of its own: for a scrape partition, time and checksum, else a hash of the content."""
    if kind.event is MetricsScraped:
        return f"{kind.name}/{partition}/{time_bytes(written.at).decode()}/{crc32(written.body):08x}"
    return f"{kind.name}/{blake2b(written.body, digest_size=16).hexdigest()}"


def time_bytes(at: datetime) -> bytes:
    """RFC 3339 in UTC, as `ce_time`."""
    return _utc_bytes(at) if at.tzinfo is UTC else _rfc3339(at)


def _rfc3339(at: datetime) -> bytes:
    return orjson.dumps(at, option=orjson.OPT_UTC_Z).strip(b'"')


# Decisions of one turn have one time. Equal times of other zones would be taken for one another, so it is for UTC alone.
_utc_bytes = lru_cache(maxsize=256)(_rfc3339)


def _time_fields(kind: type[Any]) -> tuple[tuple[str, ...], ...]:
    """The paths to the times of an event class: its own fields, and those of the single values in it (not of lists)."""
    hints = get_type_hints(kind)
    paths: list[tuple[str, ...]] = []
    for name in (field.name for field in fields(kind)):
        types = set(get_args(hints[name])) - {NoneType} or {hints[name]}
        if datetime in types:
            paths.append((name,))
        paths += [(name, *rest) for inner in types if is_dataclass(inner) for rest in _time_fields(cast("type[Any]", inner))]
    return tuple(paths)


def _convert_to_utc(event: Event, times: tuple[tuple[str, ...], ...]) -> None:
    """Convert times to UTC. Raises BadRecord for a time without an offset."""
    for *path, name in times:
        holder: Any = event
        for inner in path:
            holder = getattr(holder, inner, None)
        at = getattr(holder, name, None)
        if at is None or at.tzinfo is UTC:
            continue
        if at.tzinfo is None:
            raise BadRecord(f"the time '{at.isoformat()}' has no offset from UTC", ".".join(("$", *path, name)))
        # In place although events are frozen: nobody else has this one yet, and equal times have to be equal bytes.
        object.__setattr__(holder, name, at.astimezone(UTC))


def _bad_record(kind: Kind, error: msgspec.MsgspecError) -> BadRecord:
    """Msgspec's message with our path: a missing field is part of the path."""
    message, _, where = str(error).partition(" - at ")
    path = where.strip("`") or "$"
    if message.startswith("Object missing required field"):
        path = f"{path}.{message.split('`')[1]}"
    return BadRecord(f"the value is no {kind.name}: {message}", path)
