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

from agents.engine.input_digest import InputDigests

_VERSION = struct.Struct("<q")
MARK = "mark"


@dataclass(frozen=True, slots=True)
class Mark:
    """Names a whole state: the turn, the offset after its tick in each input, and slot and version of each chunk.

    `inputs` are digests of what was read up to there; None in marks of versions that had none.
    """

    turn: int
    positions: Mapping[str, int]
    chunks: Mapping[str, tuple[int, int]]
    inputs: InputDigests | None = None

    def encode(self) -> bytes:
        """JSON, keys in order of insertion."""
        body: dict[str, object] = {"turn": self.turn, "positions": dict(self.positions), "chunks": self.chunks}
        if self.inputs is not None:
            digests = {name: chain.hex() for name, chain in self.inputs.chains.items()}
            body["inputs"] = {"since": self.inputs.since, "digests": digests}
        return json.dumps(body, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> "Mark":
        """Inverse of `encode`. Raises ValueError for bytes that are not a mark."""
        try:
            body = json.loads(data)
            chunks = {name: _named(slot, version) for name, (slot, version) in body["chunks"].items()}
            positions = {t: _whole(o) for t, o in body["positions"].items()}
            return Mark(_whole(body["turn"]), positions, chunks, _digests(body.get("inputs")))
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            msg = f"not a checkpoint mark: {data[:80]!r} ({error!r})"
            raise ValueError(msg) from error


def _whole(value: object) -> int:
    if type(value) is not int:
        msg = f"{value!r} is not a whole number"
        raise TypeError(msg)
    return value


def _digests(body: object) -> InputDigests | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        msg = f"{body!r} does not hold digests of inputs"
        raise TypeError(msg)
    return InputDigests(_whole(body["since"]), {name: bytes.fromhex(chain) for name, chain in body["digests"].items()})


def _named(slot: object, version: object) -> tuple[int, int]:
    if slot not in (0, 1):
        msg = f"slot {slot!r} is neither 0 nor 1"
        raise ValueError(msg)
    return _whole(slot), _whole(version)


def chunk_key(family: str, chunk: str, slot: int) -> bytes:
    """The changelog key of a chunk. Chunk names may hold slashes, families not."""
    return f"{family}/{chunk}/{slot}".encode()


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
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

    def plan(
        self,
        *,
        turn: int,
        positions: Mapping[str, int],
        dumps: Iterable[tuple[str, bytes]],
        inputs: InputDigests | None = None,
    ) -> CheckpointPlan:
        """The next checkpoint of this family. The first one must dump every chunk; none may be called `mark`."""
        chunks = dict(self.chunks)
        records = []
        for name, data in dumps:
            if name == MARK:
                msg = f"a chunk may not be called '{MARK}': its keys would be those of the marks"
                raise ValueError(msg)
            slot = 1 - self.chunks[name][0] if name in self.chunks else 0
            chunks[name] = (slot, turn)
            records.append((chunk_key(self.family, name, slot), _VERSION.pack(turn) + data))
        mark = Mark(turn, positions, chunks, inputs).encode()
        key = chunk_key(self.family, MARK, 1 - self.mark_slot)
        return CheckpointPlan(turn, records, (key, mark), chunks, list(self.foreign))

    def accept(self, plan: CheckpointPlan) -> None:
        """The mark of `plan` is acknowledged: it is now the mark in force."""
        self.chunks, self.mark_slot, self.marked = plan.chunks, 1 - self.mark_slot, plan.turn

    def buried(self) -> None:
        """The tombstones of the last plan are acknowledged."""
        self.foreign = []


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state found in a changelog."""

    family: str
    mark: Mark
    chunks: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ChangelogContents:
    """What a changelog holds: the newest good state if any, and how many marks were torn or are not marks at all."""

    found: StoredState | None
    broken: int


def read(records: Mapping[bytes, bytes | None]) -> ChangelogContents:
    """Choose among the last record of each key. Compaction cannot change the answer: it keeps the last record of each key.

    Neither can the order of the keys: every mark is looked at, and of two good marks of one turn (they hold the same state)
    the one with the higher key is taken.
    """
    good: list[tuple[int, bytes, Mark]] = []
    broken = 0
    for key, value in records.items():
        if value is None or not is_mark(key):
            continue
        mark = _good(records, key, value)
        if mark is None:
            broken += 1
        else:
            good.append((mark.turn, key, mark))
    if not good:
        return ChangelogContents(None, broken)
    _, key, mark = max(good, key=lambda g: g[:2])
    family = _family(key)
    chunks = {name: (records[chunk_key(family, name, slot)] or b"")[_VERSION.size :] for name, (slot, _) in mark.chunks.items()}
    return ChangelogContents(StoredState(family, mark, chunks), broken)


def is_mark(key: bytes) -> bool:
    """Whether this is the changelog key of a mark."""
    return key.partition(b"/")[2] in (f"{MARK}/0".encode(), f"{MARK}/1".encode())


def _family(key: bytes) -> str:
    return key.partition(b"/")[0].decode()


def _good(records: Mapping[bytes, bytes | None], key: bytes, value: bytes) -> Mark | None:
    """The mark, if these bytes are one and every chunk that it names is there in the named version."""
    try:
        family, mark = _family(key), Mark.decode(value)
    except ValueError:
        return None
    whole = all(_version(records.get(chunk_key(family, name, slot))) == v for name, (slot, v) in mark.chunks.items())
    return mark if whole else None


def _version(value: bytes | None) -> int | None:
    if value is None or len(value) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(value)[0]
    return version
