"""Kubernetes Events beside actions: one that cannot be written changes nothing, because the outcome in the log counts."""

from collections.abc import Callable

import structlog

from streams.clients.kube.event_recorder import ObjectEvent
from streams.errors import EdgeError

_log = structlog.get_logger(__name__)

RecordEvent = Callable[[ObjectEvent], object]
"""Writes an event. Raises Unreachable, TryAgain and GiveUp."""


def record_nothing(_event: ObjectEvent) -> None:
    """For a cluster that keeps no events."""


def try_to_record(record: RecordEvent, event: ObjectEvent) -> None:
    """Write an event if the cluster takes it."""
    try:
        record(event)
    except EdgeError as error:
        _log.warning("an event was not written", reason=event.reason, decision=event.cause, error=str(error))
