"""Which events a stage must not take in, and the sentence that says why: what all share, then each capability's own checks.

It knows only the event. A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside.
"""

from collections.abc import Iterator

from agents.engine.turn import Event
from agents.logic.usage import usage_checks
from agents.logic.vertical import vertical_checks
from schemas import bounds
from schemas.names import Workload
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged
from schemas.subjects import Subject


def refuse(event: Event) -> str | None:
    """Why this event must not be taken in; None if it may be."""
    return next(_reasons(event), None)


def _reasons(event: Event) -> Iterator[str]:
    yield from bounds.time("at", event.at)
    workload = getattr(event, "workload", None)
    if isinstance(workload, Workload):
        yield from bounds.workload("workload", workload)
    if isinstance(event, ActionFinished):
        yield from _subject(event.subject)
    if isinstance(event, ControlChanged):
        yield from bounds.number("budget", event.budget, 1.0)
    yield from usage_checks.reasons(event)
    yield from vertical_checks.reasons(event)


def _subject(subject: Subject) -> Iterator[str]:
    """A subject may have no workload; one that it has can be told from others."""
    if subject.workload:
        yield from bounds.workload_key("subject.workload", subject.workload)
