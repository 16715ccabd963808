"""Runs `ullage tap`: finds where to begin, selects records, and prints one text for each, for people or for programs."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase

import orjson

from agents.processes.signals import until_stopped
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import TextForm
from schemas import times
from schemas.catalogue import CATALOGUE
from schemas.facts.usage import MetricsScraped
from streams import log_range, reverse_log_reader
from streams.clock_rules import ClockRecord
from streams.codec import dead_letters
from streams.codec.event_codec import Codec, header, is_of_a_clock
from streams.errors import BadInput, BadRecord
from streams.log.log_port import Log, Record
from streams.topics import Topics

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_COPIES = 10_000
"""Records whose copies in other partitions are recognised; copies come close to one another."""
_OF_A_LETTER = ("reason", "path", "topic", "partition", "offset", "by")
"""What of a dead letter people are shown; the record itself is still in its place, and `-o json` has all of it."""
_OTHER_KINDS = ("tick", "DeadLetter", "unreadable")
_AGO = re.compile(r"(\d+)([smhd])")


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records to show. `key` is a pattern, `kind` the class name of an event or None for all, `limit` None means all."""

    key: str = "*"
    kind: str | None = None
    limit: int | None = None
    ticks: bool = False

    def matches(self, record: Record, kind: str) -> bool:
        """Whether to show this record, whose event is of class `kind` (or "tick", "DeadLetter" or "unreadable")."""
        if is_of_a_clock(record):
            return self.ticks
        key = (record.key or b"").decode(errors="replace")
        return fnmatchcase(key, self.key) and self.kind in {None, kind}


def run(settings: Settings, topic: str, *, begin: str, follow: bool, wanted: RecordFilter, form: TextForm) -> None:  # noqa: PLR0913  # flags
    """Print the wanted records from `begin` on, in order of event time; with `follow`, also new ones as they come."""
    wire = _wire(log_factory.topics(settings), topic)
    _check_kind(wanted.kind)
    with until_stopped(), log_factory.log_to_read(settings) as (log, fitted):
        codec = Codec(log_factory.topics(fitted))
        now = time.time_ns() // 1_000_000  # "1h ago" is meant by the reader's clock
        positions = start_positions(log, wire, begin, now_ms=now)
        records = (log_range.follow if follow else log_range.read_range)(log, [wire], since=positions, merged=True)
        count = 0
        for count, lines in enumerate(_lines(records, codec, wanted, form), 1):
            for line in lines:
                # who follows a pipe waits for each line
                data(line, now=follow)
            if count == wanted.limit:
                return
        if not count:
            note(f"no such record in '{wire}'" + ("" if begin == "begin" else f" from {begin} on"))


def run_last(settings: Settings, topic: str, *, count: int, wanted: RecordFilter, form: TextForm) -> None:
    """Print the newest `count` of the wanted records, in order of event time. Reads from the end on, no further than it must."""
    wire = _wire(log_factory.topics(settings), topic)
    _check_kind(wanted.kind)
    with until_stopped(), log_factory.log_to_read(settings) as (log, fitted):
        codec = Codec(log_factory.topics(fitted))
        kept: list[Record] = []
        for stretch in reverse_log_reader.since(log, wire, times.EPOCH):
            ordered = sorted(stretch, key=log_range.event_time_ms)
            newest = [record for record in _without_copies(iter(ordered)) if wanted.matches(record, _read(record, codec)[0])]
            # each stretch is older than the one before
            kept = [*newest, *kept]
            if len(kept) >= count:
                break
    for lines in _lines(iter(sorted(kept, key=log_range.event_time_ms)[-count:]), codec, wanted, form):
        for line in lines:
            data(line)
    if not kept:
        note(f"no such record in '{wire}'")


def start_positions(log: Log, topic: str, begin: str, *, now_ms: int) -> dict[tuple[str, int], int]:
    """Where to begin in each partition of a topic (wire name): `begin` is "begin", "end", an offset, or a time ago such as "1h".

    Raises BadInput for a text of another form.
    """
    return {(topic, p): _position(log, topic, p, begin, now_ms) for p in range(log.partitions(topic))}


def _position(log: Log, topic: str, partition: int, begin: str, now_ms: int) -> int:
    if begin == "begin":
        return log.begin(topic, partition)
    if begin == "end":
        return log.end(topic, partition)
    if begin.isdecimal():
        return int(begin)
    ago = _AGO.fullmatch(begin)
    if ago is None:
        raise BadInput(f"--from '{begin}' is neither begin, end, an offset, nor a time like 90s, 30m, 1h or 2d")
    return _first_after(log, topic, partition, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])


