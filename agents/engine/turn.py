"""Turns: how a partition's records become the steps of a stage, and how its state survives. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from schemas import times
from schemas.catalogue import Event
from schemas.decisions import Decision
from schemas.names import Place
from schemas.plain_json import WrittenEvent


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event and where it stands in the log."""

    event: Event
    place: Place


class DeferredDecision(Protocol):
    """A decision whose event is built on demand, always with the same result.

    A stage may give one for a decision that is within all bounds. `subject` is the key of what it is about; a later turn's
    decision about a subject replaces an earlier one.
    """

    subject: str
    turn: int

    @property
    def event(self) -> Decision:
        """The event; built once."""

    @property
    def written(self) -> WrittenEvent:
        """The same as a log has it, written without building it."""

    @property
    def cause(self) -> tuple[Place, ...]:
        """The places it rests on."""


class DeferredBatch(Protocol):
    """Decisions of one turn about different subjects, each built on demand.

    A stage may give one for decisions that are within all bounds. A later turn's decision about a subject replaces an earlier.
    """

    @property
    def turn(self) -> int:
        """The number of the turn."""

    @property
    def subjects(self) -> Sequence[str]:
        """The key of what each decision is about."""

    def decision(self, number: int) -> DeferredDecision:
        """The decision about `subjects[number]`."""


class DeferredRecord(Recorded):
    """A decision that reached its reader without bytes."""

    __slots__ = ("deferred",)
    deferred: DeferredDecision

    def __init__(self, deferred: DeferredDecision, place: Place) -> None:
        # A frozen dataclass refuses assignments; its own __init__ would have to be given the event.
        object.__setattr__(self, "deferred", deferred)
        object.__setattr__(self, "place", place)

    @property
    def event(self) -> Event:
        """The event; built at the first access."""
        return self.deferred.event


@dataclass(frozen=True, slots=True)
class DeferredRecords:
    """Some decisions of a batch, which stand one after the other in a partition. `first` is the place of the first of them."""

    batch: DeferredBatch
    numbers: Sequence[int]
    first: Place

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def subjects(self) -> Sequence[str]:
        """The key of what each decision is about."""
        subjects = self.batch.subjects
        return [subjects[number] for number in self.numbers]

    def __getitem__(self, position: int) -> DeferredRecord:
        place = replace(self.first, offset=self.first.offset + position)
        return DeferredRecord(self.batch.decision(self.numbers[position]), place)


class RecordsInParts(Sequence[Recorded]):
    """The records of an input, some of which came as a batch; they can also be read one by one."""

    def __init__(self, parts: Sequence[Recorded | DeferredRecords]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Recorded]:
        for part in self.parts:
            if isinstance(part, DeferredRecords):
                yield from (part[position] for position in range(len(part)))
            else:
                yield part

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, DeferredRecords) else 1 for part in self.parts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        for part in self.parts:
            if number < (size := len(part) if isinstance(part, DeferredRecords) else 1):
                return part[number] if isinstance(part, DeferredRecords) else part
            number -= size
        raise IndexError(index)


@dataclass(frozen=True, slots=True)
class Turn:
    """All records of one partition between two ticks, by input topic (short name), in offset order."""

    # The tick's time in milliseconds since the epoch, the only "now" that a stage knows.
    number: int
    inputs: Mapping[str, Sequence[Recorded]]

    @property
    def at(self) -> datetime:
        """The turn's time."""
        return times.from_ms(self.number)

    def of(self, topic: str) -> Sequence[Recorded]:
        """The records of one input; empty when the turn has none."""
        return self.inputs.get(topic, ())

    def parts(self, topic: str) -> Sequence[Recorded | DeferredRecords]:
        """The same, with batches as they came."""
        # Only an input whose writer runs in this process comes in batches.
        records = self.inputs.get(topic, ())
        return records.parts if isinstance(records, RecordsInParts) else records


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, the topic (short name) and key it goes to, and the places it rests on."""

    topic: str
    key: str
    event: Decision
    cause: tuple[Place, ...] = ()

    @property
    def written(self) -> Decision | WrittenEvent:
        """What is to be put into the log."""
        return self.event


class DeferredDecided(Decided):
    """A decision that is built when somebody reads it."""

    __slots__ = ("deferred",)
    deferred: DeferredDecision

    def __init__(self, topic: str, key: str, deferred: DeferredDecision) -> None:
        # As above: the event is not there yet.
        object.__setattr__(self, "topic", topic)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "deferred", deferred)

    @property
    def event(self) -> Decision:
        """The event; built at the first access."""
        return self.deferred.event

    @property
    def written(self) -> WrittenEvent:
        """What is to be put into the log."""
        return self.deferred.written

    @property
    def cause(self) -> tuple[Place, ...]:
        """The places it rests on."""
        return self.deferred.cause


class BatchDecided(Sequence[Decided]):
    """What a stage decided in a turn: a batch, and then others; they can also be read one by one.

    `routes` says for each topic (short name) that takes the batch which key a subject has there.
    """

    def __init__(self, batch: DeferredBatch, routes: Mapping[str, Callable[[str], str]], others: Sequence[Decided] = ()) -> None:
        self.batch, self.routes, self.others = batch, routes, others

    def __iter__(self) -> Iterator[Decided]:
        for number, subject in enumerate(self.batch.subjects):
            deferred = self.batch.decision(number)
            yield from (DeferredDecided(topic, key(subject), deferred) for topic, key in self.routes.items())
        yield from self.others

    def __len__(self) -> int:
        return len(self.batch.subjects) * len(self.routes) + len(self.others)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        position = range(len(self))[index]
        batched = len(self.batch.subjects) * len(self.routes)
        if position >= batched:
            return self.others[position - batched]
        number, route = divmod(position, len(self.routes))
        topic, key = list(self.routes.items())[route]
        return DeferredDecided(topic, key(self.batch.subjects[number]), self.batch.decision(number))


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
