"""One pass over a workload that an EHPA scales: the proposals of metrics, forecasts and crons, and the resulting replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agents.logic.replicas import ehpa_crons, hpa_metrics, hpa_reconcile
from agents.logic.replicas.ehpa_crons import CronEntry
from agents.logic.replicas.ehpa_manifest import CRON, PREDICTED, PREDICTION, Ehpa
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.hpa_metrics import HpaMetric, MetricReadings
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaDecision, HpaMemory, MetricResult
from agents.logic.replicas.pod_usage import WorkloadPods, WorkloadReading
from agents.logic.replicas.replica_calculator import MetricError, ReadinessDelays, ReplicaContext, ReplicaProposal, milli
from schemas.decisions.replica_plans import MetricProposal, ProposalOrigin
from schemas.facts.replica_scaling import ScaleSeen

_RESOURCE = ("Resource", "ContainerResource")
_WITHOUT_PODS = ("Object", "External")
_DEFAULT = HpaMetric("Resource", "cpu", utilization=80)
"""The metric that the API server adds to an HPA without metrics."""
_MILLI = 1000


class CronReplicas(Protocol):
    """The replicas that crons want at a time, but at least `least`. Raises `ValueError` if one cannot be read."""

    def __call__(self, crons: Sequence[CronEntry], now: float, *, least: int) -> int:
        """As `ehpa_crons.wanted`."""
        ...


@dataclass(frozen=True, slots=True)
class ScalingSituation:
    """What we know about a workload: pods, the newest usage, values of its other metrics, forecasts for the next window."""

    scale: ScaleSeen
    pods: WorkloadPods
    reading: WorkloadReading | None
    now: float  # Seconds since the epoch.
    values: Mapping[str, float] = field(default_factory=dict)  # By identifier, in the metric's unit, as are `forecasts`.
    forecasts: Mapping[str, float] = field(default_factory=dict)
    crons: CronReplicas = ehpa_crons.wanted  # Computes what crons want.
    # The same for a later time, as far as anybody can know it: with another `now`, `forecasts` and `crons`.
    later: "ScalingSituation | None" = None


@dataclass(frozen=True, slots=True)
class PassResult:
    """The decision, what the next pass needs, and the proposals; `upcoming`: the replicas needed later, if those are more."""

    decision: HpaDecision
    memory: HpaMemory
    bounds: HpaBounds
    proposals: tuple[MetricProposal, ...]
    upcoming: int | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A metric and where it comes from; `error` says why it cannot be asked. A forecast with an error is left out of the HPA."""

    identifier: str
    origin: ProposalOrigin
    metric: HpaMetric
    error: str = ""

    @property
    def is_left_out(self) -> bool:
        """Whether the HPA does without the metric, so that its error keeps nothing as it is."""
        return self.origin is ProposalOrigin.FORECAST and bool(self.error)


def plan(ehpa: Ehpa, situation: ScalingSituation, memory: HpaMemory, settings: ForecasterSettings) -> PassResult:
    """Run one pass. Raises ValueError for an EHPA whose amounts cannot be read."""
    least = 1 if ehpa.least is None else ehpa.least
    if settings.scale_to_zero and not least and not _wakes(ehpa):
        raise ValueError("minReplicas is 0, which needs a metric of type Object or External, a prediction or a cron")
    bounds = HpaBounds(least, ehpa.most, ehpa.rules, settings.downscale_window, to_zero=settings.scale_to_zero)
    context = _context(bounds, situation, settings)
    metrics = ehpa.metrics or (_DEFAULT,)
    live = [_Asked(metric.identifier, ProposalOrigin.LIVE, metric) for metric in metrics]
    readings = _readings(metrics, situation, settings)
    asked = [*live, *_forecasts(ehpa, situation, readings), *_crons(ehpa, situation, least, readings)]
    answers = [_answer(question, readings, context) for question in asked]
    # A forecast that cannot be had keeps nothing as it is: the HPA then goes by the live metric alone.
    counted = [answer for question, answer in zip(asked, answers, strict=True) if not question.is_left_out]
    decision, after = hpa_reconcile.decide(bounds, situation.scale.replicas, counted, memory, now=situation.now)
    proposals = tuple(_proposal(question, answer) for question, answer in zip(asked, answers, strict=True))
    return PassResult(decision, after, bounds, proposals, _upcoming(ehpa, situation, bounds, decision.replicas, settings))


def _wakes(ehpa: Ehpa) -> bool:
    """Whether anything can say that a workload without pods is needed again."""
    # The API server refuses an HPA for which nothing can, because the workload would sleep for ever.
    return bool(ehpa.crons) or ehpa.prediction is not None or any(metric.kind in _WITHOUT_PODS for metric in ehpa.metrics)


