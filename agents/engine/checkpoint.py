"""Checkpoints: the records that carry a task's state through a changelog, and which of them to believe.

A checkpoint is a consistent cut at a turn boundary. Each chunk goes to the one of two slots that the mark in force does not
name; then a mark names the slot and version of every chunk. A family is one ownership: nobody else writes in it, so an owner
that was thought dead can harm nothing. A mark is good if each chunk it names is there in the named version; the good mark
with the highest turn is the state. No merging: a state made of chunks of different turns decides wrongly.

A chunk that is too long for one record is written in parts, which have one version and lie in one slot. So no state, whatever
names and texts it holds, is too large to be written.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agents.engine.input_digest import InputDigests

_VERSION = struct.Struct("<q")
MARK = "mark"
PART = 512 << 10
"""Bytes of a chunk in one record: half of what a topic takes that nobody has configured."""

Slot = tuple[int, int, int]
"""The slot of a chunk, its version, and the number of its parts."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Names a whole state: the turn, the offset after its tick in each input, and slot, version and parts of each chunk.

    `inputs` are digests of what was read up to there; None in marks of versions that had none.
    """

    turn: int
    positions: Mapping[str, int]
    chunks: Mapping[str, Slot]
    inputs: InputDigests | None = None

    def encode(self) -> bytes:
        """JSON, keys in order of insertion. The number of parts is left out where it is one."""
        chunks = {
            name: (slot, version, parts) if parts > 1 else (slot, version) for name, (slot, version, parts) in self.chunks.items()
        }
        body: dict[str, object] = {"turn": self.turn, "positions": dict(self.positions), "chunks": chunks}
        if self.inputs is not None:
            digests = {name: chain.hex() for name, chain in self.inputs.chains.items()}
            body["inputs"] = {"since": self.inputs.since, "digests": digests}
        return json.dumps(body, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> "Mark":
        """Inverse of `encode`. Raises ValueError for bytes that are not a mark."""
        try:
            body = json.loads(data)
            chunks = {name: _slot(*named) for name, named in body["chunks"].items()}
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


def _slot(slot: object, version: object, parts: object = 1) -> Slot:
    if slot not in (0, 1):
        msg = f"slot {slot!r} is neither 0 nor 1"
        raise ValueError(msg)
    if _whole(parts) < 1:
        msg = f"a chunk cannot have {parts!r} parts"
        raise ValueError(msg)
    return _whole(slot), _whole(version), _whole(parts)


def chunk_key(family: str, chunk: str, slot: int, part: int = 0) -> bytes:
    """The changelog key of a part of a chunk. Chunk names may hold slashes, families not."""
    return f"{family}/{chunk}/{slot}".encode() if part == 0 else f"{family}/{chunk}/{slot}+{part}".encode()


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """What one checkpoint writes: chunk records first, the mark when they are acknowledged, then tombstones."""

    turn: int
    records: list[tuple[bytes, bytes]]
    mark: tuple[bytes, bytes]
    chunks: dict[str, Slot]
    tombstones: list[bytes]

    @property
    def size(self) -> int:
        """Bytes of keys and values, the mark included."""
        return sum(len(k) + len(v) for k, v in [*self.records, self.mark])


@dataclass(slots=True)
class Ledger:
    """What one ownership of a partition has written: the slots its mark in force names, and foreign keys yet to be buried.

    `part` bounds the bytes of a chunk in one record.
    """

    family: str
    foreign: list[bytes] = field(default_factory=list)
    chunks: dict[str, Slot] = field(default_factory=dict)
    mark_slot: int = 1
    marked: int = -1
    part: int = PART
    _written: dict[tuple[str, int], int] = field(default_factory=dict)
    """How many parts of each slot of a chunk stand in the changelog, so that those no longer needed are buried."""

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
        records: list[tuple[bytes, bytes]] = []
        tombstones = list(self.foreign)
        for name, data in dumps:
            if name == MARK:
                msg = f"a chunk may not be called '{MARK}': its keys would be those of the marks"
                raise ValueError(msg)
            slot = 1 - self.chunks[name][0] if name in self.chunks else 0
            parts = max(1, -(-len(data) // self.part))
            chunks[name] = (slot, turn, parts)
            for part in range(parts):
                piece = data[part * self.part : (part + 1) * self.part]
                records.append((chunk_key(self.family, name, slot, part), _VERSION.pack(turn) + piece))
            tombstones += self._no_longer_needed(name, slot, parts)
        mark = Mark(turn, positions, chunks, inputs).encode()
        key = chunk_key(self.family, MARK, 1 - self.mark_slot)
        return CheckpointPlan(turn, records, (key, mark), chunks, tombstones)

    def _no_longer_needed(self, name: str, slot: int, parts: int) -> list[bytes]:
        """Keys of parts that this slot of a chunk had and has no more. No mark that is good then names them."""
        before, self._written[name, slot] = self._written.get((name, slot), 0), parts
        return [chunk_key(self.family, name, slot, part) for part in range(parts, before)]

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
    chunks = {name: b"".join(_parts(records, family, name, slot)) for name, slot in mark.chunks.items()}
    return ChangelogContents(StoredState(family, mark, chunks), broken)


def _parts(records: Mapping[bytes, bytes | None], family: str, name: str, named: Slot) -> Iterator[bytes]:
    slot, _, parts = named
    for part in range(parts):
        yield (records[chunk_key(family, name, slot, part)] or b"")[_VERSION.size :]


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
    whole = all(
        _version(records.get(chunk_key(family, name, slot, part))) == version
        for name, (slot, version, parts) in mark.chunks.items()
        for part in range(parts)
    )
    return mark if whole else None


def _version(value: bytes | None) -> int | None:
    if value is None or len(value) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(value)[0]
    return version
