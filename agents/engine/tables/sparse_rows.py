"""Rows of many numbers, few of them not zero and these close together: each row only has room for its own span.

A histogram of 176 buckets seldom fills more than 40. A row gets room for 8 numbers, then 16, and so on, when a number outside
its room is first asked for. Where the room lies never shows: equal numbers dump equal bytes, whatever the history.
"""

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_SIZES = (8, 16, 24, 32, 48, 64, 96, 128)

_BLOCK = 1024
"""Rows handled together in whole width."""

_FEW = 64
"""Rows of which Python finds sooner than numpy what room they have."""

_MOST_UNUSED = 0.25
"""Share of the pool that may be spare before it is put together again."""


class SparseRows:
    """Rows of `width` numbers. `pool` holds them all; `cells` says where."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.pool: Floats = np.zeros(0)
        self._sizes = np.array([*(size for size in _SIZES if size < width), width], np.int64)
        self._origin: Indices = np.zeros(0, np.int64)
        self._base: NDArray[np.int16] = np.zeros(0, np.int16)
        self._room: NDArray[np.int16] = np.zeros(0, np.int16)
        self._end = self._unused = 0
        self._spare: dict[int, array[int]] = {size: array("q") for size in self._sizes.tolist()}

    def __len__(self) -> int:
        return len(self._room)

    def grow(self, rows: int) -> None:
        """Grow to this many rows; new ones are all zero and have no room."""
        more = rows - len(self._room)
        self._origin = np.append(self._origin, np.zeros(more, np.int64))
        self._base = np.append(self._base, np.zeros(more, np.int16))
        self._room = np.append(self._room, np.zeros(more, np.int16))

    def cells(self, rows: Indices, places: Indices) -> Indices:
        """Where in the pool the numbers at `places` of these rows are; room is made where there is none."""
        within = places - self._base[rows]
        outside = (within < 0) | (within >= self._room[rows])
        if np.count_nonzero(outside):
            if self._unused > _MOST_UNUSED * self._end:
                self._compact()
                return self.cells(rows, places)
            moves = np.zeros(len(self), np.bool_)
            moves[rows[outside]] = True
            self._make_room(rows[moves[rows]], places[moves[rows]])
        return self._origin[rows] + places

    def alike(self, rows: Indices) -> Iterator[tuple[Indices, Indices, Indices]]:
        """Rows with room for equally many numbers: positions in `rows`, the first place of each, and cells (one line a row)."""
        room = self._room[rows]
        for size in sorted(set(room.tolist()) - {0}) if len(room) <= _FEW else self._sizes.tolist():
            positions = (room == size).nonzero()[0]
            step = max(1, 65_536 // size)
            for start in range(0, len(positions), step):
                part = positions[start : start + step]
                base = self._base[rows[part]].astype(np.int64)
                yield part, base, (self._origin[rows[part]] + base)[:, None] + np.arange(size)

    def stretches(self, rows: Indices, first: Indices, last: Indices) -> Floats:
        """Copies of the numbers of each row from place `first` on, where it has room: one line a row, as wide as the longest.

        In a line that is shorter, what follows place `last` has no meaning; it is a number of at least zero where all are.
        """
        width = int((last - first).max()) + 1
        pool = self.pool
        # A view of the pool in which line i begins at its cell i, so that one indexing copies all stretches.
        lines: Floats = np.ndarray((len(pool) - width + 1, width), np.float64, pool, 0, (pool.itemsize, pool.itemsize))
        stretches: Floats = lines[self._origin[rows] + first]
        return stretches

    def dense(self, rows: Indices) -> Floats:
        """All numbers of these rows."""
        block = np.zeros((len(rows), self.width))
        for positions, base, cells in self.alike(rows):
            block[positions[:, None], base[:, None] + np.arange(cells.shape[1])] = self.pool[cells]
        return block

    def add(self, rows: Indices, block: Floats) -> None:
        """Add whole rows; no row twice."""
        self._fit(rows, block)
        for positions, base, cells in self.alike(rows):
            self.pool[cells] += block[positions[:, None], base[:, None] + np.arange(cells.shape[1])]

    def put(self, rows: Indices, block: Floats) -> None:
        """Let these rows be these numbers; no row twice."""
        self.clear(rows)
        self._write(rows, block)

    def _write(self, rows: Indices, block: Floats) -> None:
        self._fit(rows, block)
        for positions, base, cells in self.alike(rows):
            self.pool[cells] = block[positions[:, None], base[:, None] + np.arange(cells.shape[1])]

    def _fit(self, rows: Indices, block: Floats) -> None:
        """Make room for all that is in a block."""
        # By the bits: -0.0 is a number that has to survive.
        filled = block.view(np.uint64) != 0
        some = filled.any(axis=1)
        rows, filled = rows[some], filled[some]
        ends = (filled.argmax(axis=1), self.width - 1 - filled[:, ::-1].argmax(axis=1))
        self.cells(np.concatenate([rows, rows]), np.concatenate(ends))

    def scale(self, rows: Indices, factors: Floats) -> None:
        """Multiply whole rows; no row twice."""
        for positions, _, cells in self.alike(rows):
            self.pool[cells] *= factors[positions, None]

    def clear(self, rows: Indices) -> None:
        """Make rows zero and take their room back; no row twice."""
        for _, _, cells in self.alike(rows):
            self._give_back(cells)
        self._room[rows] = 0

    def _make_room(self, rows: Indices, places: Indices) -> None:
        """Move rows to where they have room for these places and for all that is not zero."""
        rows, index = np.unique(rows, return_inverse=True)
        low, high = self._ends(rows)
        np.minimum.at(low, index, places)
        np.maximum.at(high, index, places)
        wanted = high - low + 1
        sizes = self._sizes[np.searchsorted(self._sizes, wanted)]
        for size in np.unique(sizes).tolist():
            these = np.flatnonzero(sizes == size)
            # With as much room below as above, for a histogram grows at both ends.
            first = np.clip(low[these] - (size - wanted[these]) // 2, 0, self.width - size)
            self._move(rows[these], first, size)

    def _ends(self, rows: Indices) -> tuple[Indices, Indices]:
        """The first and the last place of each row that is not zero; `width` and -1 where all are."""
        low, high = np.full(len(rows), self.width), np.full(len(rows), -1)
        for positions, base, cells in self.alike(rows):
            filled = self.pool[cells].view(np.uint64) != 0
            some = np.flatnonzero(filled.any(axis=1))
            low[positions[some]] = base[some] + filled[some].argmax(axis=1)
            high[positions[some]] = base[some] + cells.shape[1] - 1 - filled[some, ::-1].argmax(axis=1)
        return low, high

    def _move(self, rows: Indices, base: Indices, size: int) -> None:
        origin = self._take(size, len(rows)) - base
        for positions, old_base, cells in list(self.alike(rows)):
            numbers = self.pool[cells]
            line, column = np.nonzero(numbers.view(np.uint64))
            self.pool[(origin[positions] + old_base)[line] + column] = numbers[line, column]
            self._give_back(cells)
        self._origin[rows], self._base[rows], self._room[rows] = origin, base, size

    def _take(self, size: int, count: int) -> Indices:
        """Starts of free pieces of the pool; they are all zero."""
        spare = self._spare[size]
        kept = max(0, len(spare) - count)
        again = np.array(spare[kept:], np.int64)
        del spare[kept:]
        self._unused -= len(again) * size
        new = count - len(again)
        end = self._end + new * size
        if end + self.width > len(self.pool):  # a line may extend by a width beyond the last row's room
            pool = np.zeros(max(end + self.width, len(self.pool) + len(self.pool) // 8, 4096))
            pool[: self._end] = self.pool[: self._end]
            self.pool = pool
        starts = self._end + size * np.arange(new)
        self._end = end
        return np.concatenate([again, starts])

    def _give_back(self, cells: Indices) -> None:
        self.pool[cells] = 0.0
        # An array of machine words: a list would hold an object for each piece of thousands.
        self._spare[cells.shape[1]].frombytes(cells[:, 0].tobytes())
        self._unused += cells.size

    def _compact(self) -> None:
        """Move all rows side by side into a new pool, each with no more room than it needs."""
        old = SparseRows(self.width)
        old.pool, old._origin, old._base, old._room = self.pool, self._origin, self._base, self._room
        self.pool, self._end, self._unused = np.zeros(0), 0, 0
        self._origin, self._base, self._room = np.zeros_like(old._origin), np.zeros_like(old._base), np.zeros_like(old._room)
        self._spare = {size: array("q") for size in self._sizes.tolist()}
        used = np.flatnonzero(old._room)
        for start in range(0, len(used), _BLOCK):
            rows = used[start : start + _BLOCK]
            self._write(rows, old.dense(rows))
