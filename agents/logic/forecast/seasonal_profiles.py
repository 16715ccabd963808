"""Profiles: what earlier days, weeks or other periods suggest for the hours to come, for many origins at once.

An origin is the place from which a forecast looks ahead; it sees only what lies before it. All profiles of a period come from
one matrix of earlier values and one of weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.load_series import Floats, LoadSeries
from agents.logic.forecast.period_detection import DAY, WEEK

Places = NDArray[np.int64]

_MOST_DAYS = 14
_MOST_WEEKS = 4
_FADE = 0.7
"""In a fading profile, the weight of a period as a share of the weight of the period after it."""

_LEAST_RATIO, _MOST_RATIO = 0.1, 2.0
"""The smallest and the largest ratio of the recent level to the profile's."""

LAST_VALUE = "last value"

_MEDIAN_OF = 5
_SPREAD_OF = 7

_THURSDAY = 3
"""The weekday of the epoch, Monday being 0."""

_WORKDAYS = 5


@dataclass(frozen=True, slots=True)
class ForecastWindow:
    """Where forecasts look: from each of `origins`, `recent` bins back and `horizon` bins ahead."""

    origins: Places
    recent: int
    horizon: int

    @property
    def leads(self) -> Places:
        """Bins relative to the origin; the newest known bin is -1."""
        return np.arange(-self.recent, self.horizon)

    @property
    def places(self) -> Places:
        """Where each lead of each origin lies: origins x leads."""
        return self.origins[:, None] + self.leads


@dataclass(frozen=True, slots=True)
class ProfileStack:
    """Forecasts or profiles of many kinds: the period of each in bins, and the values (kinds x origins x leads).

    A kind that repeats no period has the period 0.
    """

    names: tuple[str, ...]
    periods: tuple[int, ...]
    values: Floats


