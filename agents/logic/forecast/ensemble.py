"""Our own forecast: the profiles with the smallest past errors, whatever their period, with a stated accuracy and a margin.

From origins spread over the last week, each candidate forecasts values that we have seen since. The best few are averaged if
their mean beats the best one. Their errors show how accurate the forecast will be, and how much to add so that the load stays
below it for the wanted share of the time. A series on which nothing beats the last value gets no forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast import period_detection, seasonal_profiles
from agents.logic.forecast.forecast_values import Forecast, NoForecast, NoForecastReason
from agents.logic.forecast.load_series import Floats, LoadSeries, Times, binned
from agents.logic.forecast.period_detection import DAY, WEEK
from agents.logic.forecast.seasonal_profiles import ForecastWindow, ProfileStack

Flags = NDArray[np.bool_]

_SPIKE = 5.0
"""A value is a spike if it lies this many mean absolute deviations of the day before it from that day's median."""
_MATERIAL = 0.1
"""Where origins are counted, a difference counts if it is at least this share of the greatest one."""
_FEWEST = 4
"""Fewer past forecasts say nothing about the next one."""
_ENOUGH = 8
"""With fewer past forecasts that know two days of history, try those that know one day, too."""
_FEW_TRIALS = 4.0
"""The wanted coverage comes closer to one by this part of what lacks, over the number of trials: a trial's values go together."""
_QUIET, _QUIET_FOR, _LONGEST = 0.05, 3600, 1.5
"""A load has ended if it is below this share of its mean for so many seconds, and so many times longer than it ever was."""
_SEEN = 0.5
"""A past forecast does not count as a trial if fewer than this share of its bins saw a sample."""


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """Bins and horizon in seconds; the share of the time that the load is to stay below the upper forecast.

    `origins`: how many past forecasts to try, `spacing` seconds apart (does not divide a day, so that each hour has its turn).
    `gain`: the share by which a forecast's error must be smaller than the last value's.
    `seasonal_gain`: the share by which a period must reduce the error for the series to count as periodic.
    """

    step: int = 300
    horizon: int = 2 * 3600
    coverage: float = 0.95
    origins: int = 24
    spacing: int = 7 * 3600
    recent: int = 1800
    gain: float = 0.05
    seasonal_gain: float = 0.07
    members: int = 5


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Absolute error over the load in past forecasts, of the forecast and of the last value, and the number of forecasts."""

    error: float
    last_value: float
    forecasts: int


@dataclass(frozen=True, slots=True)
class EnsembleForecast:
    """The forecast, the same with its margin, what it is made of, how accurate it was, and the mean margin.

    `period`: the period in seconds that its best profile repeats; None if the forecast uses no period.
    """

    forecast: Forecast
    upper: Forecast
    members: tuple[str, ...]
    accuracy: ForecastAccuracy
    margin: float
    period: int | None


@dataclass(frozen=True, slots=True)
class _Trials:
    """Each candidate's forecasts from each origin, the actual values, and which of them were seen: origins x horizon."""

    ahead: ForecastWindow
    candidates: ProfileStack
    actual: Floats
    seen: Flags
    weights: Floats

    def errors(self, forecasts: Floats) -> Floats:
        """The absolute error of each of the forecasts at each origin, by its weight; candidates are compared by their sums."""
        return np.asarray(np.einsum("col,ol,o->co", np.abs(forecasts - self.actual), self.seen, self.weights))

    def share_off(self, forecast: Floats) -> float:
        """One forecast's absolute error over the load, or over the number of values if there was no load."""
        off, load = (float(np.abs(part[self.seen]).sum()) for part in (forecast - self.actual, self.actual))
        return off / (load or float(self.seen.sum()))

    def is_mostly_closer(self, closer: Floats, further: Floats) -> bool:
        """Whether one forecast was closer than another at more origins than it was further off, where the difference matters."""
        # A forecast that wins by one great hour and is off at hundreds of others repeats no period.
        off, others = (np.einsum("ol,ol->o", np.abs(forecast - self.actual), self.seen) for forecast in (closer, further))
        gain = others - off
        # Otherwise the quiet hours, all of them nearly right, would speak against a job that runs each night.
        gain[np.abs(gain) < _MATERIAL * np.abs(gain).max(initial=0.0)] = 0.0
        return bool((gain > 0.0).sum() > (gain < 0.0).sum())


