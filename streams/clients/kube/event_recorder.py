"""Kubernetes Events: what `kubectl describe` shows of what was done to an object, such as the eviction of a pod.

Events are for people; nothing depends on them, because the outcome in the log counts, and the API server forgets them after an
hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

import structlog

from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts
from schemas.units import amount_texts
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, accepted_body
from streams.errors import EdgeError

_log = structlog.get_logger(__name__)
_CORE = api_paths.root("v1")
_CORE_KINDS = {SubjectKind.POD: "Pod", SubjectKind.NODE: "Node"}
_API_VERSIONS = {
    "ConfigMap": "v1",
    "EffectiveHorizontalPodAutoscaler": "autoscaling.crane.io/v1alpha1",
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
}
_OF_NODES = "default"  # for events about what has no namespace, as in client-go
_LONGEST_NAME = 200
_LONGEST_MESSAGE = 1024  # the API server takes no longer one
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """Something was done to an object, or failed. `cause` distinguishes this event from others about the same object."""

    subject: Subject
    reason: str
    message: str
    cause: str
    warning: bool = False


class EventRecorder:
    """Writes events in the name of `component`; `now` gives the time that people see."""

    def __init__(self, api: Api, component: str, now: Callable[[], datetime]) -> None:
        self._api, self._component, self._now = api, component, now

    def record(self, event: ObjectEvent) -> None:
        """Write an event, unless it is there already. Raises Unreachable, TryAgain and GiveUp."""
        path = api_paths.scoped(_CORE, event.subject.namespace or _OF_NODES, "events")
        about = f"{event.reason} of {event.subject.namespace}/{event.subject.name}"
        request = ApiRequest(path, "writing the event", about, "POST", self._body(event))
        response = self._api.send(request)
        if response.code != _CONFLICT:
            accepted_body(response, request)

    def _body(self, event: ObjectEvent) -> dict[str, object]:
        subject, at = event.subject, f"{self._now():%Y-%m-%dT%H:%M:%SZ}"
        # The name follows from the cause, so writing the event again after a crash finds it there.
        digest = blake2b(f"{event.cause} {event.reason}".encode(), digest_size=8).hexdigest()
        involved = {"namespace": subject.namespace, "name": subject.name, "uid": subject.uid}
        kind = _CORE_KINDS.get(subject.kind, subject.object_kind)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name[:_LONGEST_NAME]}.{digest}", "namespace": subject.namespace or _OF_NODES},
            "involvedObject": {"apiVersion": _API_VERSIONS.get(kind, "v1"), "kind": kind, **involved},
            "reason": event.reason,
            "message": event.message[:_LONGEST_MESSAGE],
            "type": "Warning" if event.warning else "Normal",
            "source": {"component": self._component},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "reportingComponent": self._component,
        }


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


def spelled(*requests: Mapping[str, Amounts]) -> list[str]:
    """`web 250m / 1.0 MiB, proxy nothing` of each of them, for people, who can tell those that differ apart."""
    containers: list[list[str]] = [[] for _ in requests]
    for name in sorted(requests[0]):
        words: list[list[str]] = [[] for _ in requests]
        for resource in ("cpu", "memory"):
            amounts = [getattr(of_pod[name], resource) for of_pod in requests]
            texts = iter(amount_texts(resource, *(amount for amount in amounts if amount is not None)))
            for amount, row in zip(amounts, words, strict=True):
                row.extend([] if amount is None else [next(texts)])
        for row, container in zip(words, containers, strict=True):
            container.append(f"{name} {' / '.join(row) or 'nothing'}")
    return [", ".join(texts) for texts in containers]


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
    message = f"Pod was resized in place to requests {spelled(plan.requests)[0]}; decision {plan.id}"
    try_to_record(record, ObjectEvent(plan.subject, RESIZED_POD, message, plan.id))
