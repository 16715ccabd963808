"""`python -m tests.bench.forecasts [TRACE ...]`: forecasts of real loads by rolling origins, and replicas scaled by them.

From origins spread over each series every method forecasts two hours, and twelve, from what was known by then, at most 15 days.
A method without a forecast stands for the last value, because that is what an autoscaler then goes by. The methods of
statsforecast take part where it is installed, on fewer origins (`--models`), because one of theirs takes seconds.
"""

import argparse
import importlib
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agents.logic.forecast import dsp, ensemble
from agents.logic.forecast.dsp import DspSettings
from agents.logic.forecast.ensemble import EnsembleSettings
from agents.logic.forecast.forecast_values import NoForecast
from tests.bench import load_traces, scaled_loads
from tests.bench.load_traces import Floats, LoadTrace

DAY = 86_400
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


def origins(series: LoadTrace, horizon: int, count: int) -> Iterator[Origin]:
    """So many at most, evenly spread from the eighth day on, each at another hour of the day."""
    steps, first = horizon // series.step, 7 * DAY // series.step
    last = len(series.values) - steps
    if last <= first:
        return
    for place in np.unique(np.linspace(first, last - 1, count).astype(int)).tolist():
        origin = Origin(series, place, steps)
        if origin.is_fair():
            yield origin


Method = Callable[[Origin], Floats | None]


def _dsp(origin: Origin) -> Floats | None:
    found = dsp.fit(*origin.samples(), DspSettings(step=float(origin.series.step)))
    if isinstance(found, NoForecast):
        return None
    step = origin.series.step
    values = found.forecast.window(origin.now, origin.now + (origin.horizon - 1) * step)[1]
    return np.array(values) if len(values) == origin.horizon else None


def _ours(origin: Origin) -> Floats | None:
    settings = EnsembleSettings(step=origin.series.step, horizon=origin.horizon * origin.series.step)
    found = ensemble.fit(*origin.samples(), settings)
    return None if isinstance(found, NoForecast) else np.array(found.forecast.profile)


def _seasonal(origin: Origin, period: int) -> Floats | None:
    """The value one period (seconds) before, as often as needed; the last one where nothing was seen."""
    samples, known = period // origin.series.step, origin.known
    if len(known) < samples:
        return None
    values = np.resize(known[-samples:], origin.horizon)
    return np.where(np.isfinite(values), values, _last(origin))


def _last(origin: Origin) -> Floats:
    known = origin.known
    return np.full(origin.horizon, known[np.isfinite(known)][-1])


METHODS: dict[str, Method] = {
    "ours": _ours,
    "DSP": _dsp,
    "day before": lambda origin: _seasonal(origin, DAY),
    "week before": lambda origin: _seasonal(origin, 7 * DAY),
    "last value": _last,
}


def of_statsforecast() -> dict[str, Method]:
    """Its models that bear a season of 288 values within seconds; none where it is not installed."""
    try:
        models: Any = importlib.import_module("statsforecast.models")
    except ImportError:
        return {}

    def method(make: Callable[[int], Any]) -> Method:
        def forecast(origin: Origin) -> Floats | None:
            day, known = DAY // origin.series.step, origin.known
            index = np.arange(len(known))
            good = np.isfinite(known)
            filled = np.interp(index, index[good], known[good])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return np.asarray(make(day).forecast(y=filled, h=origin.horizon)["mean"], np.float64)

        return forecast

    return {
        "MSTL": method(lambda day: models.MSTL(season_length=[day, 7 * day])),
        "SeasonalWindow": method(lambda day: models.SeasonalWindowAverage(season_length=day, window_size=7)),
    }


@dataclass
class Tally:
    """Of one method on one series: absolute errors, the load, and values that were too low."""

    error: float = 0.0
    load: float = 0.0
    under: int = 0
    values: int = 0
    without: int = 0

    def add(self, forecast: Floats, came: Floats) -> None:
        seen = np.isfinite(came)
        off = came[seen] - forecast[seen]
        self.error += float(np.abs(off).sum())
        self.load += float(np.abs(came[seen]).sum())
        self.under += int((off > 0.0).sum())
        self.values += int(seen.sum())

    @property
    def wape(self) -> float:
        return self.error / self.load


