"""Copies a stretch of a log into an incident file, and an incident file into a log.

A stretch is cut by the clock: of each topic it has what is in the turns of that time. What was in force at its beginning is
older, so of the topics of rules, policies and control everything before is copied, too. The clock's records are always copied,
and the first of them is made a full one. A file or a log in memory takes the records at the places they had. Kafka assigns
places of its own; where these differ, the places that records name as their cause, and the ends that ticks say, are changed
accordingly.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from schemas.names import Place, cluster_of
from schemas.times import rfc3339
from streams import clock_log
from streams.clock_rules import FILL, PARTITION, ClockRecord, Counted
from streams.codec.event_codec import causes, is_of_a_clock
from streams.codec.headers import CAUSES, cause_headers
from streams.compacted_copy import COPIES
from streams.errors import BadInput, BadRecord
from streams.incidents import incident_file
from streams.incidents.incident_file import IncidentFile
from streams.incidents.incident_manifest import IncidentManifest, PartitionTally
from streams.incidents.pseudonyms import Pseudonyms
from streams.log.log_port import Log, NewRecord, Record, TopicAndPartition
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import RecordImporter, batches, offset_at, read_range
from streams.topics import CLOCK, KeySpace, Topics

_AT_ONCE = 1_000
_IN_FORCE = tuple(name for pair in COPIES.items() for name in pair)
"""Topics (short names) of which a stretch needs what is older than its beginning."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to copy: `topics` by wire name, from `since` up to, but without, `until`; None is all there is.

    `since` may also say offsets by topic and partition, and then what was in force before is taken all the same.
    """

    topics: Sequence[str]
    since: datetime | Mapping[TopicAndPartition, int] | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Cuts:
    """What counted of the clock before a stretch, and at its end (None: all there is)."""

    since: Counted
    until: Counted | None


def ignore(_records: int, _of: int) -> None:
    """Reports no progress."""


def to_file(  # noqa: PLR0913  # wired in one place
    context: LogContext,
    path: Path,
    stretch: Stretch,
    made_by: str,
    names: Pseudonyms | None = None,
    *,
    at_work: Sequence[tuple[str, int]] = (),
    progress: Callable[[int, int], None] = ignore,
) -> IncidentManifest:
    """Write the stretch; what the manifest says. Raises BadInput, LogUnavailable.

    `at_work` goes into it: the stages and partitions that workers are working on. `progress` is called after each record with
    their number and the number of offsets.
    """
    cuts = _cuts(context, stretch)
    bounds = {wire: _bounds(context, wire, stretch, cuts) for wire in stretch.topics}
    tallies = {(w, p): PartitionTally(begin, end) for w, ends in bounds.items() for p, (begin, end) in enumerate(ends)}
    clusters: set[str] = set()
    of = sum(end - begin for bound in bounds.values() for begin, end in bound)

    def records() -> Iterator[Record]:
        count = 0
        for wire in sorted(stretch.topics):
            for record in _taken(context, wire, cuts, bounds[wire]):
                shown = record if names is None else names.record(record)
                clusters.update(_cluster(context, shown))
                yield shown
                count += 1
                progress(count, of)

    since = stretch.since if isinstance(stretch.since, datetime) else None
    manifest = IncidentManifest(
        made_by,
        context.topics.prefix,
        context.topics.partitions,
        (),
        "" if since is None else rfc3339(since),
        "" if stretch.until is None else rfc3339(stretch.until),
        "" if names is None else names.fingerprint,
        {},
        {},
        tuple(at_work),
    )
    return incident_file.write(path, records(), manifest, tallies, lambda: tuple(sorted(clusters)))


def _cuts(context: LogContext, stretch: Stretch) -> _Cuts:
    log, topics, until = context.log, context.topics, None
    if topics.wire(CLOCK) not in stretch.topics:
        return _Cuts(Counted(), None)
    if stretch.until is not None:
        # a millisecond before: the moment `until` itself is no part of the stretch
        until = clock_log.counted_at(log, topics, stretch.until - timedelta(milliseconds=1))
    if isinstance(stretch.since, datetime):
        return _Cuts(clock_log.counted_at(log, topics, stretch.since - timedelta(milliseconds=1)), until)
    begin = None if stretch.since is None else stretch.since.get(clock_log.place(topics))
    if begin is None:
        return _Cuts(Counted(), until)
    since = clock_log.counted(log, topics, before=begin)
    for record in clock_log.between(log, clock_log.place(topics), since.next, begin):
        since.take(record)
    return _Cuts(since, until)


def _bounds(context: LogContext, wire: str, stretch: Stretch, cuts: _Cuts) -> list[tuple[int, int]]:
    """First offset and end of each partition."""
    log, bounds, name = context.log, [], _short(context, wire)
    for partition in range(log.partitions(wire)):
        begin, end = log.begin(wire, partition), log.end(wire, partition)
        # from the last tick before the stretch, which is made a full one
        if name == CLOCK and cuts.since.last is not None:
            begin = max(begin, cuts.since.last.offset)
        elif isinstance(stretch.since, datetime) and not _in_force(context, wire):
            begin = max(begin, min(end, cuts.since.end(name, partition)))
        elif isinstance(stretch.since, Mapping) and not _in_force(context, wire):
            begin = stretch.since.get((wire, partition), begin)
        if stretch.until is not None and cuts.until is not None:
            ticked = cuts.until.next if name == CLOCK else cuts.until.end(name, partition)
            decided = offset_at(log, wire, partition, stretch.until) if clock_log.comes_after_its_tick(name) else 0
            # decisions of the last turn lie behind its tick, and belong to the stretch
            end = min(end, max(ticked, decided))
        bounds.append((begin, max(begin, end)))
    return bounds


def _short(context: LogContext, wire: str) -> str:
    """The short name of a topic; empty for a changelog."""
    try:
        # a changelog is no topic of the catalogue
        return context.topics.short(wire)
    except KeyError:
        return ""


def _in_force(context: LogContext, wire: str) -> bool:
    return any(wire == context.topics.wire(name) for name in _IN_FORCE)


def _taken(context: LogContext, wire: str, cuts: _Cuts, bounds: Sequence[tuple[int, int]]) -> Iterator[Record]:
    since = {(wire, p): begin for p, (begin, _) in enumerate(bounds)}
    until = {(wire, p): end for p, (_, end) in enumerate(bounds)}
    first = cuts.since.last
    for record in read_range(context.log, [wire], since=since, until=until):
        tick = ClockRecord.decode(record) if first is not None and wire == context.topics.wire(CLOCK) else None
        if first is None or tick is None or record.offset != first.offset:
            yield record
        else:  # made a full one, as nothing before it is in the file
            value = replace(tick, ends=cuts.since.ends, full=True).encode(wire).value
            yield replace(record, value=value)


def _cluster(context: LogContext, record: Record) -> Iterator[str]:
    """The cluster in a record's key, if it begins with one."""
    try:
        keyed = context.topics.topic(record.topic).keyed
    except KeyError:
        return
    if keyed in (KeySpace.WORKLOAD, KeySpace.CLUSTER) and not is_of_a_clock(record) and record.key:
        yield cluster_of(record.key.decode(errors="replace"))


