"""Every sample of a backtest as a row, with the requests that were in force: so anybody can compute the figures again.

Rows are collected as arrays and written in parts, as Parquet, so that memory does not grow with the recording.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agents.backtest.recorded_containers import Flags, Floats, RecordedContainers, Rows

_AT_ONCE = 200_000

NUMBERS = ("timestamp_s", "seconds", "cpu_used", "cpu_requested", "memory_used", "memory_requested", "memory_limit", "killed")
"""The columns after policy, workload, pod and container: `timestamp_s` is the end of the window (since 1970), `seconds` its
length; cores and bytes; `memory_used` is the highest within the window, where that is known; `killed`: the limit would have ended
the container here. A request is the recommendation in force, the recording's own until there is one, and null without both."""


@dataclass(slots=True)
class SampleRows:
    """The rows of one policy, written into a folder of their own."""

    folder: Path
    policy: str
    _columns: list[list[Floats]] = field(default_factory=lambda: [[] for _ in NUMBERS])
    _rows: list[Rows] = field(default_factory=list)
    _waiting: int = 0
    _parts: int = 0

    def take(self, containers: RecordedContainers, rows: Rows, columns: tuple[Floats | Flags, ...]) -> None:
        """One scrape: rows of `containers`, and the columns that NUMBERS names."""
        for waiting, column in zip(self._columns, columns, strict=True):
            waiting.append(np.broadcast_to(np.asarray(column, np.float64), rows.shape))
        self._rows.append(rows)
        self._waiting += len(rows)
        if self._waiting >= _AT_ONCE:
            self.write(containers)

    def write(self, containers: RecordedContainers) -> None:
        """Write what waits; to be called at the end, too."""
        import duckdb

        if not self._waiting:
            return
        rows = np.concatenate(self._rows)
        keys = np.array([containers.key(row) for row in range(len(containers))], dtype=object)
        names = {name: keys[rows, place] for place, name in enumerate(("workload", "pod", "container"))}
        numbers = {name: np.concatenate(column) for name, column in zip(NUMBERS, self._columns, strict=True)}
        part = {"policy": np.full(len(rows), self.policy, dtype=object), **names, **numbers}
        with duckdb.connect() as db:
            db.register("part", part)
            nullable = ", ".join(f"nullif({name}, 'nan'::double) as {name}" for name in NUMBERS[2:-1])
            chosen = f"policy, workload, pod, container, timestamp_s, seconds, {nullable}, killed > 0 as killed"
            db.table("part").project(chosen).write_parquet(str(self.folder / f"{self._parts:06d}.parquet"))
        self._columns, self._rows, self._waiting = [[] for _ in NUMBERS], [], 0
        self._parts += 1
