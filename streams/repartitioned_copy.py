"""Copies a log into topics of another prefix that have another number of partitions, turn by turn.

A key's partition follows from their number, so each record goes to where its key belongs there; a scrape, which has many keys, is
cut by them. Between two ticks the copy has what the log has between them, and its ticks say the ends that it has itself. So every
turn takes in there what it took in here, and whoever takes the turns again gets the state of a log that always had so many
partitions. Ids and places that records name are changed accordingly. Dead letters stay where they are.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

from schemas.catalogue import Event
from schemas.decisions.plan_attestations import PlansAttested
from schemas.facts.replica_scaling import LoadScraped
from schemas.facts.usage import MetricsScraped
from schemas.ids import DecisionId, TaskSource
from schemas.names import Place, cluster_of
from streams import clock_log, compacted_copy
from streams.clock_rules import ClockRecord, Counted, Tick
from streams.codec import plan_attestations
from streams.codec.event_codec import causes, header, is_of_a_clock
from streams.codec.headers import cause_headers
from streams.errors import BadInput, BadRecord
from streams.log.log_port import NewRecord, Record, TopicAndPartition
from streams.log_context import LogContext
from streams.log_range import batches, read_range
from streams.topics import CLOCK, TOPICS, KeySpace, Topics

_MOVED = "moved-from-"
"""What the name of a copy's last tick begins with; how many partitions there were follows."""
_TICKS = 500
"""Ticks whose records are read together, which is some minutes."""
_AT_ONCE = 1000
"""Records in one append."""
_APART = frozenset({CLOCK, plan_attestations.TOPIC, "dead-letters"})
_COPIED = tuple(topic for topic in TOPICS if topic.name not in _APART and topic.keyed is not KeySpace.LATEST)
_BROADCAST = frozenset(topic.name for topic in TOPICS if topic.keyed is KeySpace.BROADCAST)
_BY_CLUSTER = frozenset({"updater", "conditions", "scaler"})
"""Stages whose partition is that of a cluster; that of the others is that of a workload."""
_ID = re.compile(rb"\b(recommender|conditions|updater|scaler|forecaster)/(\d{1,4})/(\d{1,15})/")


def moved_until(context: LogContext) -> int:
    """The number of the last tick that was copied from a log with other partitions; -1 in a log that is no copy."""
    counted = clock_log.first_counted(context.log, context.topics)
    last = -1
    first = [] if counted.last is None else [counted.last]
    for tick in (*first, *clock_log.ticks_from(context.log, context.topics, counted)):
        if tick.name.startswith(_MOVED):
            last = tick.number
    return last


def copy(old: LogContext, new: LogContext, progress: Callable[[int], object] = lambda _: None) -> int:
    """Copy everything; how many records stand in the copy. `progress` hears this number after each stretch.

    Raises BadInput for topics there that are not empty, or where somebody writes into this log or that one meanwhile, and
    LogUnavailable.
    """
    return _Copy(old, new).run(progress)


@dataclass(slots=True)
class _Whereabouts:
    """Where the records of one partition stand in the copy: for each its offset here, and how many places before its own."""

    offsets: "array[int]"
    begins: "array[int]"
    partitions: "array[int]"
    there: "array[int]"

    @staticmethod
    def none() -> "_Whereabouts":
        return _Whereabouts(array("q"), array("q"), array("i"), array("q"))

    def add(self, offset: int, places: Iterable[tuple[int, int]]) -> None:
        self.offsets.append(offset)
        self.begins.append(len(self.there))
        for partition, there in places:
            self.partitions.append(partition)
            self.there.append(there)

    def of(self, offset: int, wanted: int) -> tuple[int, int] | None:
        """The partition and offset of a record, in the partition `wanted` if it stands there, too."""
        at = bisect_left(self.offsets, offset)
        if at == len(self.offsets) or self.offsets[at] != offset:
            return None
        begin = self.begins[at]
        end = self.begins[at + 1] if at + 1 < len(self.begins) else len(self.there)
        places = [(self.partitions[i], self.there[i]) for i in range(begin, end)]
        return next((place for place in places if place[0] == wanted), places[0] if places else None)


