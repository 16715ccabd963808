"""Profiles: what earlier days, weeks or other periods say of the hours to come, for many origins at once.

An origin is the place from which a forecast looks ahead; it knows only what lies before. All profiles of a period come from
one matrix of earlier values and one of weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.periods import DAY, WEEK
from agents.logic.forecast.series import Floats, Series

Places = NDArray[np.int64]

_MOST_DAYS = 14
_MOST_WEEKS = 4
_FADE = 0.7
"""What a period weighs of the one after it, in a profile that fades."""

_THURSDAY = 3
"""The weekday of the epoch, Monday being 0."""

_WORKDAYS = 5


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where forecasts look: from each of `origins`, `recent` bins back and `horizon` bins on."""

    origins: Places
    recent: int
    horizon: int

    @property
    def leads(self) -> Places:
        """Bins from the origin, the first known one being -1."""
        return np.arange(-self.recent, self.horizon)

    @property
    def places(self) -> Places:
        """Where each lead of each origin lies: origins x leads."""
        return self.origins[:, None] + self.leads


def shapes(series: Series, ahead: Ahead, other: int | None) -> dict[str, Floats]:
    """Profiles by name, each origins x leads; those that the history before the first origin can give.

    `other` is a period in bins, besides the day and the week, that the history shows. No value may be missing.
    """
    known = int(ahead.origins.min()) - ahead.recent
    found: dict[str, Floats] = {}
    for name, period, most in (
        ("day", DAY // series.step, _MOST_DAYS),
        ("week", WEEK // series.step, _MOST_WEEKS),
        ("period", other or 0, _MOST_DAYS),
    ):
        count = min(known // period, most) if period else 0
        if count:
            earlier, places = _earlier(series.values, ahead, period, count)
            found |= _means(name, earlier)
            if name == "day" and count > 1:
                found["day, by kind"] = _alike(series, ahead, earlier, places)
    return found


def _earlier(values: Floats, ahead: Ahead, period: int, count: int) -> tuple[Floats, Places]:
    """Values one, two ... `count` periods before, newest first, and their places: origins x leads x periods."""
    first = period * np.maximum(1, ahead.leads // period + 1)
    back = first[:, None] + period * np.arange(count)
    places = np.maximum(ahead.places[:, :, None] - back, 0)
    return values[places], places


def _means(name: str, earlier: Floats) -> dict[str, Floats]:
    """The newest period, the last three and seven, all, and all fading, as far as they differ."""
    count = earlier.shape[2]
    ages = np.arange(count)
    weights: dict[str, Floats] = {f"{name} before": (ages < 1).astype(np.float64)}
    for newest in (3, 7):
        if count > newest:
            weights[f"{name}, mean of {newest}"] = (ages < newest) / newest
    if count > 1:
        weights[f"{name}, mean of all"] = np.full(count, 1.0 / count)
        weights[f"{name}, fading"] = _FADE**ages / (_FADE**ages).sum()
    found = earlier @ np.array(list(weights.values())).T
    means = {kind: found[:, :, column] for column, kind in enumerate(weights)}
    if count > 2:  # noqa: PLR2004  # the median of two is their mean
        means[f"{name}, median"] = np.median(earlier[:, :, : min(count, 7)], axis=2)
    return means


def _alike(series: Series, ahead: Ahead, earlier: Floats, places: Places) -> Floats:
    """The mean of earlier days of the same kind (workday, Saturday, Sunday, in UTC); of all days where there is none."""
    same = _kinds(series, places) == _kinds(series, ahead.places)[:, :, None]
    count = same.sum(axis=2)
    mean = (earlier * same).sum(axis=2) / np.maximum(count, 1)
    return np.where(count > 0, mean, earlier.mean(axis=2))


def _kinds(series: Series, places: Places) -> Places:
    weekday = ((series.start + places * series.step) // DAY + _THURSDAY) % 7
    return np.maximum(weekday - _WORKDAYS + 1, 0)


def levelled(shape: Floats, values: Floats, ahead: Ahead, half_lives: Sequence[int]) -> dict[str, Floats]:
    """A profile over the horizon as it is, and moved to the level of the recent bins: origins x horizon.

    It is moved by the difference, which halves in so many bins (`half_lives`), or by the ratio, which stays.
    """
    recent = ahead.recent
    there = shape[:, recent:]
    known = values[ahead.places[:, :recent]]
    off = (known - shape[:, :recent]).mean(axis=1)[:, None]
    expected = shape[:, :recent].mean(axis=1)
    ratio = known.mean(axis=1) / np.where(expected > 0.0, expected, 1.0)
    leads = np.arange(1, ahead.horizon + 1)
    moved = {f"level for {half}": there + off * np.exp2(-leads / half) for half in half_lives}
    return {"": there, "scaled": there * np.clip(ratio, 1 / 3, 3.0)[:, None], **moved}