def fit(times: Times, values: Floats, settings: EnsembleSettings) -> EnsembleForecast | NoForecast:
    """A forecast from samples at any times (seconds since the epoch), or why there is none."""
    if settings.step < 1 or DAY % settings.step or settings.horizon < settings.step:
        text = f"steps of {settings.step} s to a horizon of {settings.horizon} s; a day must hold whole steps, the horizon one"
        return NoForecast(NoForecastReason.BAD_SETTINGS, text)
    bins = binned(times, values, step=settings.step)
    if isinstance(bins, NoForecast):
        return bins
    series, seen = bins
    origins = _origins(len(series.values), settings)
    if len(origins) < _FEWEST:
        days = len(series.values) * settings.step / DAY
        return NoForecast(NoForecastReason.SHORT_HISTORY, f"{days:.1f} days of history are too few to try a forecast on them")
    if (hopeless := _hopeless(series)) is not None:
        return hopeless
    other = _other_period(series, int(origins.min()))
    trials = _tried(series, seen, origins, other, settings)
    if trials is None:
        return NoForecast(NoForecastReason.SHORT_HISTORY, "the last days have too few samples to try a forecast on them")
    return _chosen(series, trials, other, settings)


def _hopeless(series: LoadSeries) -> NoForecast | None:
    """Why the values say nothing of those to come: all are alike, or the load has ended."""
    values = series.values
    if period_detection.constant(values):
        return NoForecast(NoForecastReason.CONSTANT, f"all {len(values)} values are {values[0]:g}")
    busy = np.flatnonzero(np.abs(values) > _QUIET * float(np.abs(values).mean()))
    quiet, longest = len(values) - 1 - int(busy[-1]), int((np.diff(busy, prepend=-1) - 1).max())
    if quiet * series.step < _QUIET_FOR or quiet <= _LONGEST * longest:
        return None
    hours, before = (bins * series.step / 3600 for bins in (quiet, longest))
    text = f"the load has been next to nothing for {hours:.1f} h, and never for more than {before:.1f} h before"
    return NoForecast(NoForecastReason.ENDED, text)


