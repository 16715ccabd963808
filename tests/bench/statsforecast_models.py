"""Models of statsforecast as methods of the comparison of forecasts, each with a time limit; none where it is not installed.

Most of its seasonal models take seconds or minutes over a season of 288 values, so they get means of wider bins, and a straight
line between the middles of two bins gives the values at the trace's own step. One fit serves all horizons of an origin.
"""

import importlib
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from tests.bench.forecast_origins import DAY, HORIZONS, WEEK, Floats, Method, Origin


class _TookTooLongError(Exception):
    """A fit ran into its limit."""


def methods(bins: int, seconds: int) -> dict[str, Method]:
    """Models that get bins so wide (seconds), and at most so many seconds for a fit; a week is a season where two are known."""
    try:
        models: Any = importlib.import_module("statsforecast.models")
    except ImportError:
        return {}
    makers: dict[str, Callable[[int, int, int], Any]] = {
        "SeasonalNaive, day": lambda day, _week, _known: models.SeasonalNaive(season_length=day),
        "SeasonalNaive, week": lambda _day, week, _known: models.SeasonalNaive(season_length=week),
        "SeasonalWindowAverage, 7 days": lambda day, _week, _known: models.SeasonalWindowAverage(day, window_size=7),
        "SimpleExponentialSmoothingOptimized": lambda *_: models.SimpleExponentialSmoothingOptimized(),
        "HoltWinters": lambda day, _week, _known: models.HoltWinters(season_length=day),
        "AutoETS": lambda day, _week, _known: models.AutoETS(season_length=day),
        "DynamicOptimizedTheta": lambda day, _week, _known: models.DynamicOptimizedTheta(season_length=day),
        "AutoCES": lambda day, _week, _known: models.AutoCES(season_length=day),
        "MSTL": lambda day, week, known: models.MSTL(season_length=[day, week] if known >= 2 * week else [day]),
    }
    return {name: _Model(make, bins, seconds) for name, make in makers.items()}


class _Model:
    """A model over bins of some width; forecasts are kept until the next origin."""

    def __init__(self, make: Callable[[int, int, int], Any], bins: int, seconds: int) -> None:
        self._make, self._bins, self._seconds = make, bins, seconds
        self._kept: dict[tuple[str, int], Floats | None] = {}

    def __call__(self, origin: Origin) -> Floats | None:
        key = (origin.series.name, origin.place)
        if key not in self._kept:
            self._kept[key] = self._forecast(origin)
        found = self._kept[key]
        return None if found is None else found[: origin.horizon]

    def _forecast(self, origin: Origin) -> Floats | None:
        """The values of the longest horizon, or None where the model fails, is too slow, or needs more history."""
        step = origin.series.step
        merged = max(1, self._bins // step)
        bins, steps = step * merged, max(HORIZONS) // step
        known = _means(_without_gaps(origin.known), merged)
        model = self._make(DAY // bins, WEEK // bins, len(known))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"), _limited(self._seconds):
                warnings.simplefilter("ignore")
                found = np.asarray(model.forecast(y=known, h=-(-steps // merged))["mean"], np.float64)
        except Exception:  # noqa: BLE001  # whatever a foreign model throws is a forecast that is not there
            return None
        middles = (np.arange(-1, len(found)) + 0.5) * merged - 0.5
        return np.interp(np.arange(steps), middles, np.concatenate([known[-1:], found]))


def _without_gaps(values: Floats) -> Floats:
    index, good = np.arange(len(values)), np.isfinite(values)
    return np.interp(index, index[good], values[good])


def _means(values: Floats, merged: int) -> Floats:
    """Of the newest whole bins."""
    return np.asarray(values[len(values) % merged :].reshape(-1, merged).mean(axis=1))


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Whatever takes more seconds of CPU is broken off."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TookTooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
