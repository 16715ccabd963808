"""State as tables: what a stage remembers, in pieces that a checkpoint can write one by one."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice
from typing import Protocol

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Turn
from schemas.catalogue import Event
from schemas.facts.usage import MetricsScraped

_HASHED = 256
"""Records of each input that make a key."""


def _traits(event: Event) -> str:
    """The parts of an event that outsiders cannot guess: its time, ids, and the pods of a scrape, in no order."""
    pods = " ".join(sorted(set(event.pods))) if isinstance(event, MetricsScraped) else getattr(event, "pod", "")
    return f"{type(event).__name__} {event.at.isoformat()} {getattr(event, 'id', '')} {getattr(event, 'uid', '')} {pods}"


class StatePart(Protocol):
    """A part of a state; its name is the first word of its chunks' names."""

    name: str

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        ...

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        ...

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        ...

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        ...

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        ...


class BucketKey:
    """The hash key by which a state's object tables scatter names over their buckets. Empty until the first records come.

    The key only decides where things are kept.
    """

    name = "bucket-key"

    def __init__(self) -> None:
        self.value = b""
        self._dirty = False

    def begin(self, turn: Turn) -> bool:
        """Make the key of the first turn that has records. Returns whether it was made now."""
        if self.value or not any(turn.inputs.values()):
            return False
        # Without a key a tenant could choose names that all fall into one bucket.
        # Of the first records that the state ever took in, so that a replay has the same key. A tenant sees few of these.
        digest = blake2b(b"%d" % turn.number, digest_size=32)
        for records in turn.inputs.values():
            for recorded in islice(records, _HASHED):
                digest.update(f"{recorded.place} {_traits(recorded.event)}\n".encode())
        self.value, self._dirty = digest.digest(), True
        return True

    def chunks(self) -> Iterable[str]:
        """One chunk, once there is a key."""
        return [self.name] if self.value else []

    def take_dirty(self) -> set[str]:
        """The chunk, if the key was made since the last call."""
        dirty, self._dirty = set(self.chunks()) if self._dirty else set(), False
        return dirty

    def touch_all(self) -> None:
        """The key counts as changed."""
        self._dirty = True

    def dump(self, _chunk: str) -> bytes:
        """The key."""
        return self.value

    def load(self, _chunk: str, data: bytes) -> None:
        """Put a dumped key in its place."""
        self.value = data


class PartedState:
    """A state made of parts: the dumping half of what a stage's state must do. Every step calls `scatter` first."""

    def __init__(self, *parts: StatePart) -> None:
        self._bucket_key = BucketKey()
        self._parts: dict[str, StatePart] = {part.name: part for part in (*parts, self._bucket_key)}

    def rebuild(self, build: Callable[[], None]) -> None:
        """Rebuild the state with `build`, and restore its content; every chunk counts as changed."""
        # By its dump, as after a restart: no second way has to agree with that one.
        chunks = [(chunk, self.dump(chunk)) for chunk in sorted(self.chunks())]
        build()
        for chunk, data in chunks:
            self.load(chunk, data)
        self.touch_all()

    def scatter(self, turn: Turn) -> None:
        """Choose buckets by an unpredictable key, from the first records on."""
        if self._bucket_key.begin(turn):
            self._hand_out_key()

    def _hand_out_key(self) -> None:
        for part in self._parts.values():
            if isinstance(part, ObjectTable):
                part.scatter_by(self._bucket_key.value)

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        return [chunk for part in self._parts.values() for chunk in part.chunks()]

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        return {chunk for part in self._parts.values() for chunk in part.take_dirty()}

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        for part in self._parts.values():
            part.touch_all()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        return self._parts[chunk.split("/", 1)[0]].dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        self._parts[chunk.split("/", 1)[0]].load(chunk, data)
        # What was loaded before keeps its buckets; only new names need the key.
        if chunk == BucketKey.name:
            self._hand_out_key()
