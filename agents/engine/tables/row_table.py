"""Columns of numbers with one named row for each thing: arrays for numpy, in chunks of 256 rows for checkpoints.

Names and numbers are different chunks: names change when a thing comes or goes, numbers with each sample. Wide columns are dumped
sparse: a bit for each cell, then the cells that are not zero. Every bit of a number survives. Columns of several numbers that are
mostly not zero are dense: an array (rows, count).
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.sparse_rows import SparseRows

RowKey = tuple[str, ...]
Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

CHUNK = 256
"""Rows of one chunk."""

_NAMES = msgspec.json.Decoder(list[RowKey | None])  # noqa: TID251  # of no type of ours


def distinct(numbers: Indices) -> Indices:
    """These small whole numbers, rising, each once. Counting takes a fraction of numpy's hashing, also of nothing."""
    return np.bincount(numbers).nonzero()[0]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One number for each row, or `width` float64 numbers that are mostly zero, or `dense` numbers.

    What is not `kept` is in no chunk: a row that was loaded has the default, as a new one has.
    """

    kind: type[np.float64 | np.float32 | np.int64 | np.int32 | np.int16 | np.bool_] = np.float64
    default: float = 0.0
    width: int = 0
    kept: bool = True
    dense: int = 0


class RowTable:
    """Named rows of numbers. Columns are read and changed in place through `self[column]`; say `touch` afterwards."""

    def __init__(self, name: str, columns: Mapping[str, ColumnSpec]) -> None:
        self.name = name
        self.spec = dict(columns)
        self.freed: list[int] = []
        """Rows given back since the start, for those who remember row numbers."""
        self._columns = {c: _blank(spec, 0) for c, spec in columns.items() if not spec.width}
        self._spans = {c: SparseRows(spec.width) for c, spec in columns.items() if spec.width}
        self._room = 0
        self._keys: list[RowKey | None] = []
        self._row_of: dict[RowKey, int] = {}
        self._free: list[int] | None = []
        self._used: Indices | None = None
        self._dirty: set[int] = set()
        self._renamed: set[int] = set()

    def __getitem__(self, column: str) -> NDArray[np.generic]:
        return self._columns[column]

    def marks(self, column: str) -> NDArray[np.bool_]:
        """A column of yes and no."""
        return self._columns[column]  # type: ignore[return-value]  # the spec says so

    def floats(self, column: str) -> Floats:
        """A float64 column."""
        return self._columns[column]  # type: ignore[return-value]  # the spec says float64

    def whole(self, column: str) -> Indices:
        """A column of whole numbers; some are narrower than their type says here."""
        return self._columns[column]  # type: ignore[return-value]  # the spec says so

    def spans(self, column: str) -> SparseRows:
        """A wide column."""
        return self._spans[column]

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._row_of

    def find(self, key: RowKey) -> int | None:
        """The row of `key`, or None."""
        return self._row_of.get(key)

    def row(self, key: RowKey) -> int:
        """The row of `key`, which is in use."""
        return self._row_of[key]

    def key(self, row: int) -> RowKey:
        """The name of a row in use."""
        key = self._keys[row]
        if key is None:
            msg = f"row {row} of '{self.name}' is free and has no name"
            raise LookupError(msg)
        return key

    def keys(self) -> Iterable[RowKey]:
        """All names, in no order that may matter."""
        return self._row_of.keys()

    def used(self) -> Indices:
        """The rows in use."""
        if self._used is None:
            self._used = np.array(sorted(self._row_of.values()), np.int64)
        return self._used

    def add(self, key: RowKey) -> int:
        """The row of `key`, which is new: the lowest free one, all defaults."""
        # The lowest free row, so that the place of a row follows from the names alone and a loaded table goes on as the dumped
        # one.
        row = heapq.heappop(self._free_rows())
        self._keys[row] = key
        self._row_of[key] = row
        self._used = None
        self._renamed.add(row // CHUNK)
        self._dirty.add(row // CHUNK)
        return row

    def free(self, key: RowKey) -> None:
        """Give the row of `key` back."""
        free = self._free_rows()
        row = self._row_of.pop(key)
        self._keys[row] = None
        for name, column in self._columns.items():
            column[row] = self.spec[name].default
        for spans in self._spans.values():
            spans.clear(np.array([row]))
        heapq.heappush(free, row)
        self.freed.append(row)
        self._used = None
        self._renamed.add(row // CHUNK)
        self._dirty.add(row // CHUNK)

    def touch(self, rows: Indices | Sequence[int]) -> None:
        """The numbers of these rows changed."""
        self.touch_chunks(distinct(np.asarray(rows, np.int64) // CHUNK).tolist())

    def touch_chunks(self, chunks: Iterable[int]) -> None:
        """The numbers of rows of these chunks changed."""
        self._dirty.update(chunks)

    def chunks(self) -> Iterable[str]:
        """Names and numbers of every stretch of rows that was ever used."""
        count = len(self._keys) // CHUNK
        return [self._chunk(part, number) for number in range(count) for part in ("names", "numbers")]

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        dirty = {self._chunk("numbers", n) for n in self._dirty} | {self._chunk("names", n) for n in self._renamed}
        self._dirty, self._renamed = set(), set()
        return dirty

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        every = range(len(self._keys) // CHUNK)
        self._dirty.update(every)
        self._renamed.update(every)

    def dump(self, chunk: str) -> bytes:
        """One chunk: JSON of 256 names, or the numbers column by column."""
        part, number = _parse(chunk)
        span = slice(number * CHUNK, (number + 1) * CHUNK)
        if part == "names":
            return msgspec.json.encode(self._keys[span])
        return b"".join(self._pack(name, span) for name, spec in self.spec.items() if spec.kept)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        part, number = _parse(chunk)
        while len(self._keys) < (number + 1) * CHUNK:
            self._grow()
        start = number * CHUNK
        if part == "numbers":
            self._unpack(start, memoryview(data))
            return
        for row, decoded in enumerate(_NAMES.decode(data), start):
            # Other tables have the same workloads and pods.
            key = None if decoded is None else tuple(map(intern, decoded))
            self._keys[row] = key
            if key is not None:
                self._row_of[key] = row
        # Made again at the next use: chunks come one by one, and each would sort all rows.
        self._used = self._free = None

    def _free_rows(self) -> list[int]:
        """A heap of the free rows, never empty."""
        if self._free is None:
            self._free = [row for row, key in enumerate(self._keys) if key is None]
        if not self._free:
            self._grow()
        return self._free

    def reserve(self, rows: int) -> None:
        """Make room for this many rows. Arrays grow by at least an eighth."""
        if rows <= self._room:
            return
        size, self._room = self._room, max(rows, self._room + self._room // 8)
        for name, old in self._columns.items():
            new = _blank(self.spec[name], self._room)
            new[:size] = old
            self._columns[name] = new
        for spans in self._spans.values():
            spans.grow(self._room)

    def _grow(self) -> None:
        """One more chunk of free rows."""
        size = len(self._keys)
        self._keys += [None] * CHUNK
        if self._free is not None:
            # Higher numbers than all others stand at the end of a heap as they are.
            self._free += range(size, size + CHUNK)
        self.reserve(size + CHUNK)

    def _pack(self, name: str, span: slice) -> bytes:
        """A column of one chunk."""
        if name in self._columns:
            return self._columns[name][span].tobytes()
        flat = self._spans[name].dense(np.arange(span.start, span.stop)).reshape(-1)
        # By the bits, so that -0.0 survives, too.
        mask = flat.view(np.uint64) != 0
        bits: bytes = np.packbits(mask).tobytes()
        cells_that_count: bytes = flat[mask].tobytes()
        return bits + cells_that_count

    def _unpack(self, start: int, data: memoryview) -> None:
        offset = 0
        for name, spec in self.spec.items():
            if not spec.kept:
                self._columns[name][start : start + CHUNK] = spec.default
                continue
            if not spec.width:
                numbers = np.frombuffer(data, spec.kind, CHUNK * (spec.dense or 1), offset)
                self._columns[name][start : start + CHUNK] = numbers.reshape(_shape(spec, CHUNK))
                offset += numbers.nbytes
                continue
            cells = CHUNK * spec.width
            mask = np.unpackbits(np.frombuffer(data, np.uint8, cells // 8, offset)).astype(bool)
            offset += cells // 8
            values = np.frombuffer(data, np.float64, int(mask.sum()), offset)
            offset += values.nbytes
            block = np.zeros(cells)
            block[mask] = values
            self._spans[name].put(np.arange(start, start + CHUNK), block.reshape(CHUNK, spec.width))

    def _chunk(self, part: str, number: int) -> str:
        return f"{self.name}/{part}/{number:05d}"


def _blank(spec: ColumnSpec, rows: int) -> NDArray[np.generic]:
    shape = _shape(spec, rows)
    return np.zeros(shape, spec.kind) if spec.default == 0 else np.full(shape, spec.default, spec.kind)


def _shape(spec: ColumnSpec, rows: int) -> tuple[int, ...]:
    return (rows, spec.dense) if spec.dense else (rows,)


def _parse(chunk: str) -> tuple[str, int]:
    _, part, number = chunk.rsplit("/", 2)
    return part, int(number)
