"""Adds up requests, use and harm of each container over a recording, so that policies can be compared workload by workload.

The request that counts is the one in force at each moment: the recommendation once it is, the recording's own request until then.
So every policy is summed over the same container time. An oracle for comparison knows each hour in advance and requests exactly
its highest use: a floor that no policy without foresight reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.backtest.recorded_containers import Floats, Rows

RESOURCES = ("cpu", "memory")
EARLY = 12 * 3600.0
"""The first seconds of a container, which are told apart: a policy knows hardly anything of it then."""
SIDES = ("ours", "own", "oracle")
KILLS = ("recorded", "before", "unknown", "would_be", "own_crossings", "crossings_before")
"""As in `KillCounts`, for each container."""
_HOUR = 3600.0
_FIRST_ROWS = 256

ResourceColumn = tuple[str, str, str]
"""Side, resource and what is summed: `requested`, `used`, `slack` (times seconds), `over` and `seconds`, and these two of the
first EARLY seconds of a container."""
_WHATS = ("requested", "used", "slack", "over", "seconds", "early_over", "early_seconds")


@dataclass(frozen=True, slots=True)
class ResourceTotal:
    """One resource of one workload: core- or byte-seconds, and seconds. `over`: seconds in which use was over the request.

    `early_` is of the first EARLY seconds of each container.
    """

    requested: float
    used: float
    slack: float
    over: float
    seconds: float
    early_over: float = 0.0
    early_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadTotal:
    """One workload under one way to set requests. `kills`, and `changes` of running containers, are over the whole recording."""

    workload: str
    containers: int
    cpu: ResourceTotal
    memory: ResourceTotal
    kills: int
    changes: int


@dataclass(slots=True)
class ContainerSums:
    """Sums by row of `RecordedContainers`; rows come as they are needed.

    Of the `hour` (a number of hours since 1970) that is not closed: the highest use, seconds, and use times seconds.
    """

    sums: dict[ResourceColumn, Floats] = field(default_factory=lambda: _zeros(_FIRST_ROWS))
    kills: dict[str, Floats] = field(default_factory=lambda: {name: np.zeros(_FIRST_ROWS) for name in KILLS})
    hour: Floats = field(default_factory=lambda: np.full(_FIRST_ROWS, -1.0))
    peaks: dict[str, Floats] = field(default_factory=lambda: {name: np.full(_FIRST_ROWS, np.nan) for name in RESOURCES})
    in_hour: dict[str, Floats] = field(default_factory=lambda: {name: np.zeros(_FIRST_ROWS) for name in RESOURCES})
    used_in_hour: dict[str, Floats] = field(default_factory=lambda: {name: np.zeros(_FIRST_ROWS) for name in RESOURCES})

    def weigh(self, resource: str, rows: Rows, amounts: tuple[Floats, Floats], use: Floats, seconds: float) -> None:
        """One scrape of one resource. `amounts` (rows,) each: the recording's own request, and the recommendation in force."""
        own, ours = amounts
        self._reserve(rows)
        self._add("ours", resource, rows, np.where(np.isnan(ours), own, ours), use, seconds)
        self._add("own", resource, rows, own, use, seconds)

    def foresee(self, at: float, rows: Rows, peaks: Sequence[Floats], uses: Sequence[Floats], seconds: float) -> None:
        """The same scrape for the oracle. `peaks` (rows,) of each resource: the highest use within the window; `at`: its end."""
        self._reserve(rows)
        # a window belongs to the hour in which its middle lies
        hour = np.floor((at - seconds / 2) / _HOUR)
        over = rows[self.hour[rows] != hour]
        # once each: a row that stands twice would be closed twice
        self._settle(np.unique(over))
        self.hour[rows] = hour
        for resource, peak, use in zip(RESOURCES, peaks, uses, strict=True):
            measured = ~np.isnan(use)
            # `fmax`, because an hour begins at NaN
            np.fmax.at(self.peaks[resource], rows[measured], np.fmax(peak, use)[measured])
            np.add.at(self.in_hour[resource], rows[measured], seconds)
            np.add.at(self.used_in_hour[resource], rows[measured], seconds * use[measured])

    def kill(self, kind: str, rows: Rows) -> None:
        """Count one kill of each of these rows; `kind` is one of KILLS."""
        self._reserve(rows)
        np.add.at(self.kills[kind], rows, 1.0)

    def of_rows(self, count: int) -> "ContainerSums":
        """The sums of the first `count` rows, with the hour closed."""
        self._reserve(np.array([max(count - 1, 0)]))
        self._settle(np.arange(count))
        return ContainerSums(
            {name: column[:count] for name, column in self.sums.items()},
            {name: column[:count] for name, column in self.kills.items()},
            self.hour[:count],
            *(
                {name: column[:count] for name, column in columns.items()}
                for columns in (self.peaks, self.in_hour, self.used_in_hour)
            ),
        )

    @staticmethod
    def joined(parts: "Sequence[ContainerSums]") -> "ContainerSums":
        """The rows of each part, one part after the other."""
        first = parts[0]
        return ContainerSums(
            {name: np.concatenate([part.sums[name] for part in parts]) for name in first.sums},
            {name: np.concatenate([part.kills[name] for part in parts]) for name in first.kills},
            np.concatenate([part.hour for part in parts]),
            {name: np.concatenate([part.peaks[name] for part in parts]) for name in RESOURCES},
            {name: np.concatenate([part.in_hour[name] for part in parts]) for name in RESOURCES},
            {name: np.concatenate([part.used_in_hour[name] for part in parts]) for name in RESOURCES},
        )

    def totals(self, side: str, workloads: Sequence[str], changes: Floats) -> list[WorkloadTotal]:
        """Of each workload. `workloads` (rows,) are their keys, `changes` (rows,) says how often each container was changed."""
        count = len(workloads)
        self._reserve(np.array([max(count - 1, 0)]))
        self._settle(np.arange(count))
        names, number = np.unique(np.array(workloads, dtype=object), return_inverse=True)

        def by_workload(column: Floats) -> list[float]:
            summed: list[float] = np.bincount(number, column[:count], len(names)).tolist()
            return summed

        parts = {
            resource: list(
                zip(
                    *(by_workload(self.sums[side, resource, what]) for what in _WHATS),
                    strict=True,
                )
            )
            for resource in RESOURCES
        }
        kills, changed = by_workload(self._kills_of(side)), by_workload(changes if side == "ours" else np.zeros(count))
        containers = np.bincount(number, minlength=len(names)).tolist()
        return [
            WorkloadTotal(
                str(name),
                containers[i],
                ResourceTotal(*parts["cpu"][i]),
                ResourceTotal(*parts["memory"][i]),
                round(kills[i]),
                round(changed[i]),
            )
            for i, name in enumerate(names)
        ]

    def _kills_of(self, side: str) -> Floats:
        """As `KillCounts` counts them: a recording without kills is judged by windows over limits."""
        kills_recorded = bool(self.kills["recorded"].any())
        if side == "oracle":
            return np.zeros_like(self.hour)
        if side == "own":
            return self.kills["recorded" if kills_recorded else "own_crossings"]
        return self.kills["would_be"] + self.kills["before" if kills_recorded else "crossings_before"]

    def _add(self, side: str, resource: str, rows: Rows, request: Floats, use: Floats, seconds: float) -> None:  # noqa: PLR0913, PLR0917  # one row of numbers
        measured = ~(np.isnan(request) | np.isnan(use))
        rows, request, use = rows[measured], request[measured], use[measured]
        # by the time that was recorded of it so far
        early = self.sums[side, resource, "seconds"][rows] < EARLY
        if early.any():
            np.add.at(self.sums[side, resource, "early_over"], rows[early], (use > request)[early] * seconds)
            np.add.at(self.sums[side, resource, "early_seconds"], rows[early], seconds)
        for what, amount in (
            ("requested", request * seconds),
            ("used", use * seconds),
            ("slack", np.maximum(request - use, 0.0) * seconds),
            ("over", (use > request) * seconds),
            ("seconds", np.full(len(rows), seconds)),
        ):
            np.add.at(self.sums[side, resource, what], rows, amount)

    def _settle(self, rows: Rows) -> None:
        """Close the hour of these rows: the oracle requested its highest use all the time."""
        for resource in RESOURCES:
            peak = np.nan_to_num(self.peaks[resource][rows])
            seconds, used = self.in_hour[resource][rows], self.used_in_hour[resource][rows]
            for what, amount in (
                ("requested", peak * seconds),
                ("used", used),
                ("slack", peak * seconds - used),
                ("seconds", seconds),
            ):
                # `+=` will do, for no row stands twice here
                self.sums["oracle", resource, what][rows] += amount
            self.peaks[resource][rows] = np.nan
            self.in_hour[resource][rows] = self.used_in_hour[resource][rows] = 0.0

    def _reserve(self, rows: Rows) -> None:
        """Room for these rows."""
        most = int(rows.max()) + 1 if len(rows) else 0
        size = len(self.hour)
        if most <= size:
            return
        # at least doubled, so that growing costs little in all
        more = max(most, 2 * size) - size
        for columns in (self.sums, self.kills, self.in_hour, self.used_in_hour):
            for name in columns:
                columns[name] = np.concatenate([columns[name], np.zeros(more)])  # type: ignore[index]  # each dictionary with its own keys
        self.peaks = {name: np.concatenate([column, np.full(more, np.nan)]) for name, column in self.peaks.items()}
        self.hour = np.concatenate([self.hour, np.full(more, -1.0)])


def _zeros(rows: int) -> dict[ResourceColumn, Floats]:
    return {(side, resource, what): np.zeros(rows) for side in SIDES for resource in RESOURCES for what in _WHATS}
