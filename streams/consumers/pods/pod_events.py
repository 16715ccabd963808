"""Evictions and resizes in words: as Events, with upstream's reasons and the decision to ask `ullage why` for, and as amounts."""

from collections.abc import Mapping

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.clients.kube.quantities import spell_amounts


def spelled(requests: Mapping[str, Amounts]) -> str:
    """`web 250m 1048576, proxy nothing`: CPU in millicores, memory in bytes."""
    return ", ".join(f"{name} {' '.join(spell_amounts(requests[name]).values()) or 'nothing'}" for name in sorted(requests))


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
