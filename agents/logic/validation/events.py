"""Which events a stage must not take in, and the sentence that says why: what all share, then each capability's own checks.

It knows only the event. A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside.
"""

from collections.abc import Iterator

import numpy as np

from agents.logic.nodes import scaler_settings
from agents.logic.nodes.cluster import node_event_validation
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas import forecaster_settings, scaling_event_validation
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
from schemas.facts.replica_scaling import LoadHistoryRead, LoadScraped
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.ids import DecisionId
from schemas.names import Workload
from schemas.outcomes import ActionFinished
from schemas.policies import control
from schemas.policies.control import ControlChanged, StageRulesChanged
from schemas.times import from_ms

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
    yield from scaling_event_validation.scaling_reasons(event)
    yield from node_event_validation.node_reasons(event)


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
