"""A view of a topic of decisions: the newest decision of each key, and how far back a start reads forecasts.

The order of the log does not matter: the highest turn wins, and repeats change nothing. The key is the last part of a decision's
id (`schemas.ids.DecisionId`).

A recommendation without containers withdraws what was recommended, and the view then forgets the workload. A tombstone names no
turn and removes nothing.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.catalogue import Event
from schemas.decisions import Decision
from schemas.decisions.recommendations import RequestsRecommended
from schemas.ids import DecisionId
from schemas.names import Place
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.times import from_ms
from schemas.units import Seconds
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec, header
from streams.errors import BadRecord
from streams.log.log_port import Log, Record

LATEST_REPEAT = timedelta(days=1)
"""How much later than a withdrawal, in event time, a repeat of an older decision may still come."""
Rank = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LatestDecision:
    """A decision, the turn it was taken in, and the first place where it stands."""

    decision: Decision
    turn: int
    place: Place


class DecisionView:
    """Reads all partitions of one topic (wire name). One thread catches up; others may ask."""

    def __init__(self, log: Log, codec: Codec, topic: str) -> None:
        """Raises BadInput when there is no such topic."""
        self._log, self._codec = log, codec
        self._next = {(topic, p): log.begin(topic, p) for p in range(log.partitions(topic))}
        self._latest: dict[str, LatestDecision] = {}
        self._withdrawn: dict[str, Rank] = {}
        """Keys that were withdrawn lately, with the rank of the withdrawal."""
        self._withdrawals: deque[tuple[datetime, str, Rank]] = deque()
        """Time, key and rank of these, in the order in which they came."""
        self._forgets = True
        """Whether these are forgotten in time."""
        self.newest: datetime | None = None
        """The latest event time of a decision or a tick; None before the first."""
        self.bad = 0
        """Records that are no decisions and were skipped; whoever wrote them has put them into dead-letters."""

    def catch_up(self, *, wait: float = 0.0) -> int:
        """Read to the end of the topic; returns how many records that were. Waits up to `wait` seconds for the first."""
        count = 0
        while records := self._log.poll(self._next, wait=wait):
            for record in records:
                self.apply(record)
                self._next[record.topic, record.partition] = record.offset + 1
            count += len(records)
            wait = 0.0
        return count

    def apply(self, record: Record) -> None:
        """Apply one record. Records may come in any order and any number of times."""
        tick = ClockRecord.decode(record)
        if tick is not None:
            self._advance(from_ms(tick.number))
        elif record.value is not None and not self._is_outdated_by_its_id(record):
            try:
                self._apply_decision(record)
            except BadRecord:
                self.bad += 1

    def _is_outdated_by_its_id(self, record: Record) -> bool:
        """Whether the id in a record's headers shows that nothing newer is in it, so that it need not be decoded."""
        try:
            identity = DecisionId.parse(header(record, "ce_id") or "")
        except ValueError:
            return False
        return self._is_outdated(identity.key, _rank(identity.turn, record.place))

    def _is_outdated(self, key: str, rank: Rank) -> bool:
        # After a crash a stage publishes the turns after its last checkpoint again, and a worker that counts as dead may still
        # write an old decision.
        latest, withdrawn = self._latest.get(key), self._withdrawn.get(key)
        return (latest is not None and rank <= _rank(latest.turn, latest.place)) or (withdrawn is not None and rank <= withdrawn)

    def _apply_decision(self, record: Record) -> None:
        event = self._codec.decode(record)
        if not isinstance(event, Decision):
            raise BadRecord(f"a {type(event).__name__} is no decision")
        identity = id_of(event)
        turn, key = identity.turn, identity.key
        self._advance(event.at)
        rank = _rank(turn, record.place)
        if self._is_outdated(key, rank):
            return
        self._latest.pop(key, None)
        if isinstance(event, RequestsRecommended) and not event.containers:
            # Kept for another day of event time, so that a late repeat of an older decision does not bring the workload back.
            self._withdrawn[key] = rank
            self._withdrawals.append((event.at, key, rank))
        else:
            self._latest[key] = LatestDecision(event, turn, record.place)

    @contextmanager
    def newest_first(self) -> Iterator[None]:
        """Records come newest first until this ends: decisions from before a withdrawal still come, however old it is."""
        self._forgets = False
        try:
            yield
        finally:
            self._forgets = True
            self._withdrawals = deque(sorted(self._withdrawals))
            self._forget()

    def _advance(self, at: datetime) -> None:
        self.newest = at if self.newest is None else max(self.newest, at)
        if self._forgets:
            self._forget()

    def _forget(self) -> None:
        """Forget withdrawals after which no older decision comes any more."""
        while self.newest is not None and self._withdrawals and self.newest - self._withdrawals[0][0] > LATEST_REPEAT:
            _, key, rank = self._withdrawals.popleft()
            if self._withdrawn.get(key) == rank:
                del self._withdrawn[key]

    def get(self, key: str) -> LatestDecision | None:
        """The newest decision of a key; None when there is none, or it was withdrawn."""
        return self._latest.get(key)

    def items(self) -> Iterator[tuple[str, LatestDecision]]:
        """All keys with their newest decisions, in the order of the keys."""
        return iter(sorted(self._latest.items()))

    def __len__(self) -> int:
        """How many keys have a decision."""
        return len(self._latest)

    def age(self, now: datetime) -> Seconds | None:
        """How far the view is behind `now`, both in event time; None before the first decision or tick."""
        return None if self.newest is None else Seconds(max(0.0, (now - self.newest).total_seconds()))


def id_of(decision: Decision) -> DecisionId:
    """The parts of a decision's id. Raises BadRecord for an id of another form."""
    try:
        return DecisionId.parse(decision.id)
    except ValueError as error:
        raise BadRecord(str(error), "$.id") from None


def _rank(turn: int, place: Place) -> Rank:
    # The highest turn wins, and among repeats the first place, so that the order of reading does not matter.
    return (turn, -place.partition, -place.offset)


_LEAST = timedelta(hours=2)
"""How far at least ..."""
_MOST = timedelta(days=3)
"""... and at most, however long a window is."""


def forecast_span(longest: Seconds) -> timedelta:
    """Twice the longest window that any policy asks for, within bounds."""
    return min(max(timedelta(seconds=2 * longest), _LEAST), _MOST)


def forecast_window(event: Event) -> Seconds:
    """How far ahead a policy asks for forecasts; 0 for any other event."""
    match event:
        case EhpaChanged(prediction=asked) if asked is not None:
            return Seconds(float(asked.window_seconds or 0))
        case TimeSeriesPredictionChanged(window_seconds=seconds):
            return Seconds(float(seconds or 0))
        case _:
            return Seconds(0.0)
