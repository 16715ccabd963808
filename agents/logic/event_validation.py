"""Which events a stage must not take in, and the sentence that says why: what all share, then each capability's own checks.

It knows only the event. A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from agents.logic.nodes import scaler_settings
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas import forecaster_settings
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.stage_rules import fault
from agents.logic.updates import update_settings
from agents.logic.updates.update_settings import UpdateRules
from agents.logic.usage import usage_event_validation
from agents.logic.vertical import vertical_event_validation, vertical_settings
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas import bounds
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.decisions.replica_plans import LoadForecast
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
from schemas.facts.replica_scaling import MOST_ROWS, HpaSeen, LoadHistoryRead, LoadScraped, ScaleSeen
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
)
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.ids import DecisionId
from schemas.names import Workload
from schemas.outcomes import ActionFinished
from schemas.policies import control, scaling
from schemas.policies.control import ControlChanged, StageRulesChanged
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.times import from_ms

# Validates policies, facts and decisions about scaling: gives a sentence for each value that nobody may compute with.

MOST_REPLICAS = scaling.MOST_COUNT
"""The most replicas of one workload."""
MOST_AGE = 86_400.0
"""The most seconds between the rows of a scrape, which are of about one time, and between the values of a history."""


def scaling_reasons(event: Event) -> Iterator[str]:
    """Why an event must be refused; nothing for a good event, or for one of another capability."""
    match event:
        case LoadScraped():
            yield from _scrape(event)
        case LoadHistoryRead():
            yield from _history(event)
        case EhpaChanged():
            yield from _replicas(event, "min_replicas", "max_replicas", "specific_replicas")
            yield from _target(event.target)
            yield from _spec(event)
        case TimeSeriesPredictionChanged():
            yield from bounds.number("window_seconds", event.window_seconds)
            yield from _target(event.target)
        case HpaSeen():
            yield from _replicas(event, "min_replicas", "max_replicas", "current", "desired")
            yield from scaling.amount_reasons(event.metrics, event.behavior)
        case ScaleSeen():
            yield from _replicas(event, "replicas", "status_replicas")
        case LoadForecast():
            yield from _decision_id(event.id)
        case _:
            pass


def _replicas(event: object, *fields: str) -> Iterator[str]:
    for field in fields:
        yield from bounds.number(field, getattr(event, field), MOST_REPLICAS)


def _spec(event: EhpaChanged) -> Iterator[str]:
    """Check the amounts that a stage computes with."""
    # Nobody computes with an object that cannot be carried out, and its owner reads why in its status.
    if event.unsupported:
        return
    yield from scaling.amount_reasons(event.metrics, event.behavior)
    if event.prediction is not None:
        window = event.prediction.window_seconds
        yield from bounds.number("prediction.predictionWindowSeconds", window, scaling.MOST_COUNT)


def _target(key: str) -> Iterator[str]:
    yield from bounds.workload_key("target_ref", key) if key else ()


def _decision_id(text: str) -> Iterator[str]:
    try:
        DecisionId.parse(text)
    except ValueError as error:
        yield f"id: {error}"


def _scrape(event: LoadScraped) -> Iterator[str]:
    lengths = {name: len(getattr(event, name)) for name in ("workloads", "series", "values")}
    if len(set(lengths.values())) > 1:
        yield f"the columns of a scrape must be of equal length, not {lengths}"
    yield from bounds.count("values", event.values, MOST_ROWS)
    if len(event.ages) not in (0, len(event.values)):
        yield f"ages has {len(event.ages)} rows, and there are {len(event.values)} values"
    yield from _odd_names(event.workloads, event.series)
    yield from _amounts("values", event.values)
    yield from _between("ages", event.ages, 0.0, MOST_AGE)


# Scrapes repeat their names.
@lru_cache(maxsize=2048)
def _odd_names(workloads: tuple[str, ...], series: tuple[str, ...]) -> tuple[str, ...]:
    """What is wrong with the first bad name."""
    faults = [reason for place, key in enumerate(workloads) for reason in bounds.workload_key(f"workloads[{place}]", key)]
    faults += [reason for place, name in enumerate(series) for reason in bounds.text(f"series[{place}]", name)]
    return tuple(faults[:1])


def _history(event: LoadHistoryRead) -> Iterator[str]:
    yield from bounds.count("values", event.values, MOST_ROWS)
    yield from bounds.at_least("step", event.step, 1.0, MOST_AGE)
    yield from _amounts("values", [value for value in event.values if value is not None])


def _amounts(name: str, values: Sequence[float]) -> Iterator[str]:
    # Loads may be below zero, because a query can return anything.
    yield from _between(name, values, -bounds.MOST_NUMBER, bounds.MOST_NUMBER)


def _between(name: str, values: Sequence[float], least: float, most: float) -> Iterator[str]:
    numbers = np.asarray(values, np.float64)
    odd = np.flatnonzero(~((numbers >= least) & (numbers <= most)))
    if len(odd):
        yield f"{name}[{odd[0]}] is {numbers[odd[0]]:g}; it must be between {least:g} and {most:g}"


# Validates facts of node scaling, with a sentence for each fault.

_NAMED = {
    NodeDetailsChanged: ("node",),
    NodeDetailsRemoved: ("node",),
    PodShapeSeen: ("shape", "namespace"),
    PodPlacementChanged: ("shape",),
    PodPlacementRemoved: (),
    PodDisruptionBudgetChanged: ("namespace", "name"),
    PodDisruptionBudgetRemoved: ("namespace", "name"),
    ReplicaControllerChanged: ("namespace", "kind", "name"),
    ReplicaControllerRemoved: ("namespace", "kind", "name"),
    ObjectMetadataChanged: ("namespace", "kind", "name"),
    ObjectMetadataRemoved: ("namespace", "kind", "name"),
    ExpanderPrioritiesSeen: ("namespace", "name"),
    ExpanderPrioritiesGone: ("namespace", "name"),
    CapacityBufferSeen: ("namespace", "name"),
    CapacityBufferGone: ("namespace", "name"),
    NodeGroupSeen: ("group",),
    NodeGroupGone: ("group",),
    NodeInstanceSeen: ("group", "instance"),
    NodeInstanceGone: ("group", "instance"),
    ScalingActivityFailed: ("group",),
    InstanceInterruptionNoticed: ("instance", "notice"),
}
"""The fields that make the key of each fact, beside its cluster."""


def node_reasons(event: Event) -> Iterator[str]:
    """What is wrong with a fact of node scaling; nothing for other events."""
    named = _NAMED.get(type(event))
    if named is None:
        return
    cluster = str(getattr(event, "cluster", ""))
    # Keys are split at slashes, so such a name would stand for another cluster.
    if not cluster or "/" in cluster:
        yield f"cluster is '{cluster}'; a cluster has a name without slashes"
    for name in named:
        if not getattr(event, name):
            yield f"{name} is empty"
    if isinstance(event, PodPlacementChanged | PodPlacementRemoved) and not event.pod.uid:
        yield "pod.uid is empty"
    if isinstance(event, NodeGroupSeen):
        yield from _sizes(event)


def _sizes(event: NodeGroupSeen) -> Iterator[str]:
    for name in ("least", "most", "desired"):
        yield from bounds.number(name, getattr(event, name), bounds.MOST_NODES)
    yield from bounds.number("price", event.price)
    yield from bounds.number("provision", event.provision)
    yield from bounds.number("lifetime", event.lifetime)


_RULES = {
    (vertical_settings.NAME, vertical_settings.PROGRAM): VerticalSettings,
    (update_settings.NAME, update_settings.PROGRAM): UpdateRules,
    (scaler_settings.NAME, scaler_settings.PROGRAM): ScalerSettings,
    (forecaster_settings.NAME, forecaster_settings.PROGRAM): ForecasterSettings,
}
"""The settings that each stage of this program has. What rules of other programs may hold is not known here."""


def refuse(event: Event) -> str | None:
    """Why this event must not be taken in; None if it may be."""
    return next(_reasons(event), None)


def _unfit_names(event: Event) -> Iterator[str]:
    """Names of an object that would make no key, or that of another object."""
    if not hasattr(event, "namespace") or not hasattr(event, "name"):
        return
    for field in ("cluster", "namespace", "name"):
        value = getattr(event, field, "x")
        if not value or "/" in value:
            yield f"{field} is '{value[:80]}'; a name is not empty and has no slash"


def _reasons(event: Event) -> Iterator[str]:
    yield from bounds.time("at", event.at)
    # Keys are joined with slashes, so a name with one could pass for an object of another namespace.
    yield from _unfit_names(event)
    workload = getattr(event, "workload", None)
    if isinstance(workload, Workload):
        yield from bounds.workload("workload", workload)
    yield from reasons_of_control(event)
    if isinstance(event, StageRulesChanged) and (kind := _RULES.get((event.stage, event.program))) is not None:
        odd = fault(kind, event.settings)
        if odd is not None:
            yield odd
    yield from update_settings.reasons(event)
    yield from usage_event_validation.reasons(event)
    yield from vertical_event_validation.reasons(event)
    yield from scaling_reasons(event)
    yield from node_reasons(event)


def reasons_of_control(event: Event) -> Iterator[str]:
    """What is wrong with a control record or an outcome, on which the shared guards rest; nothing for other events."""
    if isinstance(event, ControlChanged):
        yield from control.faults(event)
    elif isinstance(event, ActionFinished) and event.subject.workload:
        yield from bounds.workload_key("subject.workload", event.subject.workload)


# Events from the future. Usage of a time to come outweighs all that comes after it, makes that late, and would stay. A kill or a
# report does the same to those that follow, and a recommendation of a turn to come would stay the newest until then.

MOST_AHEAD = 300.0
"""Seconds that a time may lie after the turn's: what clocks may differ, as Kerberos has it."""

