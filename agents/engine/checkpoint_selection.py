"""Checkpoints: the records that carry a task's state through a changelog, and which of them to use.

A checkpoint is a consistent cut at a turn boundary. Each chunk goes to the one of two slots that the mark in force does not name;
then a mark names the slot and version of every chunk. A family is one ownership: nobody else writes to it, so a worker that was
thought dead can do no harm. A mark is good if each chunk it names is there in the named version, with the checksum that the mark
has of it; the good mark with the highest turn is the state. Checksums find damage; they are no signature.

The log may contradict a mark. A mark is written when a turn was taken, so the clock has the tick of that turn, by that name, at
the place that the mark says. If it has another record there, or a topic ends before a position of the mark, the topic was deleted
and recreated, has lost its end, or the mark is forged. Pure.
"""

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import NamedTuple

from agents.engine.input_digest import Epochs, InputDigests

_VERSION = struct.Struct("<q")
MARK = "mark"
PART = 512 << 10
"""Bytes of a chunk in one record: half of what a topic takes that nobody has configured."""

_SEAL = b',"sum":"%b"}'
_SEALED = len(_SEAL % bytes(16))


class Slot(NamedTuple):
    """Where a chunk is: its slot, its version, the number of its parts, and its checksum, empty in marks of earlier versions."""

    slot: int
    version: int
    parts: int = 1
    checksum: str = ""


_DIGESTS = "read"
"""The field of a mark with the digests of inputs. Older marks have `inputs`, made in another way; they prove nothing any more."""


