"""One metric's forecast: fitted to the past load, kept as a profile, and expanded for the times that somebody asks for."""

import math
from dataclasses import dataclass

import numpy as np

from agents.logic.forecast import dsp, ensemble, percentile_predictor
from agents.logic.forecast.ensemble import EnsembleSettings
from agents.logic.forecast.forecast_values import Forecast, NoForecast, NoForecastReason
from agents.logic.forecast.load_series import Floats, Times
from agents.logic.replicas.ehpa_manifest import dsp_block, percentile_block
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.load_ring_buffers import STEP
from schemas import times as clock
from schemas.decisions.replica_plans import MetricForecast
from schemas.policies.scaling import AlgorithmOptions
from schemas.units import Seconds

MOST_VALUES = 960
"""The most values of one metric in a decision. In a longer stretch, each value is the maximum of several steps."""
LONGEST_WINDOW = 7 * 86_400
"""Seconds."""
_STEP = 300
_LONGEST_STEP = 3600


@dataclass(frozen=True, slots=True)
class LoadModel:
    """A fit: the `upper` forecast with the margin, the `expected` one, and the error; or why none. `due`: the next fit's turn."""

    series: str
    due: int
    fitted: int = 0
    upper: Forecast | None = None
    expected: Forecast | None = None
    model: str = ""
    period: float | None = None
    error: float | None = None
    reason: str = ""
    message: str = ""

    def covers(self, until: float) -> bool:
        """Whether the forecast reaches this time (seconds since the epoch) to within a step."""
        return self.upper is not None and self.upper.last > until - self.upper.step


@dataclass(frozen=True, slots=True)
class FitTask:
    """The input of a fit: options, how far to look ahead in seconds, and the turn's number."""

    series: str
    options: AlgorithmOptions
    window: int
    turn: int
    settings: ForecasterSettings


def fit(times: Times, values: Floats, task: FitTask) -> LoadModel:
    """The model of a series: samples at ascending times (seconds since the epoch)."""
    now = task.turn / 1000
    if not 0 < task.window <= LONGEST_WINDOW:
        return _none(task, "BadSettings", f"the window is {task.window} s; it must be above 0 and at most {LONGEST_WINDOW}")
    if not len(times):
        return _none(task, _word(NoForecastReason.NO_SAMPLES), "nothing is known of this load yet")
    if now - times[-1] > task.settings.samples_within + STEP:
        return _none(task, "Stale", f"the last value is {now - times[-1]:g} s old")
    try:
        return _fitted(times, values, task)
    # The options are texts of an object: what is wrong with one shows only where it is computed with.
    except (ValueError, ArithmeticError) as error:
        return _none(task, _word(NoForecastReason.BAD_SETTINGS), str(error))


def _fitted(times: Times, values: Floats, task: FitTask) -> LoadModel:
    if task.options.type == "percentile":
        return _percentile(times, values, task)
    if task.options.type not in ("", "dsp"):
        raise ValueError(f"'{task.options.type}' is no algorithm; there are 'dsp' and 'percentile'")
    return _dsp(times, values, task) if task.settings.upstream_predictors else _ensemble(times, values, task)


def _ensemble(times: Times, values: Floats, task: FitTask) -> LoadModel:
    # Two windows, because one must still be left when the next fit is due, and a step for the part of one that has passed.
    horizon = -(-2 * task.window // _STEP) * _STEP + _STEP
    ensemble_forecast = ensemble.fit(
        times, values, EnsembleSettings(step=_STEP, horizon=horizon, coverage=task.settings.coverage)
    )
    if isinstance(ensemble_forecast, NoForecast):
        return _none(task, _word(ensemble_forecast.cause), ensemble_forecast.text)
    return LoadModel(
        task.series,
        _next(task),
        task.turn,
        ensemble_forecast.upper,
        ensemble_forecast.forecast,
        " + ".join(ensemble_forecast.members),
        None if ensemble_forecast.period is None else float(ensemble_forecast.period),
        ensemble_forecast.accuracy.error,
    )


def _dsp(times: Times, values: Floats, task: FitTask) -> LoadModel:
    settings = dsp.read(dsp_block(task.options))
    forecast = dsp.fit(times, values, settings)
    if isinstance(forecast, NoForecast):
        return _none(task, _word(forecast.cause), forecast.text)
    best = forecast.trials[forecast.chosen]
    upper = forecast.forecast
    return LoadModel(
        task.series, _next(task), task.turn, upper, None, f"dsp {forecast.chosen}", float(forecast.period), best.error
    )


def _percentile(times: Times, values: Floats, task: FitTask) -> LoadModel:
    settings = percentile_predictor.read(percentile_block(task.options))
    within = times > task.turn / 1000 - settings.history
    estimate = percentile_predictor.estimate([(times[within], values[within])], settings)
    first = task.turn / 1000
    # As above, so that a window is left when the next fit is due.
    last = first + 2 * task.window + task.settings.refit + _STEP
    forecast = percentile_predictor.constant(estimate, first=first, last=last, step=_constant_step(settings.step, last - first))
    if isinstance(forecast, NoForecast):
        return _none(task, _word(forecast.cause), forecast.text)
    return LoadModel(task.series, _next(task), task.turn, forecast, None, f"percentile {settings.percentile:g}", None, None)


def _constant_step(asked: float, span: float) -> int:
    """Seconds of each value of a constant forecast: as asked, at most an hour, but at least the span over `MOST_VALUES`."""
    return max(1, min(int(asked), _LONGEST_STEP), math.ceil(span / MOST_VALUES))


def _none(task: FitTask, reason: str, message: str) -> LoadModel:
    return LoadModel(task.series, _next(task), task.turn, reason=reason, message=message)


def _next(task: FitTask) -> int:
    return task.turn + max(1, int(task.settings.refit * 1000))


def _word(cause: NoForecastReason) -> str:
    return cause.name.title().replace("_", "")


def said(identifier: str, model: LoadModel, *, first: float, last: float) -> MetricForecast:
    """The part of a model that goes into a decision: the values from `first` to `last` (seconds since the epoch)."""
    upper = model.upper
    if upper is None:
        return MetricForecast(
            identifier,
            model.series,
            clock.from_seconds(first),
            Seconds(float(_STEP)),
            fitted=clock.from_ms(model.fitted),
            reason=model.reason or "NotFitted",
            message=model.message or "the load was not looked at yet",
        )
    start, step, values = _window(upper, first, last)
    return MetricForecast(
        identifier,
        model.series,
        clock.from_seconds(start),
        Seconds(float(step)),
        values,
        _window(model.expected, first, last)[2] if model.expected is not None else (),
        model.model,
        None if model.period is None else Seconds(model.period),
        model.error,
        clock.from_ms(model.fitted),
    )


def _window(stored: Forecast, first: float, last: float) -> tuple[int, int, tuple[float, ...]]:
    """Time of the first value, step and values: from the value that holds at `first` to the first one at or after `last`."""
    step = stored.step
    start, values = stored.window(first - step + 1, last + step - 1)
    merged = -(-len(values) // MOST_VALUES)
    if merged <= 1:
        return start, step, values
    # The maximum of several steps, because who plans for a mean is short at the peak.
    padded = np.full(-(-len(values) // merged) * merged, -np.inf)
    padded[: len(values)] = values
    return start, step * merged, tuple(padded.reshape(-1, merged).max(axis=1).tolist())
