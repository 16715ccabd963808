"""Turns: how a partition's records become the steps of a stage, and how its state survives. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from schemas.decisions import Decision
from schemas.facts import Fact
from schemas.names import Place
from schemas.outcomes import Outcome
from schemas.policies import Policy

Event = Fact | Policy | Decision | Outcome

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(number: int) -> datetime:
    """The time that a turn's number stands for."""
    return EPOCH + timedelta(milliseconds=number)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event and where it stands in the log."""

    event: Event
    place: Place


class DeferredDecision(Protocol):
    """A decision whose event is built when somebody asks for it, and always comes out the same.

    A stage may give one for a decision that is within all bounds. `subject` is the key of what it is about; a later turn's
    decision about a subject replaces an earlier one.
    """

    subject: str
    turn: int

    @property
    def event(self) -> Decision:
        """The event; built once."""

    @property
    def cause(self) -> tuple[Place, ...]:
        """The places it rests on."""


class DeferredRecord(Recorded):
    """A decision that reached its reader without bytes."""

    __slots__ = ("deferred",)
    deferred: DeferredDecision

    def __init__(self, deferred: DeferredDecision, place: Place) -> None:
        object.__setattr__(self, "deferred", deferred)
        object.__setattr__(self, "place", place)

    @property
    def event(self) -> Event:
        """The event; built now if nobody asked before."""
        return self.deferred.event


@dataclass(frozen=True, slots=True)
class Turn:
    """All records of one partition between two ticks, by input topic (short name), in offset order.

    `number` is the tick's time in milliseconds since the epoch; it is the only "now" that a stage knows.
    """

    number: int
    inputs: Mapping[str, Sequence[Recorded]]

    @property
    def at(self) -> datetime:
        """The turn's time."""
        return moment(self.number)

    def of(self, topic: str) -> Sequence[Recorded]:
        """The records of one input; empty when the turn has none."""
        return self.inputs.get(topic, ())


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, the topic (short name) and key it goes to, and the places it rests on."""

    topic: str
    key: str
    event: Decision
    cause: tuple[Place, ...] = ()


class DeferredDecided(Decided):
    """A decision that is built when somebody reads it."""

    __slots__ = ("deferred",)
    deferred: DeferredDecision

    def __init__(self, topic: str, key: str, deferred: DeferredDecision) -> None:
        object.__setattr__(self, "topic", topic)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "deferred", deferred)

    @property
    def event(self) -> Decision:
        """The event; built now if nobody asked before."""
        return self.deferred.event

    @property
    def cause(self) -> tuple[Place, ...]:
        """The places it rests on."""
        return self.deferred.cause


class State(Protocol):
    """What a stage remembers of one partition.

    Only `step` changes it. It is written to a changelog in named chunks; names never disappear once used (an emptied chunk is
    dumped as such). `dump` then `load` of every chunk into a fresh state gives a state that steps alike for ever.
    """

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; conclude. Deterministic in (state, turn); never raises for a bad event."""

    def chunks(self) -> Iterable[str]:
        """The names of all chunks that make up the state now."""

    def take_dirty(self) -> set[str]:
        """The names of chunks changed since the last call, and forget that they were."""

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk. Equal states dump equal bytes."""

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place. Called for each chunk, in sorted order of name, on a fresh state."""
