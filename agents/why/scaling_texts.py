"""The numbers of events about replicas, load and forecasts that matter in an explanation."""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.decisions.forecasts import LoadForecast, MetricForecast
from schemas.decisions.replica_plans import MetricProposal, ReplicasPlanned, ReplicasRefused
from schemas.facts.load import LoadHistoryRead, LoadQueryFailed, LoadScraped
from schemas.facts.replica_scaling import HpaGone, HpaSeen, ScaleSeen
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved

Numbers = dict[str, object]


def _named(event: Any) -> Numbers:
    return {"object": f"{event.namespace}/{event.name}"}


def _ehpa(event: EhpaChanged) -> Numbers:
    # Kubernetes takes a missing minimum for 1.
    bounds = f"{1 if event.min_replicas is None else event.min_replicas} to {event.max_replicas}"
    why = {"unsupported": event.unsupported} if event.unsupported else {}
    metrics = [f"{metric.type} {metric.name}" for metric in event.metrics]
    return {**_named(event), "replicas": bounds, "strategy": str(event.strategy), "metrics": metrics, **why}


def _tsp(event: TimeSeriesPredictionChanged) -> Numbers:
    why = {"unsupported": event.unsupported} if event.unsupported else {}
    return {**_named(event), "window": event.window_seconds, "metrics": [metric.identifier for metric in event.metrics], **why}


def _hpa(event: HpaSeen) -> Numbers:
    return {**_named(event), "current": event.current, "desired": event.desired}


def _scale(event: ScaleSeen) -> Numbers:
    return {"no scale": event.reason} if event.reason else {"asked": event.replicas, "there": event.status_replicas}


def _forecast(event: LoadForecast) -> Numbers:
    return {**_named(event), "metrics": {metric.identifier: _metric(metric) for metric in event.metrics}}


def _metric(metric: MetricForecast) -> Numbers:
    """The lowest and highest forecast value, the model, and its past error."""
    if not metric.values:
        return {"none": metric.message or metric.reason}
    error = {} if metric.error is None else {"error": metric.error}
    return {"from": min(metric.values), "to": max(metric.values), "by": metric.model, **error}


def _plan(event: ReplicasPlanned) -> Numbers:
    return {
        "replicas": f"{event.current} to {event.replicas}",
        "bounds": f"{event.least} to {event.most}",
        "by": str(event.carried_out_by),
        **({"upcoming": f"{event.upcoming.replicas} by {event.upcoming.by:%H:%M:%S}"} if event.upcoming is not None else {}),
        "proposals": [_proposal(proposal) for proposal in event.proposals],
    }


def _proposal(proposal: MetricProposal) -> str:
    result = proposal.error or f"{proposal.replicas}"
    return f"{proposal.identifier} {proposal.origin}: {result}"


NUMBERS: Mapping[type, Callable[[Any], Numbers]] = {
    EhpaChanged: _ehpa,
    EhpaRemoved: _named,
    TimeSeriesPredictionChanged: _tsp,
    TimeSeriesPredictionRemoved: _named,
    HpaSeen: _hpa,
    HpaGone: _named,
    ScaleSeen: _scale,
    LoadScraped: lambda event: {"series": len(event.series)},
    LoadHistoryRead: lambda event: {"series": event.series, "values": len(event.values)},
    LoadQueryFailed: lambda event: {"series": event.series, "reason": event.reason},
    LoadForecast: _forecast,
    ReplicasPlanned: _plan,
    ReplicasRefused: lambda event: {"guard": event.guard, "reason": event.reason},
}
"""By the class of the event."""

WHAT: Mapping[type, str] = {
    EhpaChanged: "EHPA set",
    EhpaRemoved: "EHPA removed",
    TimeSeriesPredictionChanged: "prediction asked for",
    TimeSeriesPredictionRemoved: "prediction no longer asked for",
    HpaSeen: "HPA seen",
    HpaGone: "HPA gone",
    ScaleSeen: "scale seen",
    LoadScraped: "load scraped",
    LoadHistoryRead: "history of a load read",
    LoadQueryFailed: "query of a load failed",
    LoadForecast: "load forecast",
    ReplicasPlanned: "replicas planned",
    ReplicasRefused: "replicas left alone",
}
"""What each of them is called in plain words."""
