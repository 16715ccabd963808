"""The history of many loads, one value a step: rings of float32, in chunks of 64 series and 360 steps for checkpoints.

A step without a sample is NaN. Values older than the history are overwritten and never read again.
"""

import heapq
from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import distinct

STEP = 60
"""Seconds; upstream's default of `sampleInterval`."""
STEPS = 15 * 24 * 60 + 60
"""Upstream's default of `historyLength`, plus the extra hour that it requests."""
# A new sample changes only the newest chunk of its series, so that a checkpoint writes six hours of 64 series, not fifteen days.
GROUP = 64
"""Series of one chunk."""
BLOCK = 360
"""Steps of one chunk."""
_NONE = -1

Ring = NDArray[np.float32]
Times = NDArray[np.int64]
Floats = NDArray[np.float64]
_NAMES = msgspec.json.Decoder(list[str | None])  # noqa: TID251  # of no type of ours


class LoadRings:
    """Named rings. `step` is in seconds, `steps` is how many of them a ring keeps; neither may change once in use."""

    name = "load"

    def __init__(self, step: int = STEP, steps: int = STEPS) -> None:
        self.step, self.steps = step, steps
        self._blocks = -(-steps // BLOCK) + 1
        self._length = self._blocks * BLOCK
        self._rings: list[Ring | None] = []
        self._last: list[int] = []
        self._keys: list[str | None] = []
        self._row_of: dict[str, int] = {}
        self._free: list[int] | None = None
        self._dirty: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._row_of

    def __len__(self) -> int:
        return len(self._row_of)

    def keys(self) -> Iterable[str]:
        """All names, in no order that may matter."""
        return self._row_of.keys()

    def add(self, key: str) -> None:
        """Add a series of this name, without samples, unless it exists."""
        if key in self._row_of:
            return
        free = self._free_rows()
        if not free:
            free.extend(range(len(self._keys), len(self._keys) + GROUP))
            self._grow(len(self._keys) + GROUP)
        # The lowest free row, so that rows depend on the names alone and not on how the process came to its state.
        row = heapq.heappop(free)
        self._keys[row], self._row_of[key] = key, row
        self._rings[row] = np.full(self._length, np.nan, np.float32)
        self._last[row] = _NONE
        self._touch_names(row)

    def remove(self, key: str) -> None:
        """Forget a series."""
        free = self._free_rows()
        row = self._row_of.pop(key)
        self._keys[row], self._rings[row], self._last[row] = None, None, _NONE
        heapq.heappush(free, row)
        self._touch_names(row)
        self._dirty.update(self._numbers(row // GROUP, block) for block in range(self._blocks))

    def put(self, key: str, at: float, value: float) -> None:
        """Set the value of a series at a time (seconds since the epoch)."""
        row = self._row_of[key]
        place, last, ring = int(at // self.step), self._last[row], self._rings[row]
        # A value that is older than the ring would overwrite a newer one, which lies in the same place.
        if ring is None or (last != _NONE and place <= last - self.steps):
            return
        if place > last:
            self._advance(row, ring, last, place)
        ring[place % self._length] = value
        self._dirty.add(self._numbers(row // GROUP, place % self._length // BLOCK))

    def fill(self, key: str, times: Times, values: Floats) -> None:
        """Fill in history: values at times (seconds since the epoch), where the series has no sample yet."""
        row = self._row_of[key]
        ring, good = self._rings[row], np.isfinite(values)
        places, values = times[good] // self.step, values[good]
        if ring is None or not len(places):
            return
        newest, last = int(places.max()), self._last[row]
        if newest > last:
            self._advance(row, ring, last, newest)
        kept = places > max(newest, last) - self.steps
        columns, values = places[kept] % self._length, values[kept]
        blank = np.isnan(ring[columns])
        ring[columns[blank]] = values[blank]
        group = row // GROUP
        self._dirty.update(self._numbers(group, block) for block in distinct(columns // BLOCK).tolist())

    def series(self, key: str) -> tuple[Times, Floats]:
        """Times (seconds since the epoch) and values of the samples in the ring, oldest first."""
        row = self._row_of[key]
        last, ring = self._last[row], self._rings[row]
        if ring is None or last == _NONE:
            return np.zeros(0, np.int64), np.zeros(0)
        places = np.arange(max(0, last - self.steps + 1), last + 1)
        values = ring[places % self._length]
        known = ~np.isnan(values)
        return places[known] * self.step, values[known].astype(np.float64)

    def _advance(self, row: int, ring: Ring, last: int, place: int) -> None:
        """Move the end of the series on to `place`; the steps between have no sample."""
        first = place - self._length + 1 if last == _NONE else max(last + 1, place - self._length + 1)
        skipped = np.arange(first, place + 1) % self._length
        ring[skipped] = np.nan
        self._last[row] = place
        group = row // GROUP
        self._dirty.add(self._ends(group))
        self._dirty.update(self._numbers(group, block) for block in distinct(skipped // BLOCK).tolist())

    def chunks(self) -> Iterable[str]:
        """Names, newest steps and numbers of every group of series that was ever used."""
        for group in range(len(self._keys) // GROUP):
            yield f"{self.name}/names/{group:05d}"
            yield self._ends(group)
            yield from (self._numbers(group, block) for block in range(self._blocks))

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def touch_all(self) -> None:
        """Mark every chunk as changed."""
        self._dirty.update(self.chunks())

    def dump(self, chunk: str) -> bytes:
        """One chunk: JSON of 64 names, 64 whole numbers, or 64 rows of 360 numbers."""
        part, group, block = _parse(chunk)
        rows = range(group * GROUP, (group + 1) * GROUP)
        if part == "names":
            return msgspec.json.encode([self._keys[row] for row in rows])
        if part == "ends":
            return np.array([self._last[row] for row in rows], np.int64).tobytes()
        numbers = np.full((GROUP, BLOCK), np.nan, np.float32)
        for place, row in enumerate(rows):
            ring = self._rings[row]
            if ring is not None:
                numbers[place] = ring[block * BLOCK : (block + 1) * BLOCK]
        return numbers.tobytes()

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place. The chunks come in any order."""
        part, group, block = _parse(chunk)
        self._grow((group + 1) * GROUP)
        # Which rows are free is known only when the last chunk is in place.
        self._free = None
        first = group * GROUP
        if part == "names":
            for row, key in enumerate(_NAMES.decode(data), first):
                self._keys[row] = key
                if key is not None:
                    self._row_of[key] = row
                    self._ring(row)
            return
        if part == "ends":
            self._last[first : first + GROUP] = np.frombuffer(data, np.int64).tolist()
            return
        numbers = np.frombuffer(data, np.float32).reshape(GROUP, BLOCK)
        for place in np.flatnonzero(~np.isnan(numbers).all(axis=1)).tolist():
            self._ring(first + place)[block * BLOCK : (block + 1) * BLOCK] = numbers[place]

    def _ring(self, row: int) -> Ring:
        ring = self._rings[row]
        if ring is None:
            ring = self._rings[row] = np.full(self._length, np.nan, np.float32)
        return ring

    def _grow(self, rows: int) -> None:
        more = rows - len(self._keys)
        if more > 0:
            self._keys += [None] * more
            self._rings += [None] * more
            self._last += [_NONE] * more

    def _free_rows(self) -> list[int]:
        """A heap of the free rows, possibly empty."""
        if self._free is None:
            self._free = [row for row, key in enumerate(self._keys) if key is None]
        return self._free

    def _touch_names(self, row: int) -> None:
        group = row // GROUP
        self._dirty |= {f"{self.name}/names/{group:05d}", self._ends(group)}
        self._dirty.update(self._numbers(group, block) for block in range(self._blocks))

    def _ends(self, group: int) -> str:
        return f"{self.name}/ends/{group:05d}"

    def _numbers(self, group: int, block: int) -> str:
        return f"{self.name}/numbers/{group:05d}/{block:03d}"


def _parse(chunk: str) -> tuple[str, int, int]:
    """Part, group and block."""
    _, part, group, *block = chunk.split("/")
    return part, int(group), int(block[0]) if block else 0