class _Copy:
    def __init__(self, old: LogContext, new: LogContext) -> None:
        self._old, self._new = old, new
        pattern = rb"(%b\.[a-z-]+\.v1)" % re.escape(old.topics.prefix.encode())
        self._texts = re.compile(rb'"%b:(\d{1,4}):(\d{1,18})"' % pattern)
        self._objects = re.compile(rb'\{"topic":"%b","partition":(\d{1,4}),"offset":(\d{1,18})\}' % pattern)
        self._ends: dict[TopicAndPartition, int] = {}
        """The offsets after the last record of each partition of the copy, by short name."""
        for topic in TOPICS:
            for partition in range(new.topics.count(topic.name)):
                wire = new.topics.wire(topic.name)
                end = self._ends[topic.name, partition] = new.log.end(wire, partition)
                if end > new.log.begin(wire, partition):
                    raise BadInput(f"topic '{wire}' is not empty: move into a prefix that nobody has used")
        self._where: dict[TopicAndPartition, _Whereabouts] = {}
        self._broadcast: dict[tuple[str, int, int], bytes] = {}
        """What each record of a broadcast topic says, by short name, partition and offset."""
        self._said: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
        """Where in the copy that stands, in each partition."""
        self._attested: set[str] = set()
        self._last: tuple[int, str] | None = None
        self._told: dict[TopicAndPartition, int] = {}
        self._count = 0

    def run(self, progress: Callable[[int], object]) -> int:
        log, topics = self._old.log, self._old.topics
        names = [topic.name for topic in _COPIED] + [plan_attestations.TOPIC]
        ends = {(name, p): log.end(topics.wire(name), p) for name in names for p in range(topics.count(name))}
        counted = clock_log.first_counted(log, topics)
        done = {place: log.begin(topics.wire(place[0]), place[1]) for place in ends}
        newest: Tick | None = None
        for ticks in batches(self._ticks(counted), _TICKS):
            self._stretch(ticks, done, ends)
            newest = ticks[-1][0]
            progress(self._count)
        if newest is None:
            raise BadInput(f"topic '{topics.wire(CLOCK)}' has no tick, so there is nothing to move")
        # A name of its own says that what was decided up to there was decided elsewhere: it is shown, but not compared.
        last = replace(newest, number=newest.number + 1, name=f"{_MOVED}{topics.partitions}")
        self._stretch([(last, ends, True)], done, ends)
        for name in compacted_copy.COPIES:
            compacted_copy.complete(self._new.log, self._new.topics, name)
        moved = [place for place, end in ends.items() if log.end(topics.wire(place[0]), place[1]) != end]
        if moved:
            wire = topics.wire(moved[0][0])
            raise BadInput(f"somebody wrote into '{wire}' meanwhile: end every process on this log, and move into another prefix")
        return self._count

    def _ticks(self, counted: Counted) -> Iterator[tuple[Tick, Mapping[TopicAndPartition, int], bool]]:
        """Each tick, the ends in force with it that moved, and whether it says all."""
        if counted.last is not None:
            yield counted.last, dict(counted.ends), True
        for tick in clock_log.ticks_from(self._old.log, self._old.topics, counted):
            yield tick, tick.moved, len(tick.moved) >= len(counted.ends)

    def _stretch(
        self,
        ticks: Sequence[tuple[Tick, Mapping[TopicAndPartition, int], bool]],
        done: dict[TopicAndPartition, int],
        ends: Mapping[TopicAndPartition, int],
    ) -> None:
        """Copy what is before each of these ticks and was not copied yet, and the ticks."""
        until = dict(done)
        for _, moved, _ in ticks:
            until.update({place: min(max(done[place], end), ends[place]) for place, end in moved.items() if place in done})
        records = {place: iter(rows) for place, rows in self._read(done, until).items()}
        waiting = {place: next(rows, None) for place, rows in records.items()}
        batch: list[NewRecord] = []
        for tick, moved, full in ticks:
            # attestations first, so that no plan is copied before what vouches for it
            for place in sorted(waiting, key=lambda place: (place[0] != plan_attestations.TOPIC, _ORDER[place[0]], place[1])):
                end = moved.get(place, 0)
                while (record := waiting[place]) is not None and record.offset < end:
                    batch += self._moved(place[0], record)
                    waiting[place] = next(records[place], None)
            batch.append(self._tick(tick, full=full))
        done.update(until)
        self._append(batch)

    def _read(
        self, since: Mapping[TopicAndPartition, int], until: Mapping[TopicAndPartition, int]
    ) -> dict[TopicAndPartition, list[Record]]:
        topics = self._old.topics
        growing = [place for place, end in until.items() if end > since[place]]
        begins = {(topics.wire(name), p): since[name, p] for name, p in until}
        limits = {(topics.wire(name), p): end for (name, p), end in until.items()}
        records_of: dict[TopicAndPartition, list[Record]] = {place: [] for place in growing}
        for record in read_range(self._old.log, sorted({topics.wire(name) for name, _ in growing}), since=begins, until=limits):
            records_of[topics.short(record.topic), record.partition].append(record)
        return records_of

    def _append(self, batch: Sequence[NewRecord]) -> None:
        last: Place | None = None
        for part in batches(batch, _AT_ONCE):
            last = self._new.log.append(part)[-1]
        self._count += len(batch)
        if last is not None and last.offset + 1 != self._ends[self._new.topics.short(last.topic), last.partition]:
            raise BadInput(f"somebody else writes into '{last.topic}': end it, and move into another prefix")

    def _tick(self, tick: Tick, *, full: bool) -> NewRecord:
        full = full or self._last is None
        ends = {
            place: end for place, end in self._ends.items() if place[0] != CLOCK and (full or self._told.get(place, 0) != end)
        }
        self._told.update(ends)
        record = ClockRecord(tick.number, tick.name, self._last, ends, full)
        place = (CLOCK, 0)
        self._last = self._ends[place], tick.name
        self._ends[place] += 1
        return record.encode(self._new.topics.wire(CLOCK))

    def _moved(self, name: str, record: Record) -> list[NewRecord]:
        """What stands in the copy for one record."""
        if name == plan_attestations.TOPIC:
            event = self._old.codec.decode_or_none(record)
            self._attested.update(event.digests if isinstance(event, PlansAttested) else ())
            return []
        if is_of_a_clock(record) or (record.key is None and record.value is None):
            return []
        records = list(self._parts(name, record))
        there = [(part.partition, self._ends[name, part.partition]) for part in records]
        if name in _BROADCAST:
            says = blake2b(b"%b\0%b" % (record.key or b"", record.value or b""), digest_size=16).digest()
            self._broadcast[name, record.partition, record.offset] = says
            if there:
                self._said[name, says] = there
        else:
            self._where.setdefault((name, record.partition), _Whereabouts.none()).add(record.offset, there)
        for part in records:
            self._ends[name, part.partition] += 1
        # A plan has another digest in the copy. One that no turn had attested to is attested to by none.
        if name in plan_attestations.PLAN_TOPICS and plan_attestations.digest(record) in self._attested:
            vouched = [vouching for part in records for vouching in self._vouched(part)]
            for part in vouched:
                self._ends[plan_attestations.TOPIC, part.partition] += 1
            return [*vouched, *records]
        return records

    def _vouched(self, record: NewRecord) -> list[NewRecord]:
        made = DecisionId.parse(header(record, "ce_id") or "")
        task = TaskSource(made.stage, made.partition)
        return plan_attestations.attested([record], task=task, turn=made.turn, topics=self._new.topics, codec=self._new.codec)

    def _parts(self, name: str, record: Record) -> Iterator[NewRecord]:
        topics, key = self._new.topics, (record.key or b"").decode(errors="replace")
        if name in _BROADCAST:
            # Each partition has a copy of the record, of which one is taken.
            if record.partition == (self._old.topics.partition_of(key) if name == "control" else 0):
                yield from (self._renamed(name, record, partition, key) for partition in range(topics.partitions))
            return
        # A scrape has rows of many workloads, which may go to several partitions there.
        event = self._old.codec.decode_or_none(record) if name in ("pod-metrics", "load-metrics") else None
        if isinstance(event, MetricsScraped | LoadScraped):
            for partition, part in _cut(event, topics):
                source = header(record, "ce_source") or ""
                yield self._new.codec.encode(part, topic=name, key=key, partition=partition, source=source)
            return
        yield self._renamed(name, record, topics.partition_of(key), key)

    def _renamed(self, name: str, record: Record, partition: int, key: str) -> NewRecord:
        """The record with the ids and the places that are there."""
        # Ids name the partition of their stage's task, and decisions and outcomes name what they rest on.
        value, headers = record.value, record.headers
        if clock_log.comes_after_its_tick(name) or name == "outcomes":
            rename = _renaming(_partitions(value, key, self._new.topics))
            value = value if value is None else self._with_places(_ID.sub(rename, value), partition)
            headers = tuple((field, _header(field, data, rename)) for field, data in headers)
        try:
            rests_on = causes(record)
        except BadRecord:
            rests_on = ()
        if rests_on:
            there = dict(cause_headers(tuple(self._place(place, partition) for place in rests_on)))
            headers = tuple((field, there.get(field, data)) for field, data in headers)
        return NewRecord(self._new.topics.wire(name), partition, record.key, value, headers)

    def _with_places(self, value: bytes, wanted: int) -> bytes:
        """The body of a decision, in which places stand as texts and as objects."""

        def there(match: re.Match[bytes]) -> Place:
            topic, partition, offset = match.groups()
            return self._place(Place(topic.decode(), int(partition), int(offset)), wanted)

        value = self._texts.sub(lambda match: orjson.dumps(str(there(match))), value)
        return self._objects.sub(lambda match: orjson.dumps(there(match)), value)

    def _place(self, place: Place, wanted: int) -> Place:
        """Where a record stands in the copy. One that retention took keeps its number, in a topic that has no such record."""
        try:
            name = self._old.topics.short(place.topic)
        except KeyError:
            return place
        if name in _BROADCAST:
            says = self._broadcast.get((name, place.partition, place.offset), b"")
            there = next((copy for copy in self._said.get((name, says), ()) if copy[0] == wanted), None)
        else:
            where = self._where.get((name, place.partition))
            there = None if where is None else where.of(place.offset, wanted)
        return place if there is None else Place(self._new.topics.wire(name), *there)


