"""Checkpoints: the records that carry a task's state through a changelog, and which of them to believe.

A checkpoint is a consistent cut at a turn boundary. Each chunk goes to the one of two slots that the mark in force does not
name; then a mark names the slot and version of every chunk. A family is one ownership: nobody else writes in it, so an owner
that was thought dead can harm nothing. A mark is good if each chunk it names is there in the named version; the good mark
with the highest turn is the state. No merging: a state made of chunks of different turns decides wrongly.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_VERSION = struct.Struct("<q")
MARK = "mark"


@dataclass(frozen=True, slots=True)
class Mark:
    """Names a whole state: the turn, the offset after its tick in each input, and slot and version of each chunk."""

    turn: int
    positions: Mapping[str, int]
    chunks: Mapping[str, tuple[int, int]]

    def encode(self) -> bytes:
        """JSON, keys in order of insertion."""
        body = {"turn": self.turn, "positions": dict(self.positions), "chunks": self.chunks}
        return json.dumps(body, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> "Mark":
        """Inverse of `encode`. Raises ValueError for bytes that are not a mark."""
        try:
            body = json.loads(data)
            chunks = {name: (int(slot), int(version)) for name, (slot, version) in body["chunks"].items()}
            return Mark(int(body["turn"]), {t: int(o) for t, o in body["positions"].items()}, chunks)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            msg = f"not a checkpoint mark: {data[:80]!r} ({error})"
            raise ValueError(msg) from error


def chunk_key(family: str, chunk: str, slot: int) -> bytes:
    """The changelog key of a chunk. Chunk names may hold slashes, families not."""
    return f"{family}/{chunk}/{slot}".encode()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one checkpoint writes: chunk records first, the mark when they are acknowledged, then tombstones."""

    turn: int
    records: list[tuple[bytes, bytes]]
    mark: tuple[bytes, bytes]
    chunks: dict[str, tuple[int, int]]
    tombstones: list[bytes]

    @property
    def size(self) -> int:
        """Bytes of keys and values, the mark included."""
        return sum(len(k) + len(v) for k, v in [*self.records, self.mark])


@dataclass(slots=True)
class Ledger:
    """What one ownership of a partition has written: the slots its mark in force names, and foreign keys yet to be buried."""

    family: str
    foreign: list[bytes] = field(default_factory=list)
    chunks: dict[str, tuple[int, int]] = field(default_factory=dict)
    mark_slot: int = 1
    marked: int = -1

    def plan(self, *, turn: int, positions: Mapping[str, int], dumps: Iterable[tuple[str, bytes]]) -> Plan:
        """The next checkpoint of this family. The first one of a family must dump every chunk."""
        chunks = dict(self.chunks)
        records = []
        for name, data in dumps:
            slot = 1 - self.chunks[name][0] if name in self.chunks else 0
            chunks[name] = (slot, turn)
            records.append((chunk_key(self.family, name, slot), _VERSION.pack(turn) + data))
        mark = Mark(turn, positions, chunks).encode()
        key = chunk_key(self.family, MARK, 1 - self.mark_slot)
        return Plan(turn, records, (key, mark), chunks, list(self.foreign))

    def accept(self, plan: Plan) -> None:
        """The mark of `plan` is acknowledged: it is now the mark in force."""
        self.chunks, self.mark_slot, self.marked = plan.chunks, 1 - self.mark_slot, plan.turn

    def buried(self) -> None:
        """The tombstones of the last plan are acknowledged."""
        self.foreign = []


@dataclass(frozen=True, slots=True)
class Found:
    """A state found in a changelog."""

    family: str
    mark: Mark
    chunks: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a changelog holds: the newest good state if any, and how many marks were torn."""

    found: Found | None
    broken: int


def read(records: Mapping[bytes, bytes | None]) -> Reading:
    """Choose among the last record of each key. Compaction cannot change the answer: it keeps the last record of each key."""
    best: Found | None = None
    broken = 0
    for key, value in records.items():
        family, _, rest = key.decode().partition("/")
        if value is None or not rest.startswith(f"{MARK}/"):
            continue
        mark = Mark.decode(value)
        if best is not None and mark.turn <= best.mark.turn:
            continue
        chunks = _chunks(records, family, mark)
        if chunks is None:
            broken += 1
        else:
            best = Found(family, mark, chunks)
    return Reading(best, broken)


def _chunks(records: Mapping[bytes, bytes | None], family: str, mark: Mark) -> dict[str, bytes] | None:
    """The bytes of every chunk that `mark` names, or None if one is missing or of another version."""
    chunks = {}
    for name, (slot, version) in mark.chunks.items():
        value = records.get(chunk_key(family, name, slot))
        if value is None or _VERSION.unpack_from(value)[0] != version:
            return None
        chunks[name] = value[_VERSION.size :]
    return chunks