def _ahead(origins: NDArray[np.int64], settings: EnsembleSettings) -> ForecastWindow:
    return ForecastWindow(origins, max(1, settings.recent // settings.step), settings.horizon // settings.step)


def _origins(length: int, settings: EnsembleSettings) -> NDArray[np.int64]:
    """Where past forecasts begin, newest first: each has a horizon of known values after it, and two days or one before it."""
    newest, recent = length - settings.horizon // settings.step, max(1, settings.recent // settings.step)
    places = newest - np.arange(settings.origins) * max(1, settings.spacing // settings.step)
    before = (places - recent) * settings.step
    two_days = places[before >= 2 * DAY]
    # A profile of one day only is a poor forecast, so origins with two come first, if they are enough to compare by.
    return (two_days if len(two_days) >= _ENOUGH else places[before >= DAY]).astype(np.int64)


def _other_period(series: LoadSeries, bins: int) -> int | None:
    """A period in bins other than a day or a week, if the history before all origins shows it twice."""
    history = series.values[:bins]
    detected = period_detection.find(history, step=series.step)
    if detected is None or detected.samples * series.step in (DAY, WEEK):
        return None
    samples = period_detection.refined(history, detected.samples)
    return samples if 2 * samples <= bins and samples * series.step not in (DAY, WEEK) else None


def _tried(
    series: LoadSeries, seen: Flags, origins: NDArray[np.int64], other: int | None, settings: EnsembleSettings
) -> _Trials | None:
    ahead = _ahead(origins, settings)
    places = ahead.places[:, ahead.recent :]
    actual, seen_ahead = series.values[places], seen[places]
    if (seen_ahead.mean(axis=1) >= _SEEN).sum() < _FEWEST:
        return None
    return _Trials(ahead, _candidates(series, ahead, other), actual, seen_ahead, _weights(actual, seen_ahead))


def _weights(actual: Floats, seen: Flags) -> Floats:
    """What a unit of error weighs at each origin: one over the sum of the mean load there and that of all origins."""
    # Otherwise a few hours of a great load would decide alone what is forecast for all the quiet ones.
    loads = np.einsum("ol,ol->o", np.abs(actual), seen) / np.maximum(seen.sum(axis=1), 1)
    return np.asarray(1.0 / (loads + (float(loads.mean()) or 1.0)))


def _candidates(series: LoadSeries, ahead: ForecastWindow, other: int | None) -> ProfileStack:
    """All candidates' forecasts, the last value's at the end. If the series is never below 0, forecasts below 0 become 0."""
    half_lives = sorted({max(1, hours * 3600 // series.step) for hours in (1, 6)})
    shapes = seasonal_profiles.shapes(series, ahead, other)
    levelled = seasonal_profiles.levelled(shapes, series.values, ahead, half_lives)
    plain = seasonal_profiles.plain(series, ahead, half_lives)
    values = np.concatenate([levelled.values, plain.values])
    # A load that was never negative is a count or a rate, and moving a profile to a lower level may lead below zero.
    if (series.values >= 0.0).all():
        np.maximum(values, 0.0, out=values)
    return ProfileStack((*levelled.names, *plain.names), (*levelled.periods, *plain.periods), values)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Some candidates, best first, with their mean forecast in each trial (origins x horizon) and its weighted error."""

    members: NDArray[np.int64]
    past: Floats
    error: float


def _unseen(trials: _Trials, errors: Floats, among: NDArray[np.int64], most: int) -> Floats:
    """What each origin would have been forecast by the best candidates of all other origins: origins x horizon.

    `errors`: of all candidates at each origin.
    """
    # Trials of candidates that were chosen by these same trials look better than the next forecast will be.
    values, off = trials.candidates.values[among], errors[among]
    others = off.sum(axis=1, keepdims=True) - off
    # A stable sort: candidates of equal error keep their order, so that the same log gives the same forecast.
    best = np.argsort(others, axis=0, kind="stable")[:most]
    past = np.empty_like(trials.actual)
    for origin, members in enumerate(best.T):
        several = values[members].mean(axis=0)
        together = np.delete(trials.errors(several[None])[0], origin).sum()
        alone = others[members[0], origin]
        past[origin] = several[origin] if together < alone else values[members[0], origin]
    return past


def _best(trials: _Trials, errors: Floats, among: NDArray[np.int64], most: int) -> _Choice:
    """The best candidate, or the mean of the best few if that was closer."""
    best = among[np.argsort(errors[among], kind="stable")[:most]]
    several = trials.candidates.values[best].mean(axis=0)
    together = float(trials.errors(several[None]).sum())
    if together < errors[best[0]]:
        return _Choice(best, several, together)
    return _Choice(best[:1], trials.candidates.values[best[0]], float(errors[best[0]]))


def _chosen(series: LoadSeries, trials: _Trials, other: int | None, settings: EnsembleSettings) -> EnsembleForecast | NoForecast:
    """The best candidate if it clearly beats the best one without a period, else the latter."""
    by_origin = trials.errors(trials.candidates.values)
    errors = by_origin.sum(axis=1)
    periods = np.array(trials.candidates.periods)
    spike = _ends_with_spike(series)
    usable = np.arange(len(errors) - spike)  # the last candidate is the last value
    among = usable[periods[usable] == 0]
    choice = _best(trials, errors, among, settings.members)
    periodic = _best(trials, errors, usable, settings.members)
    # Sixty profiles compete with seven forecasts without a period, so the best profile looks better than it is.
    if periodic.error <= (1.0 - settings.seasonal_gain) * choice.error and trials.is_mostly_closer(periodic.past, choice.past):
        choice, among = periodic, usable
    last_value = trials.candidates.values[-1]
    accuracy = ForecastAccuracy(trials.share_off(choice.past), trials.share_off(last_value), len(trials.actual))
    # A last value that is a spike tells nothing about the hours to come, so it is not the one to beat.
    gain = -settings.gain if spike else settings.gain
    # Where nothing beats the last value, scaling on live metrics does as well. Written so that NaN fails, too.
    if not accuracy.error <= (1.0 - gain) * accuracy.last_value:
        tried = f"over {accuracy.forecasts} trials the best forecast was {accuracy.error:.1%} off"
        return NoForecast(NoForecastReason.NOT_BETTER, f"{tried}, the last value {accuracy.last_value:.1%}")
    now = _ahead(np.array([len(series.values)]), settings)
    names = tuple(trials.candidates.names[member] for member in choice.members)
    ahead = _candidates(series, now, other)
    # By name, because the present may have more profiles than the past origins had.
    values = ahead.values[[ahead.names.index(name) for name in names]].mean(axis=0)[0]
    past = _unseen(trials, by_origin, among, settings.members)
    # Few trials have not seen the worst, so they are asked for more than the wanted coverage.
    level = settings.coverage + (1.0 - settings.coverage) * min(1.0, _FEW_TRIALS / len(past))
    scale, share = _margin(trials, past, _scales(past, series, trials.ahead), level)
    start = series.start + len(series.values) * series.step
    upper = values + share * _scales(values[None], series, now)[scale][0]
    if not np.isfinite(upper).all():
        return NoForecast(NoForecastReason.NOT_FINITE, "the forecast says values that are no numbers")
    plain, above = (Forecast(start, series.step, tuple(part.tolist()), 1) for part in (values, upper))
    repeated = periods[choice.members][periods[choice.members] > 0]
    period = int(repeated[0]) * series.step if len(repeated) else None
    return EnsembleForecast(plain, above, names, accuracy, float((upper - values).mean()), period)


def _ends_with_spike(series: LoadSeries) -> bool:
    """Whether the last value lies far outside the day before it."""
    *day, last = series.values[-1 - DAY // series.step :].tolist()
    off = np.abs(np.array(day) - np.median(day))
    return bool(abs(last - float(np.median(day))) > _SPIKE * float(off.mean()))


def _scales(forecast: Floats, series: LoadSeries, ahead: ForecastWindow) -> tuple[Floats, ...]:
    """What a margin may be a share of: the forecast (at least a tenth of the mean), the mean, or how much days differ."""
    mean = float(np.abs(series.values).mean())
    relative, flat = np.maximum(np.abs(forecast), 0.1 * mean), np.full_like(forecast, mean)
    apart = seasonal_profiles.spread(series, ahead)
    return (relative, flat) if apart is None else (relative, flat, apart + 0.1 * mean)


def _margin(trials: _Trials, past: Floats, scales: Sequence[Floats], coverage: float) -> tuple[int, float]:
    """The scale, and the share of it that would have covered the load for `coverage` of the time at the least cost.

    The share is never below 0. The cost is how far the forecast lies above the load.
    """
    short, costs = (trials.actual - past)[trials.seen], []
    for number, scale in enumerate(scales):
        sizes = scale[trials.seen]
        share = max(0.0, float(np.quantile(short / sizes, coverage)))
        costs.append((float(np.maximum(share * sizes - short, 0.0).mean()), number, share))
    _, number, share = min(costs)
    return number, share
