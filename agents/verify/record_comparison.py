"""Digests of records, by which published and recomputed decisions are compared without keeping either.

A record that today's version of its type wrote is compared byte for byte: partition, key, headers and value. A record that an
older version wrote is lifted first, and each field of its body gets a digest of its own; the entries of `because` and of the
settings in it count as fields. Such a record is compared in the fields that both versions have, and its `ce_type` may differ.

A field that both versions have and only one of two records has is a difference.

Of a stage's output topics only digests are kept. Topic and `ce_id` identify a record. An equal repeat is normal, because a stage
publishes turns again after a crash; the places of different repeats are kept.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

import orjson

from schemas.names import Place
from schemas.times import nearest_ms
from streams.codec.event_codec import Codec, header, is_of_a_clock
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.log_context import LogContext

ENVELOPE = "partition, key and headers"
"""The name under which these are compared, as if they were a field."""
_WHOLE_BYTES, _FIELD_BYTES = 16, 8
_TYPE = "ce_type"
_NESTED = ("because", "because.settings")
"""Fields whose entries count as fields of their own: versions add and drop entries."""


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """`whole` covers all bytes of a record. If an older version wrote it, `fields` holds a digest for each of `names`."""

    whole: bytes
    version: str = ""
    """The `ce_type` of a record that an older version wrote; empty for today's."""
    names: tuple[str, ...] = ()
    fields: bytes = b""

    def by_name(self) -> Mapping[str, bytes]:
        """The digest of each field."""
        return {name: self.fields[i * _FIELD_BYTES : (i + 1) * _FIELD_BYTES] for i, name in enumerate(self.names)}


def digest(record: Record, codec: Codec) -> RecordDigest:
    """The digest of a published record."""
    whole = whole_digest(record)
    try:
        version = codec.older_version(record)
        if not version:
            return RecordDigest(whole)
        digests = field_digests(record, codec)
    except BadRecord:
        return RecordDigest(whole)
    return RecordDigest(whole, version, tuple(digests), b"".join(digests.values()))


def whole_digest(record: Record | NewRecord) -> bytes:
    """128 bits over partition, key, headers and value; absent differs from empty."""
    parts = [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]
    return _hash(record.partition, parts, _WHOLE_BYTES)


def field_digests(record: Record | NewRecord, codec: Codec) -> dict[str, bytes]:
    """64 bits for each field, by name. Raises BadRecord when the record holds no event."""
    return {name: _hash(record.partition, [value], _FIELD_BYTES) for name, value in written_fields(record, codec).items()}


def written_fields(record: Record | NewRecord, codec: Codec) -> dict[str, bytes]:
    """Each field as JSON, as today's version writes it; without those that the record's own version does not have."""
    headers = [[name, value.hex()] for name, value in record.headers if name != _TYPE]
    written: dict[str, bytes] = {ENVELOPE: orjson.dumps([record.partition, (record.key or b"").hex(), headers])}
    for name, value in codec.fields(record).items():
        for path, inner in _entries(name, value, _NESTED):
            written[path] = orjson.dumps(inner, option=orjson.OPT_SORT_KEYS)
    return written


def _entries(path: str, value: object, nested: Collection[str]) -> Iterator[tuple[str, object]]:
    """The value itself; or each of its entries, where they count as fields of their own."""
    if path not in nested or not isinstance(value, dict):
        yield path, value
        return
    for name, inner in value.items():
        yield from _entries(f"{path}.{name}", inner, nested)


def _hash(partition: int, parts: list[bytes | None], size: int) -> bytes:
    seal = blake2b(digest_size=size)
    # With lengths, so that no two different records give the same bytes, and nothing is not the same as empty.
    seal.update(b"%d;%d;" % (partition, len(parts)))
    for part in parts:
        seal.update(b"-;" if part is None else b"%d;" % len(part) + part)
    return seal.digest()


def first_difference(there: Record, here: NewRecord) -> str:
    """Where two records with one id first differ: partition, key, a header, or a byte of the value."""
    if there.partition != here.partition:
        return f"published in partition {there.partition}, recomputed for {here.partition}"
    if there.key != here.key:
        return f"the key is {_quoted(there.key)}, recomputed {_quoted(here.key)}"
    before, now = list(there.headers), list(here.headers)
    for i in range(max(len(before), len(now))):
        old, new = (h[i] if i < len(h) else None for h in (before, now))
        if old != new:
            return f"header {i} is {_header(old)}, recomputed {_header(new)}"
    return _first_byte(there.value, here.value)


