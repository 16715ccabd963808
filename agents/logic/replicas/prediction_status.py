"""The status of a TimeSeriesPrediction: when it must be rewritten, and its entry for each metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.logic.replicas.ehpa_manifest import Object

_MINUTE = 60
_LONGEST = 32_768
"""The most characters that the API server accepts in a condition's message."""


@dataclass(frozen=True, slots=True)
class PredictedMetric:
    """A metric's forecast: values at `first`, `first + step`, ... (seconds since the epoch), or why there is none."""

    identifier: str
    first: int = 0
    step: int = 60
    values: tuple[float, ...] = ()
    why_not: str = ""

    @property
    def last(self) -> int:
        """The time of the last value."""
        return self.first + (len(self.values) - 1) * self.step


def outdated(status: Sequence[Mapping[str, object]], *, now: float, window: int) -> bool:
    """Whether some series of a status ends before the window (seconds) from now does, or there is no series.

    Source: `pkg/controller/timeseriesprediction/time_series_prediction_controller.go` of Crane.
    """
    until = (now + window) // _MINUTE * _MINUTE
    ends = [_ends(entry) for entry in status]
    return not ends or any(not last_times or min(last_times) < until for last_times in ends)


def _ends(entry: Mapping[str, object]) -> list[float]:
    """The last time of each series of an entry; 0 for one without samples."""
    series = entry.get("prediction")
    ends = []
    for part in series if isinstance(series, list | tuple) else ():
        samples = part.get("samples") or [{}]
        ends.append(float(samples[-1].get("timestamp", 0)))
    return ends


def status(predicted: Sequence[PredictedMetric], *, now: float, window: int) -> tuple[list[Object], Object]:
    """The entries of the metrics with a forecast, for two windows (seconds), and the condition Ready."""
    until = (now + 2 * window) // _MINUTE * _MINUTE
    entries: list[Object] = []
    reasons = []
    for metric in predicted:
        # A series that misses the end by less than a step is long enough. Upstream's status flaps in that case.
        ready = bool(metric.values) and metric.last > until - max(metric.step, _MINUTE)
        if not ready:
            short = f"its forecast ends {until - metric.last:g} s early" if metric.values else "there is no forecast"
            reasons.append(f"{metric.identifier}: {metric.why_not or short}")
        if metric.values:
            entries.append(_entry(metric, now, now + 2 * window, ready=ready))
    return entries, condition("; ".join(reasons), ready=bool(predicted) and not reasons)


def condition(message: str, *, ready: bool) -> Object:
    """The condition Ready."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "PredictSucceed" if ready else "PredictPartial",
        "message": message[:_LONGEST],
    }


def _entry(metric: PredictedMetric, first: float, last: float, *, ready: bool) -> Object:
    """The entry of a metric: one series without labels."""
    # With five decimals, as upstream writes them.
    times = range(metric.first, metric.first + len(metric.values) * metric.step, metric.step)
    samples = [
        {"timestamp": at, "value": f"{value:.5f}"} for at, value in zip(times, metric.values, strict=True) if first <= at <= last
    ]
    return {"resourceIdentifier": metric.identifier, "ready": ready, "prediction": [{"samples": samples}]}
