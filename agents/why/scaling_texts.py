"""The numbers of events about nodes, groups, scheduling, replicas, load and forecasts that matter in an explanation."""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.replica_plans import LoadForecast, MetricForecast, MetricProposal, ReplicasPlanned, ReplicasRefused
from schemas.facts.nodes import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    ScalingActivityFailed,
)
from schemas.facts.replica_scaling import HpaGone, HpaSeen, LoadHistoryRead, LoadQueryFailed, LoadScraped, ScaleSeen
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
    ResourceQuotaRemoved,
)
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.units import bytes_text, cpu_text

Numbers = dict[str, object]


def amounts(quantities: Mapping[str, Any]) -> Numbers:
    """What a node offers or pods request, with units: CPU is in millicores, memory in bytes, all else is a count."""
    return {name: _UNITS[name](number) if name in _UNITS else number for name, number in quantities.items()}


def _millicores_text(number: float) -> str:
    return cpu_text(number / 1000)


# Kubernetes writes these in units that nobody reads; all other resources are counted in pieces.
_UNITS: Mapping[str, Callable[[float], str]] = {"cpu": _millicores_text, "memory": bytes_text, "ephemeral-storage": bytes_text}


def _priorities(event: ExpanderPrioritiesSeen) -> Numbers:
    why = {"unsupported": event.unsupported} if event.unsupported else {}
    return {
        "config map": f"{event.namespace}/{event.name}",
        "patterns": {key: list(patterns) for key, patterns in event.patterns.items()},
        **why,
    }


def _node(event: NodeDetailsChanged) -> Numbers:
    taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in event.taints]
    ready = event.conditions.get("Ready", "Unknown")
    return {"node": event.node, "ready": ready, "allocatable": amounts(event.allocatable), "taints": taints}


def _shape(event: PodShapeSeen) -> Numbers:
    owner = f"{event.owner.kind}/{event.owner.name}" if event.owner else "none"
    return {"shape": event.shape, "owner": f"{event.namespace}/{owner}", "requests": amounts(event.requests)}


def _placed(event: PodPlacementChanged) -> Numbers:
    # Only where there is something to say: an explanation has many of these.
    waits = {"waits": event.unschedulable} if event.unschedulable else {}
    return {"pod": event.pod.name, "phase": str(event.phase), "node": event.node or "none", **waits}


def _group(event: NodeGroupSeen) -> Numbers:
    why = {"no template": event.no_template} if event.no_template else {}
    return {"group": event.group, "min": event.least, "max": event.most, "desired": event.desired, **why}


def _instance(event: NodeInstanceSeen) -> Numbers:
    return {"group": event.group, "instance": event.instance, "lifecycle": event.lifecycle, "type": event.instance_type}


def _failed(event: ScalingActivityFailed) -> Numbers:
    return {"group": event.group, "code": event.code, "type": event.instance_type, "zone": event.zone, "message": event.message}


def _growth(event: ScaleUpPlanned) -> Numbers:
    return {"group": event.group, "nodes": f"{event.before} to {event.after}", "pods": event.pods, "for": list(event.examples)}


def _removal(event: NodeRemovalPlanned) -> Numbers:
    return {
        "node": event.node or "none",
        "instance": event.instance,
        "group": event.group,
        "reason": str(event.reason),
        "evict": [f"{pod.namespace}/{pod.name}" for pod in event.evict],
    }


def _buffer(event: CapacityBufferSeen) -> Numbers:
    like = f"{event.workload_kind}/{event.workload_name}" if event.workload_kind else f"PodTemplate/{event.template_name}"
    wants = {"replicas": event.replicas, "percentage": event.percentage, "limits": event.limits and amounts(event.limits)}
    # A buffer names one of these; the others would only say that they are not set.
    wants = {name: number for name, number in wants.items() if number is not None}
    shown = {} if event.shown is None else {"shows": event.shown.message}
    return {"buffer": f"{event.namespace}/{event.name}", "pods like": like, **wants, **shown}


