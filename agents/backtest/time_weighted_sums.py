"""Adds up what requests cost, in arrays: time-weighted sums of each container and a histogram of slack.

Amounts are added container by container, each in the order of time, and the containers' sums exactly (`math.fsum`); lengths of
time are whole microseconds. So a sum does not depend on which containers are scored together, by one process or by several.
Memory does not grow with the length of the recording.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agents.backtest.score_card import RequestsScore, ResourceScore
from schemas.units import Fraction

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

RATIO = 1.02
"""Each bin of the histogram of slack is 2 % wider than the one before."""
BINS = 2_048
DAY = 86_400.0

_AMOUNTS = ("requested", "used", "slack")
_FIRST_ROWS = 256
_MICRO = 1_000_000


def microseconds(seconds: float) -> int:
    """A length of time as a whole number, which adds up exactly."""
    return round(seconds * _MICRO)


def in_seconds(micros: int) -> float:
    """A sum of `microseconds` in seconds."""
    return micros / _MICRO


@dataclass(slots=True)
class ResourceSums:
    """One resource of one side. `unit` is the smallest slack that counts; lengths of time are microseconds."""

    unit: float
    micros: int = 0
    over: int = 0
    peak_micros: int = 0
    peak_over: int = 0
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    sums: dict[str, Floats] = field(default_factory=lambda: {name: np.zeros(_FIRST_ROWS) for name in _AMOUNTS})
    """(rows,) Amounts times seconds of each container."""

    def add(self, rows: Rows, request: Floats, use: Floats, seconds: float, peak: Floats | None = None) -> None:
        """Rows of windows of equal length, none of them NaN. `peak` is the highest use within the window, NaN if unknown."""
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        slack, micros = np.maximum(request - use, 0.0), microseconds(seconds)
        for name, amounts in zip(_AMOUNTS, (request, use, slack), strict=True):
            # `add.at` and not `+=`: a container stands in several of the scrapes that are added at once
            np.add.at(self.sums[name], rows, amounts * seconds)
        self.micros += micros * len(rows)
        self.over += micros * int(np.count_nonzero(use > request))
        self.bins += micros * np.bincount(self._bin(slack), minlength=BINS)
        if peak is not None:
            self.peak_micros += micros * int(np.count_nonzero(~np.isnan(peak)))
            self.peak_over += micros * int(np.count_nonzero(peak > request))

    def _bin(self, slack: Floats) -> NDArray[np.int64]:
        """0 for less than a unit; then bin i holds from unit * RATIO**(i-1) to unit * RATIO**i."""
        steps = np.log(np.maximum(slack / self.unit, 1.0)) / np.log(RATIO)
        return np.minimum(np.where(slack < self.unit, 0, steps + 1), BINS - 1).astype(np.int64)

    def spread(self) -> ResourceScore:
        """The result; all zero when nothing was scored."""
        # `or 1.0`: nothing was scored, and all is zero
        seconds = in_seconds(self.micros) or 1.0
        # fsum: the same to the last bit however the containers were distributed over processes
        requested, used, slack = (math.fsum(self.sums[name].tolist()) / seconds for name in _AMOUNTS)
        return ResourceScore(
            container_days=in_seconds(self.micros) / DAY,
            requested=requested,
            used=used,
            slack=slack,
            slack_p95=self._p95(),
            over=Fraction(self.over / (self.micros or 1)),
            peak_over=Fraction(self.peak_over / self.peak_micros) if self.peak_micros else None,
        )

    def _p95(self) -> float:
        """The middle of the bin in which 95 % of the time is reached."""
        at = int(np.searchsorted(np.cumsum(self.bins), 0.95 * self.micros))
        # the bins grow by a factor, so their middle is half a step of the exponent
        return 0.0 if at == 0 else float(self.unit * RATIO ** (at - 0.5))

    def _reserve(self, rows: int) -> None:
        size = len(self.sums["used"])
        if rows > size:
            more = np.zeros(max(rows, 2 * size) - size)
            self.sums = {name: np.append(column, more) for name, column in self.sums.items()}

    @staticmethod
    def joined(parts: "Sequence[ResourceSums]") -> "ResourceSums":
        """The sums of other containers put together; no container is in two of them."""
        return ResourceSums(
            parts[0].unit,
            sum(part.micros for part in parts),
            sum(part.over for part in parts),
            sum(part.peak_micros for part in parts),
            sum(part.peak_over for part in parts),
            np.sum([part.bins for part in parts], axis=0),
            {name: np.concatenate([part.sums[name] for part in parts]) for name in _AMOUNTS},
        )


@dataclass(slots=True)
class SideSums:
    """Both resources of one side."""

    cpu: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1e-4))
    memory: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1024.0))

    def side(self, ooms: int) -> RequestsScore:
        """The result; `ooms` are counted elsewhere."""
        days = in_seconds(max(self.cpu.micros, self.memory.micros)) / DAY
        return RequestsScore(days, self.cpu.spread(), self.memory.spread(), ooms)

    @staticmethod
    def joined(parts: "Sequence[SideSums]") -> "SideSums":
        """As ResourceSums has it."""
        return SideSums(ResourceSums.joined([part.cpu for part in parts]), ResourceSums.joined([part.memory for part in parts]))
