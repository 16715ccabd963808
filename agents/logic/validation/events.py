"""Which events a stage must not take in, and the sentence that says why: what all share, then each capability's own checks.

It knows only the event. A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside.
"""

from collections.abc import Iterator

from agents.logic.guards import guard_validation
from agents.logic.nodes import scaler_settings
from agents.logic.nodes.cluster import node_event_validation
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas import forecaster_settings, scaling_event_validation
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.stage_rules import fault
from agents.logic.updates import update_event_validation, update_settings
from agents.logic.updates.update_settings import UpdateRules
from agents.logic.usage import usage_event_validation
from agents.logic.vertical import vertical_event_validation, vertical_settings
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas import bounds
from schemas.catalogue import Event
from schemas.names import Workload
from schemas.policies.rules import StageRulesChanged

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
    yield from _unfit_names(event)
    workload = getattr(event, "workload", None)
    if isinstance(workload, Workload):
        yield from bounds.workload("workload", workload)
    yield from guard_validation.reasons(event)
    if isinstance(event, StageRulesChanged) and (kind := _RULES.get((event.stage, event.program))) is not None:
        odd = fault(kind, event.settings)
        yield from () if odd is None else (odd,)
    yield from update_event_validation.reasons(event)
    yield from usage_event_validation.reasons(event)
    yield from vertical_event_validation.reasons(event)
    yield from scaling_event_validation.reasons(event)
    yield from node_event_validation.reasons(event)