def _upcoming(
    ehpa: Ehpa, situation: ScalingSituation, bounds: HpaBounds, planned: int, settings: ForecasterSettings
) -> int | None:
    """The replicas that forecasts and crons will ask for later; None if they ask for no more than planned, or for nothing."""
    later = situation.later
    if later is None:
        return None
    readings = _readings((), later, settings)
    context = _context(bounds, later, settings)
    asked = [*_forecasts(ehpa, later, readings), *_crons(ehpa, later, bounds.least, readings)]
    # No live metric: nobody knows what it will be by then.
    answers = [_answer(question, readings, context) for question in asked]
    counts = [answer.replicas for answer in answers if isinstance(answer, ReplicaProposal)]
    most = min(max(counts, default=0), bounds.most)
    return most if most > planned else None


def _context(bounds: HpaBounds, situation: ScalingSituation, settings: ForecasterSettings) -> ReplicaContext:
    up, down = bounds.rules.up.tolerance, bounds.rules.down.tolerance
    return ReplicaContext(
        situation.scale.replicas,
        situation.scale.status_replicas,
        situation.now,
        settings.tolerance if down is None else down,
        settings.tolerance if up is None else up,
        ReadinessDelays(settings.initialisation, settings.readiness),
    )


@dataclass(slots=True)
class _Readings:
    """Readings to which `values` can be added while metrics are evaluated."""

    fixed: MetricReadings
    values: dict[HpaMetric, int]


def _readings(metrics: Sequence[HpaMetric], situation: ScalingSituation, settings: ForecasterSettings) -> _Readings:
    since = situation.now - settings.samples_within
    resources = [metric for metric in metrics if metric.kind in _RESOURCE]
    values = {
        metric: _milli(situation.values[metric.identifier])
        for metric in metrics
        if metric.kind not in _RESOURCE and metric.identifier in situation.values
    }
    fixed = MetricReadings(
        situation.pods.columns,
        {metric: situation.pods.samples(situation.reading, metric, since=since) for metric in resources},
        {metric: situation.pods.requested(metric) for metric in resources},
        values,
    )
    return _Readings(fixed, values)


def _milli(value: float) -> int:
    return max(0, milli(value))


def _forecasts(ehpa: Ehpa, situation: ScalingSituation, readings: _Readings) -> list[_Asked]:
    """A metric for each forecast that exists."""
    # As in upstream's HPA: with the same target for each replica as the live metric.
    forecasts = []
    for metric in ehpa.metrics:
        ahead = situation.forecasts.get(metric.identifier)
        if ahead is None or metric.kind not in PREDICTED:
            continue
        target = _target(metric, situation.pods)
        if isinstance(target, str):
            forecasts.append(_Asked(metric.identifier, ProposalOrigin.FORECAST, metric, target))
            continue
        external = HpaMetric("External", PREDICTION, selector=(("resourceIdentifier", metric.identifier),), average=target)
        readings.values[external] = _milli(ahead)
        forecasts.append(_Asked(metric.identifier, ProposalOrigin.FORECAST, external))
    return forecasts


def _target(metric: HpaMetric, pods: WorkloadPods) -> int | str:
    """How much of a forecast one pod should take, in milli-units; or why there is no such amount."""
    if metric.kind in _RESOURCE and metric.utilization is not None:
        return pods.share(metric) or "what a pod requests is too little to be shared"
    return metric.average or "its target is neither a utilisation nor an average value"


def _crons(ehpa: Ehpa, situation: ScalingSituation, least: int, readings: _Readings) -> list[_Asked]:
    if not ehpa.crons:
        return []
    metric = HpaMetric("External", CRON, average=_MILLI)
    try:
        readings.values[metric] = _MILLI * situation.crons(ehpa.crons, situation.now, least=least)
    except ValueError as error:
        return [_Asked("cron", ProposalOrigin.CRON, metric, str(error))]
    return [_Asked("cron", ProposalOrigin.CRON, metric)]


def _answer(asked: _Asked, readings: _Readings, context: ReplicaContext) -> MetricResult:
    if asked.error:
        return asked.metric.reason, MetricError(asked.error)
    return hpa_metrics.ask(asked.metric, readings.fixed, context)


def _proposal(asked: _Asked, answer: MetricResult) -> MetricProposal:
    if not isinstance(answer, ReplicaProposal):
        return MetricProposal(asked.identifier, asked.origin, error=answer[1].text)
    metric = asked.metric
    target = next((amount for amount in (metric.utilization, metric.average, metric.value) if amount is not None), None)
    return MetricProposal(asked.identifier, asked.origin, answer.replicas, answer.usage, target, answer.utilization)
