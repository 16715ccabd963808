"""Turns a metric's samples into an even series: one value a step, without gaps or outliers, or the reason why that fails.

Samples that are not numbers are dropped first and then filled like any gap. Upstream keeps them, and a single one makes its
whole series unpredictable.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.forecast_values import NoForecast, NoForecastReason

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

LONGEST_GAP = 3600
"""Seconds between neighbouring samples. Samples before a longer gap are not used."""

_DAY = 86_400
_ABSURD = 1e150
"""The square of a much larger value is not finite."""

_MOST_BINS = 1_000_000
"""With more bins, one series could take a process's whole memory. A year of minutes has half as many."""


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """Values at `start`, `start + step`, ... (seconds since the epoch)."""

    start: int
    step: int
    values: Floats

    def newest(self, count: int) -> "LoadSeries":
        """The last `count` values."""
        skipped = len(self.values) - count
        return LoadSeries(self.start + skipped * self.step, self.step, self.values[skipped:])


def prepare(times: Times, values: Floats, *, step: int, unit: int = LONGEST_GAP) -> LoadSeries | NoForecast:
    """The newest whole `unit`s (seconds) of the samples, possibly none, with gaps filled by straight lines. Times must ascend.

    Source: `pkg/prediction/dsp/preprocessing.go` of Crane.
    """
    finite = np.isfinite(values)
    if not finite.all():
        times, values = times[finite], values[finite]
    if not len(values):
        return NoForecast(NoForecastReason.NO_SAMPLES, "there is no sample")
    steps = np.diff(times)
    # The usual case, in which nothing has to be filled.
    if (steps == step).all():
        return LoadSeries(int(times[0]), step, values.astype(np.float64)).newest(_whole(len(values), unit // step))
    gaps = steps > LONGEST_GAP
    wrong = ~gaps & ((steps <= 0) | (steps % step != 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        text = f"{int(steps[place])} s lie between the sample of {int(times[place])} and the next: no multiple of {step} s"
        return NoForecast(NoForecastReason.BAD_STEP, text)
    begin = len(gaps) - int(np.argmax(gaps[::-1])) if gaps.any() else 0
    even = _fill(times[begin:], values[begin:], step)
    return LoadSeries(int(times[begin]), step, even).newest(_whole(len(even), unit // step))


def _fill(times: Times, values: Floats, step: int) -> Floats:
    """One value a step. Between v_m and v_n each missing value is (v_n - v_m) / (n - m) more than the one before."""
    places = (times - times[0]) // step
    count = int(places[-1]) + 1
    if count == len(values):
        return values.astype(np.float64)
    left = np.repeat(np.arange(len(values) - 1), np.diff(places))
    slopes = np.diff(values) / np.diff(places)
    even = np.empty(count)
    even[:-1] = values[left] + slopes[left] * (np.arange(count - 1) - places[left])
    even[-1] = values[-1]
    return even


def _whole(length: int, unit: int) -> int:
    return length - length % unit if unit > 0 else length


def without_outliers(values: Floats) -> Floats:
    """Replace each value above the 99.9th or below the 0.1th percentile by the one before it; the first always stays.

    Fewer than 1,000 values have no 0.1th percentile and stay as they are.
    Source: `pkg/prediction/dsp/preprocessing.go` of Crane.
    """
    low, high = _percentile_places(0.1, len(values)), _percentile_places(99.9, len(values))
    if low is None or high is None:
        return values
    ordered = np.partition(values, (low[1], high[0]))
    lowest, highest = ordered[: low[1]].max(initial=-np.inf), ordered[high[1] :].min()
    least = (lowest + ordered[low[1]]) / 2 if low[0] < low[1] else ordered[low[1]]
    outside = (values > (ordered[high[0]] + highest) / 2) | (values < least)
    places = np.maximum.accumulate(np.where(outside, 0, np.arange(len(values))))  # the first stays: nothing lies before it
    return values[places]


def _percentile_places(percent: float, count: int) -> tuple[int, int] | None:
    """The places of the two sorted values between which a percentile lies, as upstream's statistics library has it."""
    rank = percent / 100 * count
    if rank == int(rank) and rank >= 1:
        return int(rank) - 1, int(rank) - 1
    if rank > 1:
        return int(rank) - 1, int(rank)
    return None


def binned(times: Times, values: Floats, *, step: int) -> tuple[LoadSeries, NDArray[np.bool_]] | NoForecast:
    """Means of bins `step` seconds wide, and which bins saw a sample. Samples may come unordered, repeat, and have any gaps.

    An empty bin takes the straight line between its neighbours if they are no more than an hour apart, else the value a day
    before or after it, else the last value before it.
    """
    finite = np.isfinite(values) & (np.abs(values) < _ABSURD)
    times, values = times[finite], values[finite]
    if not len(values):
        return NoForecast(NoForecastReason.NO_SAMPLES, "there is no sample")
    start = int(times.min()) // step * step
    places = (times - start) // step
    length = int(places.max()) + 1
    if length > _MOST_BINS:
        return NoForecast(NoForecastReason.BAD_STEP, f"the samples span {length} bins of {step} s, more than {_MOST_BINS}")
    counts = np.bincount(places, minlength=length)
    means = np.bincount(places, values, length) / np.maximum(counts, 1)
    seen = counts > 0
    return LoadSeries(start, step, _filled(means, seen, step)), seen


def _filled(means: Floats, seen: NDArray[np.bool_], step: int) -> Floats:
    if seen.all():
        return means
    sampled = np.flatnonzero(seen)
    index = np.arange(len(means))
    filled = np.interp(index, sampled, means[sampled])
    before = sampled[np.searchsorted(sampled, index, side="right") - 1]
    after = sampled[np.minimum(np.searchsorted(sampled, index), len(sampled) - 1)]
    day = _DAY // step
    for place in np.flatnonzero((after - before) * step > LONGEST_GAP).tolist():
        # The day before has been filled by now, if it had to be; the day after counts only if it was seen.
        near = [other for other in (place - day, place + day) if 0 <= other < len(means) and (other < place or seen[other])]
        filled[place] = filled[near[0]] if near else means[before[place]]
    return filled