def shapes(series: LoadSeries, ahead: ForecastWindow, other: int | None) -> ProfileStack:
    """The profiles for which the middle origin has enough history; earlier origins make do with what they have.

    `other` is a further period in bins, besides the day and the week, that the history shows. No value may be missing, and each
    origin needs a day of history before it.
    """
    history = _known(ahead)
    names: list[str] = []
    periods: list[int] = []
    profiles: list[Floats] = []
    for name, period, most in (
        ("day", DAY // series.step, _MOST_DAYS),
        ("week", WEEK // series.step, _MOST_WEEKS),
        ("period", other or 0, _MOST_DAYS),
    ):
        count = min(history // period, most) if period else 0
        if not count:
            continue
        places = _places(ahead, period, count, DAY // series.step)
        earlier = series.values[places]
        kinds, weights = _weights(name, count)
        names += kinds
        profiles.append(np.moveaxis(earlier @ weights, 2, 0))
        if count > 2:  # noqa: PLR2004  # the median of two is their mean
            names.append(f"{name}, median")
            profiles.append(np.median(earlier[:, :, :_MEDIAN_OF], axis=2)[None])
        if name == "day" and count > 1:
            names.append("day, by kind")
            profiles.append(_alike(series, ahead, earlier, places)[None])
        periods += [period] * (len(names) - len(periods))
    return ProfileStack(tuple(names), tuple(periods), np.concatenate(profiles))


def _known(ahead: ForecastWindow) -> int:
    """Bins of history before the recent ones of the middle origin."""
    return int(np.sort(ahead.origins)[(len(ahead.origins) - 1) // 2]) - ahead.recent


def _places(ahead: ForecastWindow, period: int, count: int, day: int) -> Places:
    """The places of the values one, two ... `count` periods earlier, newest first: origins x leads x periods."""
    history = ahead.origins - ahead.recent
    # An origin with fewer periods of history repeats those that it has, from the newest on.
    ages = np.arange(count) % np.maximum(history // period, 1)[:, None]
    places = (ahead.places - _back(ahead.leads, period))[:, :, None] - period * ages[:, None, :]
    short = history < period
    # One with none at all takes the day before, of which every origin has one.
    places[short] = (ahead.places[short] - _back(ahead.leads, day))[:, :, None]
    return np.asarray(places)


def _back(leads: Places, period: int) -> Places:
    """The whole periods, at least one, to go back from each lead so that it lies before its origin."""
    return period * np.maximum(1, leads // period + 1)


def _weights(name: str, count: int) -> tuple[list[str], Floats]:
    """Weights (periods x kinds): the newest period, the mean of three, of seven and of all, and all fading, where they differ."""
    ages = np.arange(count)
    kinds, columns = [f"{name} before"], [(ages < 1).astype(np.float64)]
    for newest in (3, 7):
        if count > newest:
            kinds.append(f"{name}, mean of {newest}")
            columns.append((ages < newest) / newest)
    if count > 1:
        fading = np.power(_FADE, ages)
        kinds += [f"{name}, mean of all", f"{name}, fading"]
        columns += [np.full(count, 1.0 / count), fading / fading.sum()]
    return kinds, np.stack(columns, axis=1)


def _alike(series: LoadSeries, ahead: ForecastWindow, earlier: Floats, places: Places) -> Floats:
    """The mean of earlier days of the same kind (workday, Saturday, Sunday, in UTC); of all days where there is none."""
    bins = np.arange(len(series.values) + ahead.horizon)
    # In UTC, because a series does not say where its users live.
    weekday = ((series.start + bins * series.step) // DAY + _THURSDAY) % 7
    kind = np.maximum(weekday - _WORKDAYS + 1, 0).astype(np.int8)
    same = kind[places] == kind[ahead.places][:, :, None]
    count = same.sum(axis=2)
    mean = np.einsum("olp,olp->ol", earlier, same) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, earlier.mean(axis=2)))


def spread(series: LoadSeries, ahead: ForecastWindow) -> Floats | None:
    """How much the last days differ at each lead of the horizon (standard deviation): origins x horizon; None for one day."""
    period = DAY // series.step
    count = min(_known(ahead) // period, _SPREAD_OF)
    if count < 2:  # noqa: PLR2004  # one day does not lie apart
        return None
    return np.asarray(series.values[_places(ahead, period, count, period)[:, ahead.recent :]].std(axis=2))


def levelled(shape: ProfileStack, values: Floats, ahead: ForecastWindow, half_lives: Sequence[int]) -> ProfileStack:
    """Each profile over the horizon as it is, and moved to the level of the recent bins.

    It moves either by the difference, which halves in so many bins (`half_lives`), or by the ratio, whose logarithm halves in the
    longest of them.
    """
    recent = ahead.recent
    there, expected = shape.values[:, :, recent:], shape.values[:, :, :recent].mean(axis=2)
    recent_level = values[ahead.places[:, :recent]].mean(axis=1)
    ratio = np.clip(recent_level / np.where(expected > 0.0, expected, 1.0), _LEAST_RATIO, _MOST_RATIO)
    off = (recent_level - expected)[:, :, None]
    fading = [np.exp2(-np.arange(1, ahead.horizon + 1) / half) for half in half_lives]
    # If the ratio stayed, one quiet half-hour would decide how high the evening's peak is.
    scaled = there * np.power(ratio[:, :, None], fading[-1])
    moved = [there, scaled, *[there + off * fade for fade in fading]]
    levels = ["", " scaled", *[f" levelled for {half} bins" for half in half_lives]]
    names = tuple(name + level for level in levels for name in shape.names)
    return ProfileStack(names, shape.periods * len(levels), np.concatenate(moved))


def plain(series: LoadSeries, ahead: ForecastWindow, half_lives: Sequence[int]) -> ProfileStack:
    """Forecasts without a period: levels of the last hours, and the recent level returning to the mean of the day.

    The last of them is the last value. Each origin needs a day of history before it.
    """
    origins, count = ahead.origins, DAY // series.step
    day = series.values[origins[:, None] - np.arange(1, count + 1)]
    recent, mean = day[:, : ahead.recent].mean(axis=1), day.mean(axis=1)
    leads = np.arange(1, ahead.horizon + 1)
    flat = {
        "mean of 6 hours": day[:, : max(1, count // 4)].mean(axis=1),
        "mean of the day": mean,
        "median of the day": np.median(day, axis=1),
        "recent mean": recent,
        LAST_VALUE: day[:, 0],
    }
    back = {
        f"back to the mean in {half} bins": mean[:, None] + (recent - mean)[:, None] * np.exp2(-leads / half)
        for half in half_lives
    }
    wide = {name: np.broadcast_to(level[:, None], (len(origins), ahead.horizon)) for name, level in flat.items()}
    forecasts = back | wide
    return ProfileStack(tuple(forecasts), (0,) * len(forecasts), np.stack(list(forecasts.values())))