def checked(file: IncidentFile, *, salvage: bool) -> list[str]:
    """Sentences about a file's faults. Raises BadInput for them unless the file is to be salvaged."""
    faults = file.check().sentences()
    if faults and not salvage:
        shown = "; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")  # noqa: PLR2004  # as shown
        raise BadInput(f"the incident file '{file.path}' is damaged: {shown}. `ullage import --salvage` takes what is whole")
    return faults


def to_places(file: IncidentFile, to: RecordImporter, *, salvage: bool = False) -> int:
    """Copy the file into a log that takes records with their places; how many. Raises BadInput."""
    for topic, partitions in file.manifest.topics.items():
        to.create(topic, len(partitions))
    count = 0
    for batch in batches(file.records(salvaged=salvage), _AT_ONCE):
        to.import_records(batch)
        count += len(batch)
    for topic, partitions in file.manifest.topics.items():
        for number, partition in enumerate(partitions):
            if to.end(topic, number) < partition.end:  # readers wait for the ends that the clock says
                to.import_records([Record(topic, number, partition.end - 1, FILL, b"")])
    return count


def to_log(file: IncidentFile, context: LogContext, *, salvage: bool = False) -> int:
    """Append the file to a log that gives places of its own; how many records. Raises BadInput, LogUnavailable.

    Its topics must be empty there. Checkpoints stay behind: they name offsets of the log that they came from.
    """
    places = _NewPlaces(file, context, salvage=salvage)
    count = 0
    for batch in batches(file.records(salvaged=salvage), _AT_ONCE):
        count += len(context.log.append([places.moved(record) for record in batch if places.holds(record)]))
    return count


