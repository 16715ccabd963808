"""What is in the output topics of a stage, as digests: enough to compare bytes without keeping them.

A record is known by topic and `ce_id`. A repeat with equal bytes is normal (a turn that was taken again), one with other
bytes is remembered. Ticks in an output topic are nobody's decisions and left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from agents.engine.turn import EPOCH
from schemas.names import Place
from streams.codec.event_codec import header, tick_number
from streams.log.port import NewRecord, Record
from streams.log_context import LogContext


@dataclass(slots=True)
class Entry:
    """One published id: its first place and digest, how often it was repeated, and the places where its bytes differ."""

    place: Place
    digest: bytes
    source: str
    at: int
    """`ce_time` in milliseconds, which is the turn for a decision; -1 when the header is missing or is no time."""
    repeats: int = 0
    others: tuple[str, ...] = ()
    met: bool = False
    late: bool = False
    """It came while the inputs were replayed, so that they may not reach its turn."""


@dataclass(slots=True)
class Published:
    """All entries by topic (wire name) and id, and the partitions of which retention took the beginning."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    met: set[tuple[str, int, str]] = field(default_factory=set)
    """Topic, partition and source of which something kept was asked for."""

    def get(self, record: NewRecord) -> Entry | None:
        """What was published under the id of `record` in its topic."""
        entry = self.entries[record.topic].get(header(record, "ce_id") or "")
        if entry is not None:
            self.met.add((record.topic, record.partition, entry.source))
        return entry

    def forgot(self, record: NewRecord) -> bool:
        """Whether retention may have taken it: its partition lost the beginning, and nothing kept of its source was asked for."""
        source = header(record, "ce_source") or ""
        return self.begins[record.topic, record.partition] > 0 and (record.topic, record.partition, source) not in self.met

    def all(self) -> Iterator[tuple[str, str, Entry]]:
        """Topic (wire name), id and entry of all."""
        for topic, entries in self.entries.items():
            for key, entry in entries.items():
                yield topic, key, entry


def read(context: LogContext, names: Sequence[str]) -> Published:
    """Read the topics `names` (short) from the first kept offset to the end they have now."""
    places = [(context.topics.wire(name), p) for name in names for p in range(context.topics.partitions)]
    begins = {place: context.log.begin(*place) for place in places}
    found = Published({wire: {} for wire, _ in places}, begins, dict(begins))
    catch_up(found, context, late=False)
    return found


def catch_up(found: Published, context: LogContext, *, late: bool = True) -> None:
    """Read on to the end that the topics have now."""
    ends = {place: context.log.end(*place) for place in found.ends}
    for place, end in ends.items():
        for record in _stretch(context, place, found.ends[place], end):
            if tick_number(record) is None:
                _put(found.entries[record.topic], record, late=late)
    found.ends = ends


def _stretch(context: LogContext, place: tuple[str, int], position: int, end: int) -> Iterator[Record]:
    """Records of one partition between two offsets, a bounded piece at a time."""
    while position < end:
        records = context.log.poll({place: position}, limit=5_000)
        if not records:
            return
        yield from (r for r in records if r.offset < end)
        position = records[-1].offset + 1


def _put(entries: dict[str, Entry], record: Record, *, late: bool) -> None:
    key = header(record, "ce_id") or f"(no id) {record.place}"
    known, seal = entries.get(key), digest(record)
    if known is None:
        entries[key] = Entry(record.place, seal, header(record, "ce_source") or "", _at(record), late=late)
    elif known.digest == seal:
        known.repeats += 1
    else:
        known.others = (*known.others, str(record.place))[:3]


def _at(record: Record) -> int:
    try:
        at = datetime.fromisoformat(header(record, "ce_time") or "")
        return round((at - EPOCH).total_seconds() * 1000)
    except (ValueError, TypeError):
        return -1


def digest(record: Record | NewRecord) -> bytes:
    """128 bits over partition, key, headers and value; absent is not empty."""
    seal = blake2b(digest_size=16)
    parts = [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]
    seal.update(b"%d;%d;" % (record.partition, len(parts)))
    for part in parts:
        seal.update(b"-;" if part is None else b"%d;" % len(part) + part)
    return seal.digest()


def first_difference(there: Record, here: NewRecord) -> str:
    """Where two records with one id first differ: partition, key, a header, or a byte of the value."""
    if there.partition != here.partition:
        return f"published in partition {there.partition}, recomputed for {here.partition}"
    if there.key != here.key:
        return f"the key is {there.key!r}, recomputed {here.key!r}"
    before, now = list(there.headers), list(here.headers)
    for i in range(max(len(before), len(now))):
        old, new = (h[i] if i < len(h) else None for h in (before, now))
        if old != new:
            return f"header {i} is {old!r}, recomputed {new!r}"
    return _first_byte(there.value, here.value)


def _first_byte(old: bytes | None, new: bytes | None) -> str:
    if old is None or new is None:
        return f"the value is {old!r:.80}, recomputed {new!r:.80}"
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    begin = max(at - 30, 0)
    return f"byte {at} of the value: published …{old[begin : at + 30]!r}, recomputed …{new[begin : at + 30]!r}"
