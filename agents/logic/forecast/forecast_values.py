"""The two answers of a predictor: a forecast that can be read at any time of its horizon, or the reason why there is none.

Both are plain values, so a checkpoint can hold them. A forecast is one period that repeats, so reading an hour of it copies a
slice and computes nothing.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

_ZERO = 62_135_596_800
"""Seconds from Go's zero time, 0001-01-01, to the epoch."""


def floored(at: float, step: float) -> int:
    """The last multiple of `step` (seconds) counted from Go's zero time, as its `Time.Truncate` has it."""
    return int((at + _ZERO) // step * step) - _ZERO


class NoForecastReason(StrEnum):
    """Why there is no forecast."""

    NO_SAMPLES = "no samples"
    BAD_STEP = "bad step"
    SHORT_HISTORY = "history too short"
    CONSTANT = "constant"
    NO_PERIOD = "no period"
    OTHER_PERIOD = "neither a day nor a week"
    NOT_FINITE = "not finite"
    NOT_BETTER = "no better than the last value"
    ENDED = "ended"
    BAD_SETTINGS = "bad settings"


@dataclass(frozen=True, slots=True)
class NoForecast:
    """Why there is no forecast; `text` is a sentence for people and holds the numbers."""

    cause: NoForecastReason
    text: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Values at `start`, `start + step`, ... (seconds since the epoch): the `profile`, repeated `repeats` times."""

    start: int
    step: int
    profile: tuple[float, ...]
    repeats: int

    @property
    def last(self) -> int:
        """The time of the last value."""
        return self.start + (len(self.profile) * self.repeats - 1) * self.step

    def window(self, first: float, last: float) -> tuple[int, tuple[float, ...]]:
        """The time of the first value in `first` <= time <= `last`, and all values in that window."""
        # Only one period is kept, where Crane keeps the whole horizon (pkg/prediction/dsp/prediction.go).
        profile, length = self.profile, len(self.profile)
        begin = max(0, math.ceil((first - self.start) / self.step))
        count = min(length * self.repeats, math.floor((last - self.start) / self.step) + 1) - begin
        at, offset = self.start + begin * self.step, begin % length
        if offset + count <= length:
            return at, profile[offset : offset + max(count, 0)]
        turns, rest = divmod(offset + count - length, length)
        return at, profile[offset:] + profile * turns + profile[:rest]

    def highest(self, first: float, last: float) -> float | None:
        """The largest value of a window; None beyond the horizon."""
        return max(self.window(first, last)[1], default=None)