class _NewPlaces:
    """Where the records of a file will stand in another log. Raises BadInput for a log that they cannot go into."""

    def __init__(self, file: IncidentFile, context: LogContext, *, salvage: bool) -> None:
        manifest = file.manifest
        self._old = Topics(manifest.prefix)
        ours = {wire: wire.removeprefix(manifest.prefix) for wire in manifest.topics if wire.startswith(f"{manifest.prefix}.")}
        self._wires = {wire: f"{context.topics.prefix}{name}" for wire, name in ours.items()}
        self._ends: dict[TopicAndPartition, int] = {}
        for wire in ours:
            self._require_empty(context.log, self._wires[wire], manifest.topics[wire])
        # arrays of 64-bit numbers, because a list of as many takes several times the memory
        self._offsets: dict[TopicAndPartition, array[int]] = {}
        for record in file.records(salvaged=salvage):
            self._offsets.setdefault((record.topic, record.partition), array("q")).append(record.offset)

    def holds(self, record: Record) -> bool:
        """Whether the record goes there."""
        return record.topic in self._wires

    def _require_empty(self, log: Log, wire: str, partitions: Sequence[object]) -> None:
        if log.partitions(wire) != len(partitions):
            raise BadInput(f"topic '{wire}' has {log.partitions(wire)} partitions there and {len(partitions)} in the file")
        for partition in range(len(partitions)):
            end = log.end(wire, partition)
            if end > log.begin(wire, partition):
                raise BadInput(
                    f"topic '{wire}' is not empty there: import into topics of its own, `--set topics.prefix=incident`"
                )
            self._ends[wire, partition] = end

    def moved(self, record: Record) -> NewRecord:
        """The record in its new place."""
        headers = record.headers
        if record.topic == self._old.wire(CLOCK) and (tick := ClockRecord.decode(record)) is not None:
            return self._tick(tick).encode(self._wires[record.topic])
        try:
            rests_on = causes(record)
        # a cause that cannot be read stays as it is written
        except BadRecord:
            rests_on = ()
        there = tuple(self._place(place) for place in rests_on)
        if there != rests_on:
            rewritten = dict(cause_headers(there))
            headers = tuple((name, rewritten[name] if name in CAUSES else data) for name, data in headers)
        return NewRecord(self._wires[record.topic], record.partition, record.key, record.value, headers)

    def _tick(self, tick: ClockRecord) -> ClockRecord:
        """The tick with the ends that the partitions have there. What came before the file is no more."""
        clock = self._old.wire(CLOCK), PARTITION
        after = None
        if tick.after is not None and _holds(self._offsets.get(clock), tick.after[0]):
            after = (self._end(clock, tick.after[0]), tick.after[1])
        ends = {
            (name, p): self._end(place, end)
            for (name, p), end in tick.ends.items()
            if (place := (self._old.wire(name), p))[0] in self._wires
        }
        return replace(tick, after=after, ends=ends)

    def _end(self, place: TopicAndPartition, end: int) -> int:
        """Where the records before this offset of a partition end there."""
        return self._ends[self._wires[place[0]], place[1]] + bisect_left(self._offsets.get(place, array("q")), end)

    def _place(self, place: Place) -> Place:
        """The new place of a record; a record that is not in the file keeps the name of its old place."""
        offsets, wire = self._offsets.get((place.topic, place.partition)), self._wires.get(place.topic, place.topic)
        at = 0 if offsets is None else bisect_left(offsets, place.offset)
        if offsets is None or at == len(offsets) or offsets[at] != place.offset:
            return replace(place, topic=wire)
        return Place(wire, place.partition, self._ends[wire, place.partition] + at)


def _holds(offsets: "array[int] | None", offset: int) -> bool:
    at = 0 if offsets is None else bisect_left(offsets, offset)
    return offsets is not None and at < len(offsets) and offsets[at] == offset


class IncidentLog(MemoryLog):
    """An incident file as a log that can only be read, at the places its records had. Raises BadInput for a damaged file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        with IncidentFile(path) as file:
            self.manifest = file.manifest
            checked(file, salvage=False)
            to_places(file, self)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:  # noqa: ARG002  # the port's; nothing is taken
        """Raises BadInput: an incident is what it was."""
        raise BadInput(f"'{self.path}' is an incident file, which nothing is appended to; `ullage import` makes a log of it")