@dataclass
class Comparison:
    """The tallies by method and series, and how long each method took."""

    tallies: dict[str, dict[str, Tally]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Tally)))
    spent: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    def add(self, origin: Origin, methods: dict[str, Method]) -> None:
        self.asked += 1
        for name, method in methods.items():
            began = time.perf_counter()
            forecast = method(origin)
            self.spent[name] += time.perf_counter() - began
            tally = self.tallies[name][origin.series.name]
            tally.without += forecast is None or not np.isfinite(forecast).all()
            usable = forecast is not None and bool(np.isfinite(forecast).all())
            tally.add(forecast if forecast is not None and usable else _last(origin), origin.came)

    def rows(self) -> Iterator[str]:
        """Mean and median over series of the error over the load, share of time below the load, and without a forecast."""
        wapes = {name: np.array([one.wape for one in of.values() if one.load > 0]) for name, of in self.tallies.items()}
        best = min(values.mean() for values in wapes.values())
        for name, of in self.tallies.items():
            mean, median = wapes[name].mean(), float(np.median(wapes[name]))
            values, without = sum(one.values for one in of.values()), sum(one.without for one in of.values())
            under = sum(one.under for one in of.values()) / values
            cost = 1e3 * self.spent[name] / self.asked
            mark = " *" if mean <= 1.02 * best else ""
            yield (f"| {name} | {mean:.3f}{mark} | {median:.3f} | {under:.0%} | {without / self.asked:.0%} | {cost:.1f} ms |")


def compare(series: Sequence[LoadTrace], horizon: int, count: int, methods: dict[str, Method]) -> Comparison:
    """All methods from the same origins."""
    found = Comparison()
    for one in series:
        for origin in origins(one, horizon, count):
            found.add(origin, methods)
    return found


def periodic_calls(series: Sequence[LoadTrace], count: int) -> tuple[int, int, int, int]:
    """Origins, calls of DSP and of ours that there is a forecast, and those of each that were worse than the last value."""
    asked, said, wrong = 0, Counter[str](), Counter[str]()
    for one in series:
        for origin in origins(one, HORIZONS[1], count):
            asked += 1
            plain = Tally()
            plain.add(_last(origin), origin.came)
            for name, method in (("DSP", _dsp), ("ours", _ours)):
                forecast = method(origin)
                if forecast is not None:
                    tally = Tally()
                    tally.add(forecast, origin.came)
                    said[name] += 1
                    wrong[name] += tally.error > plain.error
    return said["DSP"], wrong["DSP"], said["ours"], wrong["ours"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="*", default=list(load_traces.GROUPS))
    parser.add_argument("--origins", type=int, default=12, help="of each series, at most")
    parser.add_argument("--models", type=int, default=0, help="origins of each series for statsforecast's models")
    parser.add_argument("--series", type=int, default=1000, help="series of each trace, at most")
    parser.add_argument("--days", type=int, default=3, help="days at the end of each series that replicas are scaled by; 0: none")
    options = parser.parse_args(arguments)
    os.environ.setdefault("NIXTLA_ID_AS_COL", "1")
    put = sys.stdout.write
    for group in options.traces:
        series = load_traces.read((group,))
        series = series[:: max(1, len(series) // options.series)]
        for horizon in HORIZONS:
            count = options.models or options.origins
            methods = METHODS | (of_statsforecast() if options.models else {})
            found = compare(series, horizon, count, methods)
            put(f"\n{group}, {horizon // 3600} h ahead, {found.asked} origins of {len(series)} series\n\n")
            put("| method | WAPE, mean | median | time below the load | without | cost |\n|---|---|---|---|---|---|\n")
            put("".join(f"{row}\n" for row in found.rows()))
            sys.stdout.flush()
        if options.days:
            put(f"\n{group}, scaled for {options.days} days\n\n")
            put("| way | minutes with too few replicas | replica-hours | of what was needed |\n|---|---|---|---|\n")
            for name, told in scaled_loads.compare(series, options.days):
                share, over = told.under / max(1, told.minutes), told.replica_hours / max(1e-9, told.needed_hours)
                put(f"| {name} | {told.under:,} ({share:.2%}) | {told.replica_hours:,.0f} | {over:.0%} |\n")
                sys.stdout.flush()
        if not options.models:
            dsp_said, dsp_wrong, ours_said, ours_wrong = periodic_calls(series, options.origins)
            put(f"\nworse than the last value: DSP {dsp_wrong} of {dsp_said} forecasts, ours {ours_wrong} of {ours_said}\n")


if __name__ == "__main__":
    main()
