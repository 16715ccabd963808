"""How `ullage tap` reads a topic: which records are wanted, and one text for each, for people or for programs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import orjson

from agents.inspect import start_positions
from agents.processes.output import data
from agents.processes.signals import until_stopped
from agents.settings import log_factory
from agents.settings.tree import Settings
from schemas.facts.usage import MetricsScraped
from streams import replay
from streams.codec.event_codec import Codec, tick_number
from streams.errors import BadInput, BadRecord
from streams.log.port import Record
from streams.topics import Topics

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records to show. `limit` None means all."""

    key: str = "*"
    kind: str | None = None
    limit: int | None = None
    ticks: bool = False

    def wants(self, record: Record, kind: str) -> bool:
        """Whether this record is shown; `kind` is the class name of its event, or what stands for it."""
        if tick_number(record) is not None:
            return self.ticks
        key = (record.key or b"").decode(errors="replace")
        return fnmatchcase(key, self.key) and self.kind in {None, kind}


def run(settings: Settings, topic: str, *, begin: str, follow: bool, wanted: RecordFilter, pretty: bool) -> None:  # noqa: PLR0913  # flags
    """Print what is wanted from `begin` to the end, in order of event time; or for ever, what is new as it comes."""
    topics = log_factory.topics(settings)
    wire = _wire(topics, topic)
    codec = Codec(topics)
    with until_stopped(), log_factory.log(settings) as log:
        now = time.time_ns() // 1_000_000  # "1h ago" is meant by the reader's clock
        positions = start_positions.positions(log, [wire], begin, now_ms=now)
        records = (replay.follow if follow else replay.stretch)(log, [wire], since=positions, merged=True)
        for count, text in enumerate(_texts(records, codec, wanted, pretty=pretty), 1):
            data(text, now=follow)
            if count == wanted.limit:
                return


def _texts(records: Iterator[Record], codec: Codec, wanted: RecordFilter, *, pretty: bool) -> Iterator[str]:
    for record in records:
        kind, lines = _read(record, codec)
        if wanted.wants(record, kind):
            yield "\n".join([_heading(record, kind), *lines]) if pretty else _json(record, kind)


def _read(record: Record, codec: Codec) -> tuple[str, list[str]]:
    """The name of what the record holds, and its content in lines."""
    number = tick_number(record)
    if number is not None:
        return "tick", [f"    at: {_EPOCH + timedelta(milliseconds=number):%Y-%m-%d %H:%M:%S.%f}"]
    try:
        event = codec.decode(record)
    except BadRecord as error:
        return "unreadable", [f"    {error}", f"    {(record.value or b'')[:200]!r}"]
    if isinstance(event, MetricsScraped):
        rows = zip(event.workloads, event.pods, event.containers, event.cores, event.memory, strict=True)
        return "MetricsScraped", [f"    {w} {p} {c}: {cores:.3f} cores, {size:.0f} bytes" for w, p, c, cores, size in rows]
    return type(event).__name__, [f"    {f.name}: {_short(getattr(event, f.name))}" for f in fields(event) if f.name != "at"]


def _short(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _heading(record: Record, kind: str) -> str:
    taken = f"{_EPOCH + timedelta(milliseconds=record.timestamp_ms):%H:%M:%S}  " if record.timestamp_ms >= 0 else ""
    return f"{taken}{record.place}  {kind}  {(record.key or b'').decode(errors='replace')}"


def _json(record: Record, kind: str) -> str:
    try:
        value: object = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        value = (record.value or b"").decode(errors="replace")
    return orjson.dumps(
        {
            "place": str(record.place),
            "taken_ms": record.timestamp_ms,
            "type": kind,
            "key": None if record.key is None else record.key.decode(errors="replace"),
            "headers": {name: text.decode(errors="replace") for name, text in record.headers},
            "value": value,
        }
    ).decode()


def _wire(topics: Topics, name: str) -> str:
    wire = topics.wire(name)
    try:
        topics.topic(wire)
    except KeyError:
        from streams.topics import TOPICS

        raise BadInput(f"there is no topic '{name}'; there are: {', '.join(t.name for t in TOPICS)}") from None
    return wire
