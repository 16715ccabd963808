"""Origins from which real loads are forecast, and the methods that forecast them: ours, upstream's, and what needs no model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.logic.forecast import dsp, ensemble
from agents.logic.forecast.dsp import DspSettings
from agents.logic.forecast.ensemble import EnsembleForecast, EnsembleSettings
from agents.logic.forecast.forecast_values import NoForecast
from tests.bench.load_traces import Floats, LoadTrace

DAY = 86_400
WEEK = 7 * DAY
KNOWN = 15 * DAY + 3600
"""Seconds of history, as upstream asks for."""
HORIZONS = (2 * 3600, 12 * 3600)
_LEAST_SEEN = 0.9


@dataclass(frozen=True)
class Origin:
    """A moment of a series: what was known by then (gaps are NaN), and what came."""

    series: LoadTrace
    place: int
    horizon: int

    @property
    def known(self) -> Floats:
        return self.series.values[max(0, self.place - KNOWN // self.series.step) : self.place]

    @property
    def came(self) -> Floats:
        return self.series.values[self.place : self.place + self.horizon]

    @property
    def now(self) -> int:
        """Seconds since the epoch."""
        return self.series.start + self.place * self.series.step

    def samples(self) -> tuple[Any, Floats]:
        known = self.known
        times = self.now - self.series.step * np.arange(len(known), 0, -1)
        good = np.isfinite(known)
        return times[good], known[good]

    def is_fair(self) -> bool:
        """Whether enough was seen to learn from, and to be judged by."""
        day = DAY // self.series.step
        seen = np.isfinite(self.known)
        return bool(np.isfinite(self.came).mean() >= _LEAST_SEEN and seen[-day:].mean() >= _LEAST_SEEN and seen.mean() >= 0.25)


def origins(series: LoadTrace, horizon: int, count: int, seed: int | None = None) -> Iterator[Origin]:
    """At most `count` from the eighth day on, the same for all horizons: evenly spread, or drawn by seed and series."""
    steps, first = horizon // series.step, 7 * DAY // series.step
    last = len(series.values) - max(HORIZONS) // series.step
    if last <= first:
        return
    places = np.linspace(first, last - 1, count).astype(int)
    if seed is not None:
        places = np.random.default_rng([seed, *series.name.encode()]).integers(first, last, count)
    for place in np.unique(places).tolist():
        origin = Origin(series, place, steps)
        if origin.is_fair():
            yield origin


Method = Callable[[Origin], Floats | None]


def by_dsp(origin: Origin) -> Floats | None:
    """Upstream's forecast, which it has only for series in which it finds a day or a week."""
    found = dsp.fit(*origin.samples(), DspSettings(step=float(origin.series.step)))
    if isinstance(found, NoForecast):
        return None
    step = origin.series.step
    values = found.forecast.window(origin.now, origin.now + (origin.horizon - 1) * step)[1]
    return np.array(values) if len(values) == origin.horizon else None


def fitted(origin: Origin, *, coverage: float = 0.95) -> EnsembleForecast | None:
    """Our forecast with what it says of itself."""
    settings = EnsembleSettings(step=origin.series.step, horizon=origin.horizon * origin.series.step, coverage=coverage)
    found = ensemble.fit(*origin.samples(), settings)
    return None if isinstance(found, NoForecast) else found


def _ours(origin: Origin) -> Floats | None:
    found = fitted(origin)
    return None if found is None else np.array(found.forecast.profile)


def _seasonal(origin: Origin, period: int) -> Floats | None:
    """The value one period (seconds) before, as often as needed; the last one where nothing was seen."""
    samples, known = period // origin.series.step, origin.known
    if len(known) < samples:
        return None
    values = np.resize(known[-samples:], origin.horizon)
    return np.where(np.isfinite(values), values, last_value(origin))


def last_value(origin: Origin) -> Floats:
    """What was seen last, for the whole horizon."""
    known = origin.known
    return np.full(origin.horizon, known[np.isfinite(known)][-1])


METHODS: dict[str, Method] = {
    "ours": _ours,
    "DSP": by_dsp,
    "day before": lambda origin: _seasonal(origin, DAY),
    "week before": lambda origin: _seasonal(origin, 7 * DAY),
    "last value": last_value,
}
