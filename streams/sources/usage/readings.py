"""What containers used, as columns: one form for the answers of metrics APIs and Prometheus servers.

Rows that cannot be read or cannot be true are rejected with a reason that names the value, so that one bad row costs one row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas import times
from schemas.bounds import MOST_BYTES, MOST_CORES
from schemas.units import Seconds

Floats = NDArray[np.float64]
ContainerId = tuple[str, str, str]
"""Namespace, pod and container."""
AHEAD = Seconds(120.0)
"""A window that ends this much later than now comes from a wrong clock, and would hide every window that follows."""
BEHIND = Seconds(3600.0)
"""A window that ended this long ago says nothing about what is used now."""

_DUST = 1e-6
"""Millicores by which a float may be above the whole number that it stands for."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that is left out. `value` is the bad value as it was written."""

    kind: str
    namespace: str
    pod: str
    container: str
    value: str
    reason: str


# There is no object for each row, because a cluster has a hundred thousand.
@dataclass(frozen=True, slots=True)
class Readings:
    """Columns of equal length (rows,). Cores and bytes are NaN where nothing was seen; `ends` are in seconds since the epoch."""

    namespaces: Sequence[str]
    pods: Sequence[str]
    containers: Sequence[str]
    cores: Floats
    memory: Floats
    ends: Floats
    window: Seconds
    rejected: tuple[RejectedRow, ...] = ()

    def __len__(self) -> int:
        """How many rows."""
        return len(self.pods)

    def pick(self, wanted: Any) -> "Readings":
        """The rows for which `wanted`, an array of booleans (rows,), is true."""
        if wanted.all():
            return self
        chosen = wanted.tolist()
        return replace(
            self,
            namespaces=tuple(compress(self.namespaces, chosen)),
            pods=tuple(compress(self.pods, chosen)),
            containers=tuple(compress(self.containers, chosen)),
            cores=self.cores[wanted],
            memory=self.memory[wanted],
            ends=self.ends[wanted],
        )


def whole_amounts(cores: Floats, memory: Floats) -> tuple[Floats, Floats]:
    """Cores in whole millicores and memory in whole bytes, rounded up as the VPA recommender rounds them."""
    return np.ceil(cores * 1000 - _DUST) / 1000, np.ceil(memory)


def no_readings() -> Readings:
    """No rows."""
    none = np.empty(0, np.float64)
    return Readings((), (), (), none, none, none, Seconds(0.0))


def used_by_namespace(readings: Readings) -> dict[str, tuple[float, float]]:
    """Cores and bytes of all containers of each namespace, as far as they were seen."""
    names, numbers = np.unique(np.array(readings.namespaces, np.str_), return_inverse=True)
    cores, memory = (np.bincount(numbers, np.nan_to_num(column), len(names)) for column in (readings.cores, readings.memory))
    return dict(zip(names.tolist(), zip(cores.tolist(), memory.tolist(), strict=True), strict=True))


def reject_impossible(readings: Readings, at: datetime) -> Readings:
    """The rows with possible values; impossible ones go into `rejected`."""
    now = at.timestamp()
    faults = (
        ("cores", readings.cores, _impossible(readings.cores, MOST_CORES), f"cores must be between 0 and {MOST_CORES:g}"),
        ("memory", readings.memory, _impossible(readings.memory, MOST_BYTES), f"bytes must be between 0 and {MOST_BYTES:g}"),
        ("future", readings.ends, readings.ends > now + AHEAD, f"the window ends more than {AHEAD:g} s from now"),
        ("unreadable", readings.ends, np.isnan(readings.ends), "the end of the window is no time"),
        ("old", readings.ends, readings.ends < now - BEHIND, f"the window ended more than {BEHIND:g} s ago"),
    )
    rejected = list(readings.rejected)
    kept = ~(np.isnan(readings.cores) & np.isnan(readings.memory))
    for kind, column, wrong, reason in faults:
        rejected += _rejected(readings, kind, column, np.flatnonzero(wrong & kept), reason)
        # A row with several faults is rejected for the first one only.
        kept &= ~wrong
    return replace(readings.pick(kept), rejected=tuple(rejected))


def _impossible(amounts: Floats, most: float) -> NDArray[np.bool_]:
    # NaN stands for what was not seen, and is not impossible.
    with np.errstate(invalid="ignore"):
        return (amounts < 0.0) | (amounts > most)


def _rejected(readings: Readings, kind: str, column: Floats, rows: NDArray[np.int64], reason: str) -> Iterator[RejectedRow]:
    for row in rows.tolist():
        number = float(column[row])
        value = _moment(number) if kind in ("future", "old") else f"{number:g}"
        yield RejectedRow(kind, readings.namespaces[row], readings.pods[row], readings.containers[row], value, reason)


def _moment(seconds: float) -> str:
    """The time as text, or the number where it is no time."""
    try:
        return times.from_seconds(seconds).isoformat()
    except (ValueError, OverflowError):
        return f"{seconds:g}"
