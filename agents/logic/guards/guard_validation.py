"""Validates control records and outcomes, on which the shared guards rest."""

from collections.abc import Iterator

from schemas import bounds
from schemas.catalogue import Event
from schemas.outcomes import ActionFinished
from schemas.policies import control
from schemas.policies.control import ControlChanged


def reasons(event: Event) -> Iterator[str]:
    """What is wrong with a control record or an outcome; nothing for other events."""
    if isinstance(event, ControlChanged):
        yield from control.faults(event)
    elif isinstance(event, ActionFinished) and event.subject.workload:
        yield from bounds.workload_key("subject.workload", event.subject.workload)
