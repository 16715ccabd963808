"""Answers autoscalers that ask for a forecast or for crons, from policies and the newest forecasts.

Answers are in milli-units: 0.7 cores are 700. If a selector matches several EHPAs, the largest forecast counts, and the crons of
the oldest EHPA. A forecast is ignored if it has expired or was made for an older object of the same name. `docs/quirks.md` lists
where upstream's adapter differs.
"""

import math
from collections.abc import Callable, Iterable, Mapping

from agents.logic.replicas.ehpa_crons import CronClock, CronEntry
from agents.logic.replicas.ehpa_manifest import CRON, PREDICTION, TARGET_LABELS, label_value
from agents.logic.replicas.replica_calculator import MetricError, milli
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.times import to_seconds
from schemas.units import Seconds

LatestForecast = Callable[[str], LoadForecast | None]
"""The newest forecast for the object with a key."""
_Target = tuple[str, str, str]
"""Namespace, kind and name of what an EHPA scales; the name as a selector can have it."""


class ServedMetrics:
    """The EHPAs of one cluster by target. Values are replaced as a whole, so another thread may read them at any time."""

    metrics = (CRON, PREDICTION)

    def __init__(self, cluster: str, latest: LatestForecast, *, upstream_crons: bool = False) -> None:
        self._cluster, self._latest = cluster, latest
        self._ehpas: dict[str, EhpaChanged] = {}
        self._of_target: dict[_Target, tuple[EhpaChanged, ...]] = {}
        self._crons = CronClock(upstream=upstream_crons)

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""
        if isinstance(event, EhpaChanged | EhpaRemoved) and event.cluster == self._cluster:
            before = self._ehpas.pop(event.key, None)
            if before is not None and (target := _target(before)) is not None:
                self._put(target, [ehpa for ehpa in self._of_target.get(target, ()) if ehpa.key != event.key])
            if isinstance(event, EhpaRemoved):
                self._crons.remove(event.key)
            if isinstance(event, EhpaChanged):
                self._ehpas[event.key] = event
                if (target := _target(event)) is not None:
                    self._put(target, [*self._of_target.get(target, ()), event])

    def answer(self, metric: str, namespace: str, selector: Mapping[str, str], now: float) -> int | str:
        """The metric's value in milli-units, or a sentence on why there is none; `now` is in seconds since the epoch."""
        ehpas = self._selected(namespace, selector)
        if metric == CRON:
            answer = self._cron(ehpas, selector, now)
        elif metric == PREDICTION:
            answer = self._prediction(ehpas, selector, now)
        else:
            answer = MetricError(f"there is no external metric '{metric}'")
        return answer if isinstance(answer, int) else answer.text

    def _put(self, target: _Target, ehpas: Iterable[EhpaChanged]) -> None:
        ranked = tuple(sorted(ehpas, key=lambda ehpa: ehpa.rank))
        if ranked:
            self._of_target[target] = ranked
        else:
            self._of_target.pop(target, None)

    def _selected(self, namespace: str, selector: Mapping[str, str]) -> list[EhpaChanged]:
        """The EHPAs of a namespace that match a selector; labels that it lacks do not matter."""
        # The API server has checked the right to ask in this namespace, and in no other.
        if selector.get("targetNamespace", namespace) != namespace:
            return []
        kind, name = selector.get("targetKind"), selector.get("targetName")
        # A selector holds what a label can hold, and names may be longer.
        name = None if name is None else label_value(name)
        if kind is not None and name is not None:
            return list(self._of_target.get((namespace, kind, name), ()))
        return [
            ehpa
            # A copy, because another thread may put an EHPA in.
            for (there, its_kind, its_name), ehpas in list(self._of_target.items())
            if there == namespace and kind in (None, its_kind) and name in (None, its_name)
            for ehpa in ehpas
        ]

    def _prediction(self, ehpas: Iterable[EhpaChanged], selector: Mapping[str, str], now: float) -> int | MetricError:
        identifier = selector.get("resourceIdentifier")
        if not identifier:
            return MetricError("the selector does not say 'resourceIdentifier'")
        forecasts = [(ehpa, self._latest(ehpa.key)) for ehpa in ehpas]
        answers = [
            forecast_value(forecast, identifier, now)
            for ehpa, forecast in forecasts
            # A forecast with another uid was made for an older object of the same name.
            if forecast is not None and not forecast.withdrawn and forecast.uid == ehpa.uid
        ]
        if not answers:
            return MetricError("no forecast belongs to what the selector says")
        values = [answer for answer in answers if isinstance(answer, int)]
        return max(values) if values else answers[0]

    def _cron(self, ehpas: list[EhpaChanged], selector: Mapping[str, str], now: float) -> int | MetricError:
        """The replicas that the crons of the EHPA that scales a target want, but at least its minimum (1 by default)."""
        absent = [word for word in TARGET_LABELS if word not in selector]
        if absent:
            return MetricError(f"the selector does not say '{absent[0]}'")
        # Those of one target stand in their rank, so that the oldest comes first.
        governing = next((ehpa for ehpa in ehpas if ehpa.claims), None)
        if governing is None or not governing.crons:
            target = f"{selector['targetKind']} '{selector['targetNamespace']}/{selector['targetName']}'"
            return MetricError(f"no EHPA with crons scales {target}")
        least = governing.min_replicas
        try:
            return 1000 * self._crons.wanted(governing.key, crons_of(governing), now, least=1 if least is None else least)
        except ValueError as error:
            return MetricError(str(error))


def forecast_value(forecast: LoadForecast, identifier: str, now: float) -> int | MetricError:
    """The largest forecast of a metric from now to the window's end, in milli-units.

    The identifier may be given as the value of a label.
    """
    named = (metric for metric in forecast.metrics if identifier in (metric.identifier, label_value(metric.identifier)))
    metric = next(named, None)
    if metric is None:
        return MetricError(f"'{identifier}' is not forecast")
    if not metric.values:
        return MetricError(f"there is no forecast of '{identifier}': {metric.message or metric.reason}")
    if not forecast.holds(now):
        return MetricError(f"the forecast of '{identifier}' is outdated: it held until {forecast.expires.isoformat()}")
    highest = _highest(metric, now, forecast.window)
    if highest is None:
        return MetricError(f"the forecast of '{identifier}' is outdated: it says nothing for the next {forecast.window:g} s")
    return max(0, milli(highest))


def _highest(metric: MetricForecast, now: float, window: Seconds) -> float | None:
    """The largest value of the steps in the window, including the one that has already begun; None if there are none."""
    since = (now - to_seconds(metric.start)) / metric.step
    first, last = max(0, math.floor(since)), math.floor(since + window / metric.step)
    return max(metric.values[first : last + 1], default=None) if last >= 0 else None


def crons_of(ehpa: EhpaChanged) -> tuple[CronEntry, ...]:
    """The crons of a policy."""
    return tuple(CronEntry(cron.name, cron.start, cron.end, cron.target_replicas, cron.timezone) for cron in ehpa.crons)


def _target(ehpa: EhpaChanged) -> _Target | None:
    ref = ehpa.target_ref
    return None if ref is None else (ehpa.namespace, ref.kind, label_value(ref.name))
