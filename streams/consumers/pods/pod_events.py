"""What `kubectl describe` shows of an eviction or a resize: upstream's reasons, and the decision to ask `ullage why` for."""

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.consumers.executing.amount_texts import spelled

EVICTED_POD, EVICTED_OF_VPA, RESIZED_POD = "EvictedByVPA", "EvictedPod", "InPlaceResizedByVPA"
"""Upstream's reasons (pkg/updater/restriction)."""


def record_eviction(record: RecordEvent, plan: EvictionPlanned) -> None:
    """The cluster accepted the eviction: record it for the pod, and for the VPA that governs it if there is one."""
    message = f"Pod was evicted to apply recommended requests; decision {plan.id}"
    try_to_record(record, ObjectEvent(plan.subject, EVICTED_POD, message, plan.id))
    if plan.vpa is not None:
        message = f"Pod {plan.pod.name} was evicted to apply recommended requests; decision {plan.id}"
        try_to_record(record, ObjectEvent(plan.vpa, EVICTED_OF_VPA, message, plan.id))


def record_resize(record: RecordEvent, plan: ResizePlanned) -> None:
    """The cluster accepted new amounts in place."""
    message = f"Pod was resized in place to requests {spelled(plan.requests)}; decision {plan.id}"
    try_to_record(record, ObjectEvent(plan.subject, RESIZED_POD, message, plan.id))
