"""Copies a stretch of a log into an incident file, and an incident file into a log.

A stretch begins at a moment. What was in force then is older, so of the topics of rules, policies and control everything before
that moment is copied too, except ticks. A file or a log in memory takes the records at the places they had. Kafka assigns places
of its own; where these differ, the places that records name as their cause are changed accordingly.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from schemas.names import Place, cluster_of
from schemas.times import rfc3339
from streams.codec.event_codec import causes, tick_number
from streams.codec.headers import cause_bytes
from streams.compacted_copy import COPIES
from streams.errors import BadInput, BadRecord
from streams.incidents import incident_file
from streams.incidents.incident_file import IncidentFile
from streams.incidents.incident_manifest import IncidentManifest, PartitionTally
from streams.incidents.pseudonyms import Pseudonyms
from streams.log.log_port import Log, NewRecord, Record, TopicAndPartition
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import RecordImporter, event_time_ms, offset_at, read_range
from streams.topics import KeySpace

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
    bounds = {wire: _bounds(context, wire, stretch) for wire in stretch.topics}
    tallies = {(w, p): PartitionTally(begin, end) for w, each in bounds.items() for p, (begin, end) in enumerate(each)}
    clusters: set[str] = set()
    of = sum(end - begin for each in bounds.values() for begin, end in each)

    def records() -> Iterator[Record]:
        count = 0
        for wire in sorted(stretch.topics):
            for record in _taken(context, wire, stretch, bounds[wire]):
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


def _bounds(context: LogContext, wire: str, stretch: Stretch) -> list[tuple[int, int]]:
    """First offset and end of each partition."""
    log, found = context.log, []
    for partition in range(log.partitions(wire)):
        begin, end = log.begin(wire, partition), log.end(wire, partition)
        if isinstance(stretch.since, datetime) and not _in_force(context, wire):
            begin = offset_at(log, wire, partition, stretch.since)
        elif isinstance(stretch.since, Mapping) and not _in_force(context, wire):
            begin = stretch.since.get((wire, partition), begin)
        if stretch.until is not None:
            end = min(end, offset_at(log, wire, partition, stretch.until))
        found.append((begin, max(begin, end)))
    return found


def _in_force(context: LogContext, wire: str) -> bool:
    return any(wire == context.topics.wire(name) for name in _IN_FORCE)


def _taken(context: LogContext, wire: str, stretch: Stretch, bounds: Sequence[tuple[int, int]]) -> Iterator[Record]:
    since = {(wire, p): begin for p, (begin, _) in enumerate(bounds)}
    until = {(wire, p): end for p, (_, end) in enumerate(bounds)}
    for record in read_range(context.log, [wire], since=since, until=until):
        if tick_number(record) is None or _is_within(record, stretch.since):
            yield record


def _is_within(record: Record, since: datetime | Mapping[TopicAndPartition, int] | None) -> bool:
    """Whether a record is not older than the beginning of a stretch."""
    if isinstance(since, datetime):
        return event_time_ms(record) >= int(since.timestamp() * 1000)
    return since is None or record.offset >= since.get((record.topic, record.partition), 0)


def _cluster(context: LogContext, record: Record) -> Iterator[str]:
    """The cluster in a record's key, if it begins with one."""
    try:
        keyed = context.topics.topic(record.topic).keyed
    except KeyError:
        return
    if keyed in (KeySpace.WORKLOAD, KeySpace.CLUSTER) and tick_number(record) is None and record.key:
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
    for batch in _batches(file.records(salvaged=salvage)):
        to.import_records(batch)
        count += len(batch)
    return count


def to_log(file: IncidentFile, context: LogContext, *, salvage: bool = False) -> int:
    """Append the file to a log that gives places of its own; its topics must be empty. Raises BadInput, LogUnavailable."""
    places = _NewPlaces(file, context, salvage=salvage)
    count = 0
    for batch in _batches(file.records(salvaged=salvage)):
        count += len(context.log.append([places.moved(record) for record in batch]))
    return count


class _NewPlaces:
    """Where the records of a file will stand in another log. Raises BadInput for a log that they cannot go into."""

    def __init__(self, file: IncidentFile, context: LogContext, *, salvage: bool) -> None:
        manifest = file.manifest
        self._prefix = context.topics.prefix
        self._wires = {wire: self._renamed(wire, manifest.prefix, context.topics.prefix) for wire in manifest.topics}
        self._ends: dict[TopicAndPartition, int] = {}
        for wire, partitions in manifest.topics.items():
            self._require_empty(context.log, self._wires[wire], partitions)
        self._offsets: dict[TopicAndPartition, array[int]] = {}
        for record in file.records(salvaged=salvage):
            self._offsets.setdefault((record.topic, record.partition), array("q")).append(record.offset)

    @staticmethod
    def _renamed(wire: str, old: str, new: str) -> str:
        return f"{new}{wire.removeprefix(old)}" if wire.startswith(f"{old}.") else wire

    def _elsewhere(self, wire: str) -> str:
        """Where there is room for a topic: another prefix does not move the checkpoints of workers."""
        if wire.startswith(f"{self._prefix}."):
            return "topics of its own, `--set topics.prefix=incident`"
        return "an empty Kafka, or read the file as it is with --log"

    def _require_empty(self, log: Log, wire: str, partitions: Sequence[object]) -> None:
        if log.partitions(wire) != len(partitions):
            raise BadInput(f"topic '{wire}' has {log.partitions(wire)} partitions there and {len(partitions)} in the file")
        for partition in range(len(partitions)):
            end = log.end(wire, partition)
            if end > log.begin(wire, partition):
                raise BadInput(f"topic '{wire}' is not empty there: import into {self._elsewhere(wire)}")
            self._ends[wire, partition] = end

    def moved(self, record: Record) -> NewRecord:
        """The record in its new place."""
        headers = record.headers
        try:
            rests_on = causes(record)
        except BadRecord:
            rests_on = ()
        there = tuple(self._place(place) for place in rests_on)
        if there != rests_on:
            headers = tuple((name, cause_bytes(there) if name == "cause" else data) for name, data in headers)
        return NewRecord(self._wires[record.topic], record.partition, record.key, record.value, headers)

    def _place(self, place: Place) -> Place:
        """The new place of a record; a record that is not in the file keeps the name of its old place."""
        offsets, wire = self._offsets.get((place.topic, place.partition)), self._wires.get(place.topic, place.topic)
        at = 0 if offsets is None else bisect_left(offsets, place.offset)
        if offsets is None or at == len(offsets) or offsets[at] != place.offset:
            return replace(place, topic=wire)
        return Place(wire, place.partition, self._ends[wire, place.partition] + at)


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


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