_ORDER = {topic.name: number for number, topic in enumerate(TOPICS)}


def _cut(event: MetricsScraped | LoadScraped, topics: Topics) -> Iterator[tuple[int, Event]]:
    """The rows of each partition, in the order that they have."""
    partitions = np.array([topics.partition_of(workload) for workload in event.workloads], np.int64)
    columns = ("workloads", "pods", "containers", "cores", "memory", "ages", "cores_max", "memory_max", "series", "values")
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        parts: dict[str, Any] = {}
        for column in columns:
            whole = getattr(event, column, ())
            if len(whole):
                parts[column] = whole[rows] if isinstance(whole, np.ndarray) else tuple(whole[row] for row in rows.tolist())
        yield partition, replace(event, **parts)


def _partitions(value: bytes | None, key: str, topics: Topics) -> tuple[bytes, bytes]:
    """The partitions there of the cluster and of the workload that a decision or an outcome is about."""
    workload = key
    try:
        body = orjson.loads(value or b"{}")
    except orjson.JSONDecodeError:
        body = {}
    if isinstance(body, dict):
        about, subject = body.get("workload"), body.get("subject")
        if isinstance(about, dict):
            workload = "/".join(str(about.get(part, "")) for part in ("cluster", "namespace", "kind", "name"))
        elif isinstance(subject, dict) and subject.get("workload"):
            workload = str(subject["workload"])
    return tuple(b"%d" % topics.partition_of(name) for name in (cluster_of(key), workload))  # type: ignore[return-value]  # two


def _renaming(partitions: tuple[bytes, bytes]) -> Callable[[re.Match[bytes]], bytes]:
    def rename(match: re.Match[bytes]) -> bytes:
        stage, _, turn = match.groups()
        partition = partitions[0] if stage.decode() in _BY_CLUSTER else partitions[1]
        return b"%b/%b/%b/" % (stage, partition, turn)

    return rename


def _header(field: str, data: bytes, rename: Callable[[re.Match[bytes]], bytes]) -> bytes:
    if field == "ce_source":  # a task's: `/ullage/updater/3`
        return _ID.sub(rename, data + b"/0/").removesuffix(b"/0/")
    return _ID.sub(rename, data) if field == "ce_id" else data
