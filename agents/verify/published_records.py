"""The records in the output topics of a stage, as digests: enough to compare them without keeping them.

Topic and `ce_id` identify a record. An equal repeat is normal, because a stage publishes turns again after a crash; the places of
different repeats are kept. Ticks in an output topic are not decisions and are skipped.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.verify import record_comparison
from agents.verify.record_comparison import RecordDigest
from schemas.names import Place
from schemas.times import nearest_ms
from streams.codec.event_codec import Codec, header, is_of_a_clock
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.log_context import LogContext

_AT_ONCE = 5_000
_SHOWN_REPEATS = 3


@dataclass(slots=True)
class PublishedRecord:
    """One published id: its first place and digest, the number of its repeats, and the places where a repeat differs."""

    place: Place
    digest: RecordDigest
    source: str
    at: int
    """`ce_time` in milliseconds, which is the turn for a decision; -1 when the header is missing or is no time."""
    repeats: int = 0
    others: tuple[str, ...] = ()
    recomputed: bool = False
    late: bool = False
    """It was published while the inputs were replayed, so that they may not reach its turn."""


@dataclass(slots=True)
class PublishedRecords:
    """All records by topic (wire name) and id, with the first kept and the next offset of each partition."""

    records: dict[str, dict[str, PublishedRecord]] = field(default_factory=dict)
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    found: set[tuple[str, int, str]] = field(default_factory=set)
    """Each topic, partition and source with at least one recomputed record found here."""
    _by_turn: dict[tuple[str, int, str], list[tuple[int, int]]] = field(default_factory=dict)
    """For the partitions in which something is missing: turns and offsets of each source, in order."""

    def get(self, record: NewRecord) -> PublishedRecord | None:
        """What was published under the id of `record` in its topic."""
        entry = self.records[record.topic].get(header(record, "ce_id") or "")
        if entry is not None:
            self.found.add((record.topic, record.partition, entry.source))
        return entry

    def retention_took(self, record: NewRecord) -> bool:
        """Whether retention may have deleted it: its partition lost the beginning, and nothing of its source was found yet."""
        source = header(record, "ce_source") or ""
        return self.begins[record.topic, record.partition] > 0 and (record.topic, record.partition, source) not in self.found

    def gap(self, topic: str, partition: int, source: str, turn: int) -> str:
        """Where in a partition a missing record of this source and turn would be, in words: after and before which offsets."""
        place = (topic, partition, source)
        if place not in self._by_turn:
            entries = [e for e in self.records[topic].values() if e.place.partition == partition and e.source == source]
            self._by_turn[place] = sorted((e.at, e.place.offset) for e in entries)
        turns_and_offsets = self._by_turn[place]
        after, before = (bisect_left(turns_and_offsets, (number, -1)) for number in (turn, turn + 1))
        if not turns_and_offsets:
            return "which holds nothing of this source"
        words = [f"after offset {turns_and_offsets[after - 1][1]}"] if after else []
        words += [f"before offset {turns_and_offsets[before][1]}"] if before < len(turns_and_offsets) else []
        return " and ".join(words)

    def all(self) -> Iterator[tuple[str, str, PublishedRecord]]:
        """Topic (wire name), id and entry of all."""
        for topic, entries in self.records.items():
            for key, entry in entries.items():
                yield topic, key, entry


def read(context: LogContext, names: Sequence[str]) -> PublishedRecords:
    """Read the topics `names` (short) from the first kept offset to the end they have now."""
    places = [(context.topics.wire(name), p) for name in names for p in range(context.topics.partitions)]
    begins = {place: context.log.begin(*place) for place in places}
    published = PublishedRecords({wire: {} for wire, _ in places}, begins, dict(begins))
    catch_up(published, context, late=False)
    return published


def catch_up(published: PublishedRecords, context: LogContext, *, late: bool = True) -> None:
    """Read on to the end that the topics have now."""
    ends = {place: context.log.end(*place) for place in published.ends}
    # Ends first, for all places: what comes while they are read is of the next call.
    for place, end in ends.items():
        for record in _records(context, place, published.ends[place], end):
            if not is_of_a_clock(record):
                _apply(published.records[record.topic], record, context.codec, late=late)
    published.ends = ends


def _records(context: LogContext, place: tuple[str, int], position: int, end: int) -> Iterator[Record]:
    """Records of one partition between two offsets, a bounded number at a time."""
    while position < end:
        records = context.log.poll({place: position}, limit=_AT_ONCE)
        if not records:
            return
        yield from (r for r in records if r.offset < end)
        position = records[-1].offset + 1


def _apply(entries: dict[str, PublishedRecord], record: Record, codec: Codec, *, late: bool) -> None:
    key = header(record, "ce_id") or f"(no id) {record.place}"
    first = entries.get(key)
    if first is None:
        seal = record_comparison.digest(record, codec)
        entries[key] = PublishedRecord(record.place, seal, header(record, "ce_source") or "", _at(record), late=late)
    elif _says_the_same(first.digest, record, codec):
        first.repeats += 1
    else:
        first.others = (*first.others, str(record.place))[:_SHOWN_REPEATS]


def _says_the_same(first: RecordDigest, repeat: Record, codec: Codec) -> bool:
    """Whether a repeat has equal bytes; or, written by a newer version than the first, equal fields where both have them."""
    if first.whole == record_comparison.whole_digest(repeat):
        return True
    try:
        if not first.version or codec.older_version(repeat) == first.version:
            return False
        fields = record_comparison.field_digests(repeat, codec)
    except BadRecord:
        return False
    return all(fields.get(name, seal) == seal for name, seal in first.by_name().items())


def _at(record: Record) -> int:
    try:
        return nearest_ms(datetime.fromisoformat(header(record, "ce_time") or ""))
    except (ValueError, TypeError):
        return -1
