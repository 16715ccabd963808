"""What `kubectl describe` shows of an eviction or a resize: upstream's reasons, and the decision to ask `ullage why` for.

An event that cannot be written changes nothing about what was done: the outcome in the log is what counts.
"""

from collections.abc import Callable

import structlog

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from streams.clients.kube.event_recorder import ObjectEvent
from streams.consumers.executing.amount_texts import spelled
from streams.errors import GiveUp, TryAgain

EVICTED_POD, EVICTED_OF_VPA, RESIZED_POD = "EvictedByVPA", "EvictedPod", "InPlaceResizedByVPA"
"""Upstream's reasons (pkg/updater/restriction)."""
_log = structlog.get_logger(__name__)

RecordEvent = Callable[[ObjectEvent], object]
"""Writes an event. Raises TryAgain and GiveUp."""


def record_nothing(_event: ObjectEvent) -> None:
    """For a cluster that keeps no events."""


def record_eviction(record: RecordEvent, plan: EvictionPlanned) -> None:
    """The cluster accepted the eviction: record it for the pod, and for the VPA that governs it if there is one."""
    message = f"Pod was evicted to apply recommended requests; decision {plan.id}"
    _try(record, ObjectEvent(plan.subject, EVICTED_POD, message, plan.id))
    if plan.vpa is not None:
        message = f"Pod {plan.pod.name} was evicted to apply recommended requests; decision {plan.id}"
        _try(record, ObjectEvent(plan.vpa, EVICTED_OF_VPA, message, plan.id))


def record_resize(record: RecordEvent, plan: ResizePlanned) -> None:
    """The cluster accepted new amounts in place."""
    message = f"Pod was resized in place to requests {spelled(plan.requests)}; decision {plan.id}"
    _try(record, ObjectEvent(plan.subject, RESIZED_POD, message, plan.id))


def _try(record: RecordEvent, event: ObjectEvent) -> None:
    try:
        record(event)
    except (TryAgain, GiveUp) as error:
        _log.warning("an event was not written", reason=event.reason, decision=event.cause, error=str(error))