def field_difference(there: Record, here: NewRecord, names: Sequence[str], codec: Codec) -> str:
    """The values of both records in the first differing field, and the names of the others."""
    old, new = (written_fields(record, codec).get(names[0], b"") for record in (there, here))
    others = f"; {', '.join(names[1:])} differ too" if len(names) > 1 else ""
    at = _first_unequal(old, new)
    return f"{names[0]}: published {_around(old, at)}, recomputed {_around(new, at)}{others}"


def _first_byte(old: bytes | None, new: bytes | None) -> str:
    if old is None or new is None:
        return f"the value is {_quoted(old)}, recomputed {_quoted(new)}"
    at = _first_unequal(old, new)
    return f"byte {at} of the value: published {_around(old, at)}, recomputed {_around(new, at)}"


def _quoted(data: bytes | None) -> str:
    return "absent" if data is None else f"{data!r:.80}"


def _header(header: tuple[str, bytes] | None) -> str:
    return "absent" if header is None else f"{header[0]} {_quoted(header[1])}"


def _first_unequal(old: bytes, new: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _around(text: bytes, at: int) -> str:
    begin = max(at - 30, 0)
    return f"…{text[begin : at + 30]!r}"


@dataclass(slots=True)
class FieldCensus:
    """The fields that published records of each older version have, and those of the records recomputed for them."""

    _published: dict[str, set[str]] = field(default_factory=dict)
    _recomputed: dict[str, set[str]] = field(default_factory=dict)
    _lacking: Counter[tuple[str, str]] = field(default_factory=Counter)
    _examples: dict[tuple[str, str], str] = field(default_factory=dict)

    def differing(self, published: RecordDigest, recomputed: Mapping[str, bytes], where: str) -> list[str]:
        """The fields that both records have and that differ. `where` names the published record."""
        theirs = published.by_name()
        self._published.setdefault(published.version, set()).update(theirs)
        self._recomputed.setdefault(published.version, set()).update(recomputed)
        for name in theirs.keys() ^ recomputed.keys():
            self._lacking[published.version, name] += 1
            self._examples.setdefault((published.version, name), where)
        return [name for name, seal in theirs.items() if recomputed.get(name, seal) != seal]

    def lacking(self) -> Iterator[tuple[str, int]]:
        """A sentence and a number of records for each field that both versions have and some record has on one side only."""
        for (version, name), count in sorted(self._lacking.items()):
            # Which fields both versions have follows from the records: one that no record of a side has is new, or gone.
            if name in self._published[version] and name in self._recomputed[version]:
                example = self._examples[version, name]
                yield f"{example}: only one of the published record ({version}) and the recomputed one has '{name}'", count


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
        # Retention takes the oldest first, so after one that is found nothing of its source is gone.
        return self.begins[record.topic, record.partition] > 0 and (record.topic, record.partition, source) not in self.found

    def gap(self, topic: str, partition: int, source: str, turn: int) -> str:
        """Where in a partition a missing record of this source and turn would be, in words: after and before which offsets."""
        place = (topic, partition, source)
        if place not in self._by_turn:
            # Made only where something is missing, because it sorts all that a partition has.
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
        seal = digest(record, codec)
        entries[key] = PublishedRecord(record.place, seal, header(record, "ce_source") or "", _at(record), late=late)
    # After a crash a worker publishes its last turn again, which is no fault where it says the same.
    elif _says_the_same(first.digest, record, codec):
        first.repeats += 1
    else:
        first.others = (*first.others, str(record.place))[:_SHOWN_REPEATS]


def _says_the_same(first: RecordDigest, repeat: Record, codec: Codec) -> bool:
    """Whether a repeat has equal bytes; or, written by a newer version than the first, equal fields where both have them."""
    if first.whole == whole_digest(repeat):
        return True
    try:
        if not first.version or codec.older_version(repeat) == first.version:
            return False
        fields = field_digests(repeat, codec)
    except BadRecord:
        return False
    return all(fields.get(name, seal) == seal for name, seal in first.by_name().items())


def _at(record: Record) -> int:
    try:
        return nearest_ms(datetime.fromisoformat(header(record, "ce_time") or ""))
    except (ValueError, TypeError):
        return -1