def _refused(event: ScaleRefused) -> Numbers:
    return {"about": str(event.subject), "code": event.code, "reason": event.reason, "pods": event.count}


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
    # Without values nobody knew, and the reason is what matters.
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
    NodeDetailsChanged: _node,
    NodeDetailsRemoved: lambda event: {"node": event.node},
    PodShapeSeen: _shape,
    PodPlacementChanged: _placed,
    PodPlacementRemoved: lambda event: {"pod": event.pod.name},
    PodDisruptionBudgetChanged: lambda event: {"budget": f"{event.namespace}/{event.name}", "allowed": event.allowed},
    PodDisruptionBudgetRemoved: lambda event: {"budget": f"{event.namespace}/{event.name}"},
    ResourceQuotaChanged: lambda event: {
        "quota": f"{event.namespace}/{event.name}",
        "in use": {name: f"{event.used.get(name, '?')} of {most}" for name, most in event.hard.items()},
    },
    ResourceQuotaRemoved: lambda event: {"quota": f"{event.namespace}/{event.name}"},
    ReplicaControllerChanged: lambda event: {
        "controller": f"{event.kind}/{event.name}",
        "replicas": event.replicas,
        **({"of": f"{event.owner.kind}/{event.owner.name}"} if event.owner is not None else {}),
    },
    ReplicaControllerRemoved: lambda event: {"controller": f"{event.kind}/{event.name}"},
    ObjectMetadataChanged: lambda event: {
        event.kind: event.name if event.name == event.namespace else f"{event.namespace}/{event.name}",
        "labels": dict(event.labels),
        "annotations": dict(event.annotations),
    },
    ObjectMetadataRemoved: lambda event: {event.kind: f"{event.namespace}/{event.name}"},
    ExpanderPrioritiesSeen: _priorities,
    ExpanderPrioritiesGone: lambda event: {"config map": f"{event.namespace}/{event.name}"},
    NodeGroupSeen: _group,
    NodeGroupGone: lambda event: {"group": event.group},
    NodeInstanceSeen: _instance,
    NodeInstanceGone: lambda event: {"group": event.group, "instance": event.instance},
    ScalingActivityFailed: _failed,
    InstanceInterruptionNoticed: lambda event: {"instance": event.instance, "notice": str(event.kind)},
    ScaleUpPlanned: _growth,
    NodeRemovalPlanned: _removal,
    SizeCorrectionPlanned: lambda event: {"group": event.group, "nodes": f"{event.before} to {event.after}"},
    NodeScalingHalted: lambda event: {"about": str(event.subject), "code": event.code or "over", "reason": event.reason},
    SoftTaintPlanned: lambda event: {"node": event.node, "soft taint": "set" if event.tainted else "taken off"},
    CapacityBufferSeen: _buffer,
    CapacityBufferGone: lambda event: {"buffer": f"{event.namespace}/{event.name}"},
    BufferStatusPlanned: lambda event: {
        "buffer": f"{event.namespace}/{event.name}",
        "ready": event.ready,
        "pods": event.replicas,
        "message": event.message,
    },
    ExpanderAsked: lambda event: {"groups": ", ".join(offer.group for offer in event.groups)},
    ScaleRefused: _refused,
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
    NodeDetailsChanged: "node changed",
    NodeDetailsRemoved: "node removed",
    PodShapeSeen: "shape of pods seen",
    PodPlacementChanged: "pod placed",
    PodPlacementRemoved: "pod gone",
    PodDisruptionBudgetChanged: "disruption budget changed",
    PodDisruptionBudgetRemoved: "disruption budget removed",
    ResourceQuotaChanged: "quota changed",
    ResourceQuotaRemoved: "quota removed",
    ReplicaControllerChanged: "controller changed",
    ReplicaControllerRemoved: "controller removed",
    ObjectMetadataChanged: "labels or annotations changed",
    ObjectMetadataRemoved: "object with labels or annotations removed",
    ExpanderPrioritiesSeen: "priorities of node groups seen",
    ExpanderPrioritiesGone: "priorities of node groups gone",
    NodeGroupSeen: "node group seen",
    NodeGroupGone: "node group gone",
    NodeInstanceSeen: "instance seen",
    NodeInstanceGone: "instance gone",
    ScalingActivityFailed: "start of an instance failed",
    InstanceInterruptionNoticed: "end of an instance announced",
    ScaleUpPlanned: "scale-up planned",
    NodeRemovalPlanned: "removal of a node planned",
    SizeCorrectionPlanned: "fewer nodes to be wanted by a group",
    NodeScalingHalted: "group out, or back",
    SoftTaintPlanned: "soft taint of a node planned",
    CapacityBufferSeen: "capacity buffer seen",
    CapacityBufferGone: "capacity buffer gone",
    BufferStatusPlanned: "status of a capacity buffer planned",
    ExpanderAsked: "external expander asked",
    ScaleRefused: "scaling refused",
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
