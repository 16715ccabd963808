"""`python -m tests.bench.forecasts [TRACE ...]`: forecasts of real loads by rolling origins, and replicas scaled by them.

From origins in each series, spread evenly or at random, every method forecasts two hours, and twelve, from what was known by
then, at most 15 days. A method without a forecast stands for the last value, because that is what an autoscaler then goes by.
With `--models` those of statsforecast take part where it is installed, over wider bins (`--bins`) and with a time limit.
"""

import argparse
import itertools
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.bench import load_traces, periodic_calls, scaled_loads, statsforecast_models
from tests.bench.forecast_origins import HORIZONS, METHODS, Method, Origin, fitted, last_value, origins
from tests.bench.load_traces import Floats, LoadTrace

_COVERAGE = 0.9
"""The product's default, `replicas.coverage`."""


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
            tally.add(forecast if forecast is not None and usable else last_value(origin), origin.came)

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


def compare(places: Sequence[list[Origin]], methods: dict[str, Method]) -> Comparison:
    """All methods from the same origins of some series."""
    found = Comparison()
    for origin in itertools.chain.from_iterable(places):
        found.add(origin, methods)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = (*load_traces.GROUPS, *load_traces.UNTUNED)
    parser.add_argument("traces", nargs="*", default=list(load_traces.GROUPS), metavar="TRACE", help=", ".join(known))
    parser.add_argument("--origins", type=int, default=12, help="of each series, at most")
    parser.add_argument("--random", type=int, metavar="SEED", help="draw the origins by chance instead of spreading them evenly")
    parser.add_argument("--series", type=int, default=1000, help="series of each trace, at most")
    parser.add_argument("--models", action="store_true", help="statsforecast's models take part")
    parser.add_argument("--bins", type=int, default=1800, help="seconds of a bin for statsforecast's models")
    parser.add_argument("--limit", type=int, default=30, help="seconds of CPU for one fit of theirs, at most")
    parser.add_argument("--days", type=int, default=3, help="days at the end of each series that replicas are scaled by; 0: none")
    options = parser.parse_args(arguments)
    if unknown := [group for group in options.traces if group not in known]:
        parser.error(f"no trace {', '.join(unknown)}; there are {', '.join(known)}")
    for group in options.traces:
        _trace(group, options)


def _trace(group: str, options: argparse.Namespace) -> None:
    series = load_traces.read((group,))
    series = series[:: max(1, -(-len(series) // options.series))]
    methods = METHODS | (statsforecast_models.methods(options.bins, options.limit) if options.models else {})
    for horizon in HORIZONS:
        places = [list(origins(one, horizon, options.origins, options.random)) for one in series]
        title = f"{group}, {horizon // 3600} h ahead"
        _print_errors(title, compare(places, methods), sum(map(bool, places)))
        _print_coverage(title, places)
    _print_calls(group, places)
    if options.days:
        _print_scaled(group, series, options.days)


def _print_errors(title: str, found: Comparison, series: int) -> None:
    _put(f"\n{title}, {found.asked} origins of {series} series\n\n")
    _put("| method | WAPE, mean | median | time below the load | without | cost |\n|---|---|---|---|---|---|\n")
    _put("".join(f"{row}\n" for row in found.rows()))


def _print_coverage(title: str, places: Sequence[list[Origin]]) -> None:
    """For what share of the time the load stayed below the upper forecast, and how far it lay above the load."""
    covered, above, load = [], 0.0, 0.0
    for of_series in places:
        shares = []
        for origin in of_series:
            found, seen = fitted(origin, coverage=_COVERAGE), np.isfinite(origin.came)
            if found is not None:
                over = np.array(found.upper.profile)[seen] - origin.came[seen]
                shares.append(float((over >= 0.0).mean()))
                above += float(np.maximum(over, 0.0).sum())
                load += float(np.abs(origin.came[seen]).sum())
        if shares:
            covered.append(np.mean(shares))
    _put(f"\n{title}, upper forecast for a coverage of {_COVERAGE}: {np.mean(covered):.3f} in the mean over series, ")
    _put(f"{np.quantile(covered, 0.1):.3f} in the worst tenth, {above / max(1e-9, load):.1%} above the load\n")


def _print_calls(group: str, places: Sequence[list[Origin]]) -> None:
    _put(f"\n{group}, series called periodic, {HORIZONS[-1] // 3600} h ahead\n\n")
    _put("| method | origins | called periodic | falsely | series | called periodic | falsely |\n|---|---|---|---|---|---|---|\n")
    for name, told in periodic_calls.count(places).items():
        share = told.wrong / max(1, told.calls)
        _put(f"| {name} | {told.origins} | {told.calls} | {told.wrong} ({share:.0%}) | {told.series} | {told.called} | ")
        _put(f"{told.falsely} |\n")


def _print_scaled(group: str, series: Sequence[LoadTrace], days: int) -> None:
    _put(f"\n{group}, scaled for {days} days\n\n")
    _put("| way | minutes with too few replicas | replica-hours | of what was needed |\n|---|---|---|---|\n")
    for name, told in scaled_loads.compare(series, days):
        share, over = told.under / max(1, told.minutes), told.replica_hours / max(1e-9, told.needed_hours)
        _put(f"| {name} | {told.under:,} ({share:.2%}) | {told.replica_hours:,.0f} | {over:.0%} |\n")


def _put(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