@dataclass(frozen=True, slots=True)
class CheckpointMark:
    """Names a whole state: the turn, its end in each input, the place and name of its tick, and where each chunk is.

    `inputs` are digests of what was read up to there; None in marks of versions without digests. `epochs` says under which
    leaders it was read, where a log has leaders.
    """

    turn: int
    positions: Mapping[str, int]
    chunks: Mapping[str, Slot]
    inputs: InputDigests | None = None
    tick: tuple[int, str] | None = None
    epochs: Epochs = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON, keys in order of insertion, with a checksum of everything before it at the end."""
        body: dict[str, object] = {"turn": self.turn, "positions": dict(self.positions), "tick": self.tick, "chunks": self.chunks}
        if self.inputs is not None:
            digests = {name: chain.hex() for name, chain in self.inputs.chains.items()}
            body[_DIGESTS] = {"since": self.inputs.since, "digests": digests}
        if self.epochs:
            body["epochs"] = self.epochs
        data = json.dumps(body, separators=(",", ":")).encode()
        return data[:-1] + _SEAL % _checksum(data).encode()

    @staticmethod
    def decode(data: bytes) -> "CheckpointMark":
        """Inverse of `encode`. Raises ValueError for bytes that are not a mark."""
        try:
            body = json.loads(data)
            _check_seal(data, body)
            chunks = {_text(name): _slot(*named) for name, named in body["chunks"].items()}
            positions = {_text(t): _whole(o) for t, o in body["positions"].items()}
            digests, tick, epochs = _digests(body.get(_DIGESTS)), _tick(body.get("tick")), _epochs(body.get("epochs", {}))
            return CheckpointMark(_whole(body["turn"]), positions, chunks, digests, tick, epochs)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            msg = f"not a checkpoint mark: {data[:80]!r} ({error!r})"
            raise ValueError(msg) from error


def _check_seal(data: bytes, body: Mapping[str, object]) -> None:
    """Raises ValueError for a mark that was changed, or that has neither chunks nor a checksum."""
    # The checksum is the last field, so that all before it can be digested as it was written.
    if "sum" in body and data[-_SEALED:] != _SEAL % _checksum(data[:-_SEALED] + b"}").encode():
        raise ValueError("its checksum does not agree")
    if "sum" not in body and not body["chunks"]:
        raise ValueError("it names no chunk and has no checksum")


def _whole(value: object) -> int:
    # JSON's true is the number 1 to isinstance.
    if type(value) is not int:
        msg = f"{value!r} is not a whole number"
        raise TypeError(msg)
    return value


def _text(name: str) -> str:
    """The name, if it is valid; raises UnicodeEncodeError, a ValueError, for a lone surrogate."""
    name.encode()
    return name


def _tick(body: object) -> tuple[int, str] | None:
    if body is None:
        return None
    if not isinstance(body, list) or len(body) != 2 or not isinstance(body[1], str):  # noqa: PLR2004  # place and name
        msg = f"{body!r} is no tick"
        raise TypeError(msg)
    return _whole(body[0]), body[1]


def _epochs(body: Mapping[str, object]) -> Epochs:
    epochs: dict[str, list[tuple[int, int]]] = {}
    for topic, read in body.items():
        if not isinstance(read, list):
            msg = f"{read!r} are no epochs of '{topic}'"
            raise TypeError(msg)
        epochs[_text(topic)] = [(_whole(epoch), _whole(upto)) for epoch, upto in read]
    return epochs


def _digests(body: object) -> InputDigests | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        msg = f"{body!r} does not hold digests of inputs"
        raise TypeError(msg)
    return InputDigests(_whole(body["since"]), {name: bytes.fromhex(chain) for name, chain in body["digests"].items()})


def _checksum(data: bytes) -> str:
    """16 hexadecimal digits."""
    return blake2b(data, digest_size=8).hexdigest()


def _slot(slot: object, version: object, parts: object = 1, checksum: object = "") -> Slot:
    if slot not in (0, 1):
        msg = f"slot {slot!r} is neither 0 nor 1"
        raise ValueError(msg)
    if _whole(parts) < 1:
        msg = f"a chunk cannot have {parts!r} parts"
        raise ValueError(msg)
    if not isinstance(checksum, str):
        msg = f"{checksum!r} is no checksum"
        raise TypeError(msg)
    return Slot(_whole(slot), _whole(version), _whole(parts), checksum)


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
class CheckpointLedger:
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

    def plan(  # noqa: PLR0913  # all by keyword; a mark holds that much
        self,
        *,
        turn: int,
        positions: Mapping[str, int],
        dumps: Iterable[tuple[str, bytes]],
        inputs: InputDigests | None = None,
        tick: tuple[int, str] | None = None,
        epochs: Epochs | None = None,
    ) -> CheckpointPlan:
        """The next checkpoint of this family. The first one must dump every chunk; none may be called `mark`."""
        chunks = dict(self.chunks)
        records: list[tuple[bytes, bytes]] = []
        tombstones = list(self.foreign)
        for name, data in dumps:
            if name == MARK:
                msg = f"a chunk may not be called '{MARK}': its keys would be those of the marks"
                raise ValueError(msg)
            # The slot that the mark in force does not name: until the next mark is there, the whole former state is.
            slot = 1 - self.chunks[name][0] if name in self.chunks else 0
            # In parts, so that no state is too large for the broker's largest record, whatever names and texts it holds.
            parts = max(1, -(-len(data) // self.part))
            chunks[name] = Slot(slot, turn, parts, _checksum(data))
            for part in range(parts):
                piece = data[part * self.part : (part + 1) * self.part]
                records.append((chunk_key(self.family, name, slot, part), _VERSION.pack(turn) + piece))
            tombstones += self._no_longer_needed(name, slot, parts)
        mark = CheckpointMark(turn, positions, chunks, inputs, tick, epochs or {}).encode()
        # Marks have two slots as well: a mark that is torn must not overwrite the one in force.
        key = chunk_key(self.family, MARK, 1 - self.mark_slot)
        return CheckpointPlan(turn, records, (key, mark), chunks, tombstones)

    def _no_longer_needed(self, name: str, slot: int, parts: int) -> list[bytes]:
        """Keys of parts that this slot of a chunk no longer has. No mark that is good then names them."""
        before, self._written[name, slot] = self._written.get((name, slot), 0), parts
        return [chunk_key(self.family, name, slot, part) for part in range(parts, before)]

    def accept(self, plan: CheckpointPlan) -> None:
        """The mark of `plan` is acknowledged: it is now the mark in force."""
        self.chunks, self.mark_slot, self.marked = plan.chunks, 1 - self.mark_slot, plan.turn

    def buried(self) -> None:
        """The tombstones of the last plan are acknowledged."""
        self.foreign = []


class StoredChunks(Mapping[str, bytes]):
    """The chunks that a mark of a family names, each put together from its records when it is asked for."""

    # All of them beside their records would be a recovery's highest memory.

    def __init__(self, records: Mapping[bytes, bytes | None], family: str, slots: Mapping[str, Slot]) -> None:
        self._records, self._family, self._slots = records, family, slots

    def __getitem__(self, name: str) -> bytes:
        slot = self._slots[name]
        keys = (chunk_key(self._family, name, slot.slot, part) for part in range(slot.parts))
        return b"".join((self._records[key] or b"")[_VERSION.size :] for key in keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state found in a changelog."""

    family: str
    mark: CheckpointMark
    chunks: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ChangelogContents:
    """What a changelog holds: the newest good state if any, and how many marks were torn, damaged, or no marks at all."""

    found: StoredState | None
    broken: int
    refused: tuple[tuple[CheckpointMark, str], ...] = ()
    """Newer marks that the inputs contradict, and why; a reader that compares marks with inputs names them."""