_LAST = 1e11
"""Seconds since the epoch: what lies further is written as a number, as no calendar holds it."""

_CPU, _MEMORY = "cpu.reference", "memory.reference"
_MOST_REFERENCE = 31 * 86_400.0
"""The same for a histogram's reference, which may lie half a half life after the last sample."""


def ahead(event: Event, turn: int) -> str | None:
    """Why this event must not be taken in by the turn of this number; None if it may be."""
    if type(event) is RequestsRecommended:  # most of what comes in while a worker catches up
        most = turn / 1000 + MOST_AHEAD
        if event.at.timestamp() < most and DecisionId.turn_of(event.id) / 1000 < most:
            return None
    reasons = (_late_clock(name, at, turn) for name, at in _times(event))
    return next((reason for reason in reasons if reason is not None), None)


def _times(event: Event) -> list[tuple[str, float]]:
    """The names of an event's times, and the times in seconds since the epoch."""
    times: list[tuple[str, float]] = []
    match event:
        case MetricsScraped():
            # Ages are counted back from `at`, so the youngest row is the one that may lie ahead.
            times = [("at", event.at.timestamp() - (float(np.min(event.ages)) if len(event.ages) else 0.0))]
        case LoadScraped():
            times = [("at", event.at.timestamp() - float(min(event.ages, default=0.0)))]
        case LoadHistoryRead():
            times = [("the last value's time", event.start.timestamp() + (len(event.values) - 1) * event.step)]
        case ContainerOOMKilled() | SourceReported():
            times = [("at", event.at.timestamp())]
        case CheckpointSeen():
            references = [(_CPU, event.cpu.reference), (_MEMORY, event.memory.reference)]
            times = [("first", event.first), ("last", event.last), *references]
        case RequestsRecommended():
            times = [("at", event.at.timestamp()), ("the turn in its id", DecisionId.turn_of(event.id) / 1000)]
    return times


def _late_clock(name: str, at: float, turn: int) -> str | None:
    """What is wrong with a time in seconds since the epoch."""
    most = _MOST_REFERENCE if name in (_CPU, _MEMORY) else MOST_AHEAD
    if at - turn / 1000 <= most:
        return None
    return f"{name} is {_text(at)}, {at - turn / 1000:g} s after the turn of {from_ms(turn).isoformat()}; {most:g} s are let pass"


def _text(at: float) -> str:
    return from_ms(round(at * 1000)).isoformat() if abs(at) < _LAST else f"{at:g}"
