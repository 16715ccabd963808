"""Adds up what requests cost, scrape by scrape, in arrays: time-weighted sums and a histogram of slack.

Memory does not grow with the length of the recording. Rows without a request or without a measurement are not scored.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agents.backtest.score_card import RequestsScore, ResourceScore
from schemas.units import Fraction

Floats = NDArray[np.float64]

RATIO = 1.02
"""Each bin of the histogram of slack is 2 % wider than the one before."""
BINS = 2_048
DAY = 86_400.0


@dataclass(slots=True)
class ResourceSums:
    """One resource of one side. `unit` is the smallest slack that is told from none."""

    unit: float
    seconds: float = 0.0
    requested: float = 0.0
    used: float = 0.0
    slack: float = 0.0
    over: float = 0.0
    peak_seconds: float = 0.0
    peak_over: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, request: Floats, use: Floats, seconds: float, peak: Floats | None = None) -> None:
        """One scrape: rows of equal length, all of the same window. `peak` is the highest use within it, NaN if unknown."""
        known = ~(np.isnan(request) | np.isnan(use))
        if not known.any():
            return
        if not known.all():
            request, use, peak = request[known], use[known], None if peak is None else peak[known]
        slack = np.maximum(request - use, 0.0)
        self.seconds += seconds * len(use)
        self.requested += seconds * float(request.sum())
        self.used += seconds * float(use.sum())
        self.slack += seconds * float(slack.sum())
        self.over += seconds * float((use > request).sum())
        self.bins += seconds * np.bincount(self._bin(slack), minlength=BINS)
        if peak is not None:
            self.peak_seconds += seconds * float((~np.isnan(peak)).sum())
            self.peak_over += seconds * float((peak > request).sum())

    def _bin(self, slack: Floats) -> NDArray[np.int64]:
        """0 for less than a unit; then bin i holds from unit * RATIO**(i-1) to unit * RATIO**i."""
        steps = np.log(np.maximum(slack / self.unit, 1.0)) / np.log(RATIO)
        return np.minimum(np.where(slack < self.unit, 0, steps + 1), BINS - 1).astype(np.int64)

    def spread(self) -> ResourceScore:
        """The result; all zero when nothing was scored."""
        seconds = self.seconds or 1.0
        return ResourceScore(
            container_days=self.seconds / DAY,
            requested=self.requested / seconds,
            used=self.used / seconds,
            slack=self.slack / seconds,
            slack_p95=self._p95(),
            over=Fraction(self.over / seconds),
            peak_over=Fraction(self.peak_over / self.peak_seconds) if self.peak_seconds else None,
        )

    def _p95(self) -> float:
        """The middle of the bin in which 95 % of the time is reached."""
        at = int(np.searchsorted(np.cumsum(self.bins), 0.95 * self.seconds))
        return 0.0 if at == 0 else float(self.unit * RATIO ** (at - 0.5))


@dataclass(slots=True)
class SideSums:
    """Both resources of one side."""

    cpu: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1e-4))
    memory: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1024.0))

    def side(self, ooms: int) -> RequestsScore:
        """The result; `ooms` are counted elsewhere."""
        days = max(self.cpu.seconds, self.memory.seconds) / DAY
        return RequestsScore(days, self.cpu.spread(), self.memory.spread(), ooms)
