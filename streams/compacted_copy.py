"""Keeps a small, compacted copy of the broadcast topics, so that a starting process reads the present state in a moment.

`rules`, `policies` and `control` keep every change for weeks, because stages need them. So each change is also written to a copy
(`policies-latest` and its like) that has one record for each key, and a tombstone for what was removed.

The copy is a convenience and the topic itself is the truth. A crash can leave a change half written, in one of the two. Hence a
reader takes the copy and then the last records of the topic, of which the later in event time wins, and goes on from there. A
copy counts only once it has been declared complete; until then readers read the topic from its beginning.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from schemas.catalogue import CATALOGUE, Kind, parse_wire_name
from schemas.names import Place
from streams import refused_records, reverse_log_reader
from streams.errors import LogUnavailable
from streams.log.log_port import Log, NewRecord, Record
from streams.log_range import event_time_ms, has_topic
from streams.topics import Topics

COPIES = {"rules": "rules-latest", "policies": "policies-latest", "control": "control-latest"}
"""The broadcast topics and their copies, by short names."""

TAIL = 7_200
"""Records at the end of the topic that a reader takes after the copy."""

_TRIES = 6  # to write what follows a change; a question to a broker that is away takes some seconds
_COMPLETE = b"/complete"  # the key of the record that declares a copy complete; no event's key begins with a slash


@dataclass(frozen=True, slots=True)
class CompactedState:
    """The present state of a broadcast topic: records to apply one by one, and the offset where the topic goes on.

    `copied` are the newest records of the copy, `tail` those at the end of the topic; `position` is the offset
    after the tail, in the partition that was asked for.
    """

    copied: Sequence[Record]
    tail: Sequence[Record]
    position: int

    def __iter__(self) -> Iterator[Record]:
        """The copy first, then the tail, which wins but where the copy has what is newer: a pause goes there first."""
        yield from self.copied
        at = {record.key: event_time_ms(record) for record in self.copied}
        yield from (record for record in self.tail if event_time_ms(record) >= at.get(record.key, -1))


def copies_of(records: Iterable[NewRecord], topics: Topics) -> list[NewRecord]:
    """The copies that belong to these records of broadcast topics; nothing for ticks and for records of other topics.

    A broadcast puts one record into every partition; the one for partition 0 is copied. The copy of a removal is a tombstone.
    """
    copies = {topics.wire(name): topics.wire(copy) for name, copy in COPIES.items()}
    return [
        NewRecord(
            copies[record.topic],
            topics.partition_of((record.key or b"").decode()),
            record.key,
            None if kind.removes else record.value,
            record.headers,
        )
        for record in records
        if record.topic in copies and record.partition == 0 and record.key is not None
        for kind in [_kind(record)]
        if kind is not None
    ]


def append_with_copies(
    log: Log, topics: Topics, records: Sequence[NewRecord], *, permits: bool = False
) -> Sequence[Place | None]:
    """Append records and the copies that belong to them; gives the places of the records. Raises LogUnavailable.

    Records that the log refuses for good are set aside and have no place. Copies of control go first unless it `permits` acts,
    and others last. A log without the copies, as one from before there were any, gets the records alone.
    """
    early, late = _copies_around(log, topics, records, permits=permits)
    _append(log, topics, early)
    places = refused_records.append(log, topics, records)
    _append(log, topics, late)
    return places


def _copies_around(
    log: Log, topics: Topics, records: Sequence[NewRecord], *, permits: bool
) -> tuple[list[NewRecord], list[NewRecord]]:
    """The copies that go before the records, and those that go after them."""
    copies = copies_of(records, topics)
    if not all(has_topic(log, wire) for wire in {copy.topic for copy in copies}):
        return [], []
    # A source that dies between topic and copy finds its change missing in the copy, and publishes it again. Control that
    # forbids acts goes to the copy first, so that a process that starts later, too, sees a pause that any process has obeyed;
    # control that permits them goes to the topic first, so that none starts to act while others are paused.
    early = "" if permits else topics.wire(COPIES["control"])
    return [copy for copy in copies if copy.topic == early], [copy for copy in copies if copy.topic != early]


def _append(log: Log, topics: Topics, records: Sequence[NewRecord]) -> None:
    if records:
        refused_records.append(log, topics, records)


def append_settled(log: Log, topics: Topics, records: Sequence[NewRecord], *, permits: bool = False) -> Sequence[Place | None]:
    """As `append_with_copies`, for one of several writers: whoever of them ends last, the copy has what the topic has."""
    early, late = _copies_around(log, topics, records, permits=permits)
    _append(log, topics, early)
    places = refused_records.append(log, topics, records)
    # From here on the change is in force, so whoever asked for it must not hear that it failed because a broker starts anew.
    for tries_left in reversed(range(_TRIES if early or late else 0)):
        try:
            _append(log, topics, late)
            _settle(log, topics, records, places)
        except LogUnavailable as error:
            if not tries_left:
                what = "the change is in the log and in force, but its copy for processes that start is not certain"
                raise LogUnavailable(f"{what}: {error}; repeat it") from error
        else:
            break
    return places


def _settle(log: Log, topics: Topics, records: Sequence[NewRecord], places: Sequence[Place | None]) -> None:
    copied = {topics.wire(name) for name in COPIES}
    written = {
        record.key: place
        for record, place in zip(records, places, strict=True)
        if place is not None and record.key is not None and record.topic in copied
        if record.partition == _read_in(record, topics)
    }
    # Two that write at one time may reach the copy in one order and the topic in the other. So each copies the newest record of
    # the topic once more, until no newer one came meanwhile; the last one to copy has seen the last record.
    settled: dict[bytes, Record] = {}
    while (newest := _newest_since(log, written)) != settled:
        settled = newest
        there = [NewRecord(record.topic, 0, record.key, record.value, record.headers) for record in newest.values()]
        _append(log, topics, copies_of(there, topics))


def _read_in(record: NewRecord, topics: Topics) -> int:
    """The partition in which a broadcast record counts: control in that of its cluster, policies in the first."""
    return topics.partition_of((record.key or b"").decode()) if record.topic == topics.wire("control") else 0


def _newest_since(log: Log, written: dict[bytes, Place]) -> dict[bytes, Record]:
    """The newest record of each key in the partition of its place, from there on."""
    newest: dict[bytes, Record] = {}
    for topic, partition in {(place.topic, place.partition) for place in written.values()}:
        start = min(place.offset for place in written.values() if (place.topic, place.partition) == (topic, partition))
        for record in reverse_log_reader.between(log, topic, partition, start, log.end(topic, partition)):
            if record.key in written and written[record.key].topic == topic:
                newest[record.key] = record
    return newest


def read_present(log: Log, topics: Topics, name: str, partition: int = 0) -> CompactedState:
    """The present state of the broadcast topic `name`, read in one partition. Raises LogUnavailable.

    Reads the copy and the tail; the whole partition when there is no complete copy, as in a log from before there were copies.
    """
    place = (topics.wire(name), partition)
    begin, end = log.begin(*place), log.end(*place)
    copied = latest_of_copy(log, topics, name)
    start = begin if copied is None else max(begin, end - TAIL)
    return CompactedState(copied or (), tuple(reverse_log_reader.between(log, *place, start, end)), end)


def latest_of_copy(log: Log, topics: Topics, name: str) -> list[Record] | None:
    """The newest record of each key in the copy, without what was removed; None when the copy is missing or not complete."""
    wire = topics.wire(COPIES[name])
    if not has_topic(log, wire):
        return None
    newest: dict[bytes, Record] = {}
    for partition in range(log.partitions(wire)):
        place = (wire, partition)
        newest.update(
            {
                r.key: r
                for r in reverse_log_reader.all_between(log, place, log.begin(*place), log.end(*place))
                if r.key is not None
            }
        )
    if newest.pop(_COMPLETE, None) is None:
        return None
    return [record for record in newest.values() if record.value is not None]


def complete(log: Log, topics: Topics, name: str) -> bool:
    """Make the copy of `name` from the topic itself and declare it complete. False when it was complete already.

    It reads on until nothing was published in between, so it may run beside live sources.
    """
    if latest_of_copy(log, topics, name) is not None:
        return False
    place = (topics.wire(name), 0)
    start = log.begin(*place)
    while start < (end := log.end(*place)):
        read = [NewRecord(r.topic, 0, r.key, r.value, r.headers) for r in reverse_log_reader.all_between(log, place, start, end)]
        log.append({copy.key: copy for copy in copies_of(read, topics)}.values())
        start = end
    log.append([NewRecord(topics.wire(COPIES[name]), 0, _COMPLETE, b"{}")])
    return True


def _kind(record: NewRecord) -> Kind | None:
    """The kind of event; None for a tick and for records that are not ours."""
    wire = next((value for header, value in record.headers if header == "ce_type"), b"")
    name, _ = parse_wire_name(wire.decode(errors="replace")) or ("", 0)
    return CATALOGUE.named(name)
