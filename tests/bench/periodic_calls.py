"""Whether a series that a method calls periodic is: its periodic forecast against the better of two that know no period.

A call is an origin at which a method forecasts by a period (a seasonal model of ours, a day or a week found by DSP). It is false
if that forecast's absolute error over the hours to come is not below that of the last value or of the mean of the last day,
whichever came closer. A series is called falsely if the errors of all calls on it together are not below those of one of the two.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tests.bench import forecast_origins
from tests.bench.forecast_origins import DAY, Floats, Origin


@dataclass
class PeriodicCalls:
    """Origins, calls and false calls of one method; series, those with a call, and those called falsely."""

    origins: int = 0
    calls: int = 0
    wrong: int = 0
    series: int = 0
    called: int = 0
    falsely: int = 0


def _ours(origin: Origin) -> Floats | None:
    found = forecast_origins.fitted(origin)
    return None if found is None or found.period is None else np.array(found.forecast.profile)


METHODS: dict[str, Callable[[Origin], Floats | None]] = {"ours": _ours, "DSP": forecast_origins.by_dsp}


def count(series: Iterable[list[Origin]]) -> dict[str, PeriodicCalls]:
    """By method, over the origins of each series."""
    found = {name: PeriodicCalls() for name in METHODS}
    for origins in series:
        for name, method in METHODS.items():
            _add(found[name], origins, method)
    return found


def _add(calls: PeriodicCalls, origins: list[Origin], method: Callable[[Origin], Floats | None]) -> None:
    errors = []
    for origin in origins:
        forecast = method(origin)
        if forecast is not None:
            errors.append((_error(forecast, origin), *[_error(other, origin) for other in _alternatives(origin)]))
    calls.origins += len(origins)
    calls.series += bool(origins)
    calls.calls += len(errors)
    calls.wrong += sum(periodic >= min(others) for periodic, *others in errors)
    if errors:
        calls.called += 1
        periodic, *others = np.array(errors).sum(axis=0)
        calls.falsely += bool(periodic >= min(others))


def _alternatives(origin: Origin) -> tuple[Floats, Floats]:
    """The last value, and the mean of the last day."""
    day = origin.known[-(DAY // origin.series.step) :]
    return forecast_origins.last_value(origin), np.full(origin.horizon, np.nanmean(day))


def _error(forecast: Floats, origin: Origin) -> float:
    return float(np.nansum(np.abs(forecast - origin.came)))