def _first_after(log: Log, topic: str, partition: int, moment_ms: int) -> int:
    """The first offset appended at or after this time, found by bisection; the end if there is none."""
    low, high = log.begin(topic, partition), log.end(topic, partition)
    while low < high:
        middle = (low + high) // 2
        records = log.poll({(topic, partition): middle}, limit=1)
        # compaction leaves gaps: the next record may lie beyond `high`
        if not records or records[0].offset >= high or records[0].timestamp_ms >= moment_ms:
            high = middle
        else:
            low = records[0].offset + 1
    return low


def _lines(records: Iterator[Record], codec: Codec, wanted: RecordFilter, form: TextForm) -> Iterator[list[str]]:
    for record in _without_copies(records):
        kind, lines = _read(record, codec)
        if wanted.matches(record, kind):
            yield (
                [*output_table.fitted(form, [_heading(record, kind), *lines])]
                if form in output_table.PEOPLE
                else [*output_table.item(form, _object(record, kind))]
            )


def _without_copies(records: Iterator[Record]) -> Iterator[Record]:
    """Records that every partition has are shown once, from the first partition."""
    first: dict[tuple[bytes | None, bytes | None], int] = {}
    for record in records:
        if first.setdefault((record.key, record.value), record.partition) == record.partition:
            yield record
        if len(first) > _MOST_COPIES:
            # the oldest goes, whose copies have long passed
            first.pop(next(iter(first)))


def _read(record: Record, codec: Codec) -> tuple[str, list[str]]:
    """The class name of the record's event, or "tick", "DeadLetter" or "unreadable"; and the content in lines."""
    tick = ClockRecord.decode(record)
    if tick is not None:
        return "tick", [f"    at: {times.from_ms(tick.number):%Y-%m-%d %H:%M:%S.%f}"]
    letter = _letter(record)
    if letter is not None:
        return "DeadLetter", [f"    {name}: {_short(value)}" for name, value in letter.items() if name in _OF_A_LETTER]
    try:
        event = codec.decode(record)
    except BadRecord as error:
        return "unreadable", [f"    {error}", f"    {(record.value or b'')[:200]!r}"]
    if isinstance(event, MetricsScraped):
        rows = zip(event.workloads, event.pods, event.containers, event.cores, event.memory, strict=True)
        return "MetricsScraped", [f"    {w} {p} {c}: {cores:.3f} cores, {size:.0f} bytes" for w, p, c, cores, size in rows]
    values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "at"}
    # what has nothing in it says nothing to people; programs get all
    return type(event).__name__, [f"    {name}: {_short(value)}" for name, value in values.items() if not _empty(value)]


def _letter(record: Record) -> Mapping[str, object] | None:
    """The body of a dead letter; None for another record, and for one whose body cannot be read."""
    if header(record, "ce_type") != dead_letters.TYPE:
        return None
    try:
        body = orjson.loads(record.value or b"")
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, Sequence | Mapping) and not value)


def _short(value: object) -> str:
    # with spaces, so that a long one goes on below in a narrow terminal
    return value if isinstance(value, str) else json.dumps(orjson.loads(orjson.dumps(value, default=str)), ensure_ascii=False)


def _heading(record: Record, kind: str) -> str:
    """When the log took it, or where that is not known, its event time; its place, its kind and its key."""
    taken = log_range.taken_ms(record)
    at = log_range.event_time_ms(record) if taken < 0 else taken
    when = f"{times.from_ms(at):%Y-%m-%d %H:%M:%S}  " if at >= 0 else ""
    return f"{when}{record.place}  {kind}  {(record.key or b'').decode(errors='replace')}"


def _object(record: Record, kind: str) -> dict[str, object]:
    try:
        value: object = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        value = (record.value or b"").decode(errors="replace")
    return {
        "place": str(record.place),
        "taken_ms": record.timestamp_ms,
        "type": kind,
        "key": None if record.key is None else record.key.decode(errors="replace"),
        "headers": {name: text.decode(errors="replace") for name, text in record.headers},
        "value": value,
    }


def _wire(topics: Topics, name: str) -> str:
    wire = topics.wire(name)
    try:
        topics.topic(wire)
    except KeyError:
        from streams.topics import TOPICS

        raise BadInput(f"there is no topic '{name}'; there are: {', '.join(t.name for t in TOPICS)}") from None
    return wire


def _check_kind(kind: str | None) -> None:
    """Raises BadInput for a type that no record can have."""
    names = [*sorted(kind_of_event.event.__name__ for kind_of_event in CATALOGUE.kinds), *_OTHER_KINDS]
    if kind is not None and kind not in names:
        near = get_close_matches(kind, names, n=3) or names
        raise BadInput(f"--type '{kind}' is no type of event; there are: {', '.join(near)}")
