"""A view: the newest decision for each key, read from a topic of decisions.

After a crash a stage publishes the turns after its last checkpoint again, and a worker that was thought dead may still write an
old one. So order in the log means nothing here: the highest turn wins, and repeats change nothing. The key is the last part of a
decision's id (`schemas.ids.DecisionId`). A tombstone names no turn and so removes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from schemas.decisions import Decision
from schemas.ids import DecisionId
from schemas.names import Place
from schemas.units import Seconds
from streams.codec.event_codec import Codec, tick_number
from streams.errors import BadRecord
from streams.log.port import Log, Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Seen:
    """A decision, the turn it was taken in, and the first place it stands at."""

    decision: Decision
    turn: int
    place: Place


class View:
    """Reads all partitions of one topic (wire name). One thread refreshes; others may ask."""

    def __init__(self, log: Log, codec: Codec, topic: str) -> None:
        """Raises BadInput when there is no such topic."""
        self._log, self._codec = log, codec
        self._next = {(topic, p): log.begin(topic, p) for p in range(log.partitions(topic))}
        self._seen: dict[str, Seen] = {}
        self.newest: datetime | None = None
        """The latest event time seen, of a decision or a tick; None while nothing was."""
        self.bad = 0
        """Records that were no decisions and are left out; whoever wrote them has put them in dead-letters."""

    def refresh(self, *, wait: float = 0.0) -> int:
        """Take in what is new; how many records that was. Waits up to `wait` seconds for the first."""
        count = 0
        while records := self._log.poll(self._next, wait=wait):
            for record in records:
                self.take(record)
                self._next[record.topic, record.partition] = record.offset + 1
            count += len(records)
            wait = 0.0
        return count

    def take(self, record: Record) -> None:
        """Take one record in, in any order and any number of times."""
        number = tick_number(record)
        if number is not None:
            self._is_at(EPOCH + timedelta(milliseconds=number))
        elif record.value is not None:
            try:
                self._decision(record)
            except BadRecord:
                self.bad += 1

    def _decision(self, record: Record) -> None:
        event = self._codec.decode(record)
        if not isinstance(event, Decision):
            raise BadRecord(f"a {type(event).__name__} is no decision")
        identity = id_of(event)
        turn, key = identity.turn, identity.key
        self._is_at(event.at)
        seen = self._seen.get(key)
        if seen is None or _rank(turn, record.place) > _rank(seen.turn, seen.place):
            self._seen[key] = Seen(event, turn, record.place)

    def _is_at(self, at: datetime) -> None:
        self.newest = at if self.newest is None else max(self.newest, at)

    def get(self, key: str) -> Seen | None:
        """The newest decision of a key."""
        return self._seen.get(key)

    def items(self) -> Iterator[tuple[str, Seen]]:
        """All keys with their newest decisions, in order of key."""
        return iter(sorted(self._seen.items()))

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._seen)

    def age(self, now: datetime) -> Seconds | None:
        """How far the view is behind `now`, both in event time; None while nothing was seen."""
        return None if self.newest is None else Seconds(max(0.0, (now - self.newest).total_seconds()))


def id_of(decision: Decision) -> DecisionId:
    """The parts of a decision's id. Raises BadRecord for an id of another form."""
    try:
        return DecisionId.parse(decision.id)
    except ValueError as error:
        raise BadRecord(str(error), "$.id") from None


def _rank(turn: int, place: Place) -> tuple[int, int, int]:
    """The highest turn wins; among repeats the first place, so that a view does not depend on what it read when."""
    return (turn, -place.partition, -place.offset)
