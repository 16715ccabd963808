"""What Crane's metric adapter answers when an HPA asks for a forecast or a cron.

Answers are in milli-units. With `as_upstream` a forecast is cut to whole units, the first of several objects counts, and a
forecast of 0 is an error. Otherwise 0.7 cores are 700, the largest forecast counts, and 0 is 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_manifest import CRON, MANAGER, PREDICTION, TARGET_LABELS, Ehpa
from agents.logic.replicas.replica_calculator import MetricError

METRICS = (CRON, PREDICTION)
"""All external metrics that the adapter serves."""

_DIGITS = 30
"""No forecast has this many digits before the point; it would not fit anywhere."""

Objects = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A request for an external metric: its name, the namespace, the labels of its selector, and the time of the request."""

    metric: str
    namespace: str
    selector: Mapping[str, str]
    now: float


def answer(request: MetricRequest, tsps: Objects, ehpas: Sequence[Ehpa], *, as_upstream: bool = False) -> int | MetricError:
    """The metric's value in milli-units.

    Source: `pkg/metricprovider/external_metric_provider.go` of Crane.
    """
    if request.metric == CRON:
        return _cron(request, ehpas)
    if request.metric == PREDICTION:
        return _prediction(request, tsps, as_upstream)
    return MetricError(f"there is no external metric '{request.metric}'")


def _cron(request: MetricRequest, ehpas: Sequence[Ehpa]) -> int | MetricError:
    """The replicas that the crons of the last EHPA for the target want, but at least its minimum (1 by default)."""
    absent = [word for word in TARGET_LABELS if word not in request.selector]
    if absent:
        return MetricError(f"the selector does not say '{absent[0]}'")
    wanted = {word: request.selector[word] for word in TARGET_LABELS}
    found = [ehpa for ehpa in ehpas if ehpa.selector == wanted and ehpa.crons]
    if not found:
        return MetricError(
            f"no EHPA with crons scales {wanted['targetKind']} '{wanted['targetNamespace']}/{wanted['targetName']}'"
        )
    least = found[-1].least
    try:
        return 1000 * ehpa_crons.wanted(found[-1].crons, request.now, least=1 if least is None else least)
    except ValueError as error:
        return MetricError(str(error))


def _prediction(request: MetricRequest, tsps: Objects, as_upstream: bool) -> int | MetricError:
    identifier = request.selector.get("resourceIdentifier")
    if not identifier:
        return MetricError("the selector does not say 'resourceIdentifier'")
    found = [tsp for tsp in tsps if _belongs(tsp, request)]
    if not found:
        return MetricError("no forecast belongs to what the selector says")
    answers = [_highest(tsp, identifier, request.now, as_upstream) for tsp in (found[:1] if as_upstream else found)]
    values = [value for value in answers if isinstance(value, int)]
    return max(values) if values else answers[0]


def _belongs(tsp: Mapping[str, object], request: MetricRequest) -> bool:
    """Whether the object is Crane's, in the namespace, and for the target. Labels that the selector lacks do not matter."""
    about = _mapping(tsp.get("metadata"))
    labels = _mapping(about.get("labels"))
    wanted = {label: request.selector[word] for word, label in TARGET_LABELS.items() if word in request.selector}
    wanted["app.kubernetes.io/managed-by"] = MANAGER
    return about.get("namespace") == request.namespace and all(labels.get(key) == value for key, value in wanted.items())


def _highest(tsp: Mapping[str, object], identifier: str, now: float, as_upstream: bool) -> int | MetricError:
    """The largest forecast of the window from now on."""
    window = _mapping(tsp.get("spec")).get("predictionWindowSeconds", 0)
    until = now + (window if isinstance(window, int) else 0)
    samples = _samples(_sequence(_mapping(tsp.get("status")).get("predictionMetrics")), identifier)
    if samples is None:
        return MetricError(f"no forecast of '{identifier}' is ready and one series")
    values = []
    for sample in samples:
        at, text = sample.get("timestamp"), str(sample.get("value"))
        if isinstance(at, int | float) and now <= at <= until:
            value = _number(text)
            if value is None:
                return MetricError(f"the forecast says '{text}', which is no number")
            values.append(value)
    if not values or (as_upstream and max(values) <= 0):
        return MetricError(f"the forecast of '{identifier}' says nothing for the next {until - now:g} s: it is outdated")
    return int(np.float32(float(max(values)))) * 1000 if as_upstream else max(0, math.ceil(max(values) * 1000))


def _samples(entries: Iterable[object], identifier: str) -> list[Mapping[str, object]] | None:
    """The samples of the metric's ready entry, which must have exactly one series."""
    for entry in map(_mapping, entries):
        series = _sequence(entry.get("prediction"))
        if entry.get("resourceIdentifier") == identifier and len(series) == 1:
            ready = bool(entry.get("ready"))
            return [_mapping(sample) for sample in _sequence(_mapping(series[0]).get("samples"))] if ready else None
    return None


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text.strip())
    except ArithmeticError:
        return None
    return value if value.is_finite() and value.adjusted() < _DIGITS else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