def read(
    records: Mapping[bytes, bytes | None], *, checked: bool = True, without: Collection[CheckpointMark] = ()
) -> ChangelogContents:
    """Choose among the last record of each key, which is what compaction keeps.

    Without `checked` the checksums of chunks are not verified, for a reader that only kept their versions. Marks in `without` are
    skipped, because the reader has found them to be wrong.
    """
    good: list[tuple[int, bytes, CheckpointMark]] = []
    broken = 0
    for key, value in records.items():
        if value is None or not is_mark(key):
            continue
        mark = _good(records, key, value)
        if mark is None:
            broken += 1
        elif mark not in without:
            good.append((mark.turn, key, mark))
    # Of two good marks of one turn, which have the same state, the higher key counts, so that the order of records does not.
    for _, key, mark in sorted(good, key=lambda entry: entry[:2], reverse=True):
        family = _family(key)
        chunks = StoredChunks(records, family, mark.chunks)
        if not checked or all(slot.checksum in ("", _checksum(chunks[name])) for name, slot in mark.chunks.items()):
            return ChangelogContents(StoredState(family, mark, chunks), broken)
        broken += 1
    return ChangelogContents(None, broken)


def is_mark(key: bytes) -> bool:
    """Whether this is the changelog key of a mark."""
    return key.partition(b"/")[2] in (f"{MARK}/0".encode(), f"{MARK}/1".encode())


def _family(key: bytes) -> str:
    return key.partition(b"/")[0].decode()


def _good(records: Mapping[bytes, bytes | None], key: bytes, value: bytes) -> CheckpointMark | None:
    """The mark, if these bytes are one and every chunk that it names is there in the named version."""
    try:
        family, mark = _family(key), CheckpointMark.decode(value)
    except ValueError:
        return None
    # No merging: a state made of chunks of different turns decides wrongly.
    whole = all(
        _version(records.get(chunk_key(family, name, named.slot, part))) == named.version
        for name, named in mark.chunks.items()
        for part in range(named.parts)
    )
    return mark if whole else None


def _version(value: bytes | None) -> int | None:
    if value is None or len(value) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(value)[0]
    return version


MOST_AHEAD = timedelta(hours=1)
"""How far the turn of a mark may be ahead of real time where the clock no longer holds its tick."""


@dataclass(frozen=True, slots=True)
class ClockEvidence:
    """What the clock shows at a mark's place: where the topic begins and ends, and number and name of the tick there, if any."""

    begin: int
    end: int
    tick: tuple[int, str] | None = None


def objection(mark: CheckpointMark, ends: Mapping[str, int], clock: ClockEvidence, *, now_ms: int) -> str:
    """A sentence on why a mark must not be used; empty if it may be.

    `ends`: where the inputs that the stage reads end, by short name. `now_ms` is real time.
    """
    for name, end in ends.items():
        position = mark.positions.get(name)
        if position is not None and not 0 <= position <= end:
            return f"it says that '{name}' was read up to offset {position}, and '{name}' ends at {end}"
    if mark.tick is None:
        return "" if mark.turn < 0 else "it names no tick of the clock"
    offset, name = mark.tick
    if not 0 <= offset < clock.end:
        return f"the tick of its turn {mark.turn} is said to be at offset {offset} of the clock, which ends at {clock.end}"
    if offset >= clock.begin and clock.tick != (mark.turn, name):
        return f"the record at offset {offset} of the clock is not the tick of its turn {mark.turn}"
    # Retention has removed the tick, which does not count against a mark; but none can be of a turn that has not been.
    if offset < clock.begin and mark.turn > now_ms + MOST_AHEAD // timedelta(milliseconds=1):
        return f"its turn {mark.turn} lies in the future, and the clock holds no tick of it"
    return ""
