"""The status and the Events of an EHPA in the API's own words: the findings of one pass, laid over the status that it has.

Upstream keeps every condition for ever; here those that no longer apply disappear. Reasons of Events are upstream's, too
(pkg/controller/ehpa of Crane), and nothing depends on an Event.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import times
from schemas.decision_subjects import Subject
from schemas.facts.replica_scaling import HpaCondition
from schemas.outcomes import ObjectChange
from schemas.times import to_seconds
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.consumers.replicas.pass_order import PassOrder, PassReport
from streams.errors import EdgeError, Unreachable

Json = dict[str, Any]
_COPIED = ("AbleToScale", "ScalingActive", "ScalingLimited")


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why an EHPA is not carried out: a reason of one word, upstream's or ours, and a sentence."""

    reason: str
    message: str


@dataclass(slots=True)
class EhpaFindings:
    """What one pass found. `hpa` is the live HPA, `prediction` the live condition of the TimeSeriesPrediction.

    Targets scaled without an HPA also have the actual and the requested replicas, when the scaler last changed them, and the
    conditions that stand for the HPA's. `nothing` to scale: then there are no replicas to show.
    """

    not_ready: NotReady | None = None
    hpa: Mapping[str, Any] | None = None
    prediction: Mapping[str, Any] | None = None
    current: int | None = None
    expected: int | None = None
    scaled: datetime | None = None
    scaling: Sequence[HpaCondition] = ()
    nothing: bool = False
    left_out: list[str] = field(default_factory=list)


def desired_status(before: Mapping[str, Any], findings: EhpaFindings, at: datetime) -> Json:
    """The status that the object should have; equal to `before` if nothing is new."""
    kept = ("lastScaleTime",) if findings.nothing else ("expectReplicas", "currentReplicas", "lastScaleTime")
    status: Json = {key: before[key] for key in kept if key in before}
    seen = {} if findings.hpa is None else findings.hpa.get("status") or {}
    if findings.hpa is not None:
        status["expectReplicas"] = int(seen.get("desiredReplicas") or 0)
        status["currentReplicas"] = int(seen.get("currentReplicas") or 0)
        if seen.get("lastScaleTime"):
            status["lastScaleTime"] = seen["lastScaleTime"]
    if findings.current is not None:
        status["currentReplicas"] = findings.current
    if findings.expected is not None:
        status["expectReplicas"] = findings.expected
    if findings.scaled is not None:
        # The status may have a later one already. Both are RFC 3339 in UTC, so the later one is the greater text.
        last = times.rfc3339(findings.scaled.replace(microsecond=0))
        status["lastScaleTime"] = max(last, str(status.get("lastScaleTime") or ""))
    wanted = [_ready(findings), *_copied(findings.prediction, "PredictionReady"), *scaling_conditions(seen)]
    stated = {
        condition.type: _condition(condition.type, condition.status, condition.reason, condition.message)
        for condition in findings.scaling
    }
    wanted = [*(condition for condition in wanted if condition["type"] not in stated), *stated.values()]
    status["conditions"] = _timed(wanted, before.get("conditions") or (), at)
    return status


def _ready(findings: EhpaFindings) -> Json:
    if findings.not_ready is not None:
        return _condition("Ready", "False", findings.not_ready.reason, findings.not_ready.message)
    message = "; ".join(["Effective HPA is ready", *findings.left_out])
    return _condition("Ready", "True", "EffectiveHorizontalPodAutoscalerReady", message)


def _copied(condition: Mapping[str, Any] | None, name: str) -> list[Json]:
    if condition is None or not condition.get("reason"):
        return []
    return [_condition(name, str(condition["status"]), str(condition["reason"]), str(condition.get("message") or ""))]


def scaling_conditions(status: Mapping[str, Any]) -> list[Json]:
    """The conditions about scaling in the status of an HPA or of an EHPA."""
    conditions = status.get("conditions") or ()
    return [
        copied for condition in conditions if condition.get("type") in _COPIED for copied in _copied(condition, condition["type"])
    ]


def _condition(name: str, status: str, reason: str, message: str) -> Json:
    return {"type": name, "status": status, "reason": reason, "message": message[:32768]}  # the API server takes no longer one


def _timed(wanted: Sequence[Json], before: Sequence[Mapping[str, Any]], at: datetime) -> list[Json]:
    """The conditions with the time of their last change, sorted by type."""
    old = {condition.get("type"): condition for condition in before}
    timed = []
    for condition in sorted(wanted, key=lambda condition: str(condition["type"])):
        since = old.get(condition["type"])
        # Upstream rewrites the time in every pass, so that it says nothing, and every pass is a write.
        same = since is not None and since.get("status") == condition["status"] and since.get("lastTransitionTime")
        timed.append(
            {
                **condition,
                "lastTransitionTime": since["lastTransitionTime"] if same and since else times.rfc3339(at.replace(microsecond=0)),
            }
        )
    return timed


def tsp_status(before: Mapping[str, Any], forecasts: list[Json], condition: Json, at: datetime) -> Json:
    """The status of a TimeSeriesPrediction."""
    return {"predictionMetrics": forecasts, "conditions": _timed([condition], before.get("conditions") or (), at)}


_CREATED = {
    "HorizontalPodAutoscaler": "HPACreated",
    "TimeSeriesPrediction": "PredictionCreated",
    "Substitute": "SubstituteCreated",
}


@dataclass(frozen=True, slots=True)
class _FailureReasons:
    """The reasons for an object that could not be read, made up, created, or changed."""

    get: str
    make: str
    create: str
    update: str


_RECONCILING = {
    "FailedReconcileHPA": _FailureReasons("FailedGetHPA", "FailedCreateHPAObject", "FailedCreateHPA", "FailedUpdateHPA"),
    "FailedReconcilePrediction": _FailureReasons(
        "FailedGetPrediction", "FailedCreatePredictionObject", "FailedCreatePrediction", "FailedUpdatePrediction"
    ),
    "FailedReconcileSubstitute": _FailureReasons(
        "FailedGetSubstitute", "FailedCreateSubstituteObject", "FailedCreateSubstitute", "FailedUpdateSubstitute"
    ),
}
"""By the condition's reason."""
_OTHERS = {
    "FailedGetScale": "FailedGetScale",
    "FailedScale": "FailedManualScale",
    "FailedUpdateStatus": "FailedUpdateStatus",
}
_HOUR = 3600.0  # a failure that lasts is said again when the API server has forgotten its event (--event-ttl is an hour)


class EhpaEvents:
    """The events of all EHPAs of one cluster. Threads may share it as long as each EHPA has only one pass at a time."""

    def __init__(self, record: RecordEvent) -> None:
        self._record = record
        self._failures: dict[tuple[str, str], str] = {}
        """The cause of the last failure that was told, by the EHPA's namespace and name."""

    def forget(self, order: PassOrder) -> None:
        """The EHPA is gone."""
        self._failures.pop((order.namespace, order.name), None)

    @contextmanager
    def told(self, order: PassOrder, report: PassReport) -> Iterator[None]:
        """Write the events of the pass inside, whether or not it ends well."""
        try:
            yield
        except EdgeError as error:
            if not isinstance(error, Unreachable):  # each event would run into a time-out of its own
                self._tell(order, report)
            raise
        self._tell(order, report)

    def _tell(self, order: PassOrder, report: PassReport) -> None:
        subject = Subject.of_object("", "EffectiveHorizontalPodAutoscaler", order.namespace, order.name, report.uid)
        for write in report.writes:
            if write.change is ObjectChange.CREATED and not write.fault:
                message = f"{write.kind} {write.name} was created: {write.reason}"
                cause = f"{report.uid}/{write.kind}/{write.version}"
                try_to_record(self._record, ObjectEvent(subject, _CREATED[write.kind], message, cause))
        key, reason = (order.namespace, order.name), _reason(report)
        if not reason:
            self._failures.pop(key, None)
            return
        cause = f"{report.uid}/{report.failure}/{int(to_seconds(order.at) // _HOUR)}"
        if self._failures.get(key) != cause:
            self._failures[key] = cause
            try_to_record(self._record, ObjectEvent(subject, reason, report.failure, cause, warning=True))


def _reason(report: PassReport) -> str:
    """Upstream's reason for the step that failed; empty where none did, or where upstream has no such step."""
    reasons = _RECONCILING.get(report.step)
    if reasons is None:
        return _OTHERS.get(report.step, "")
    if report.doing.startswith("making"):
        return reasons.make
    if report.doing.startswith("reading"):
        return reasons.get
    failed = next((write.change for write in report.writes if write.fault), None)
    return reasons.create if failed is ObjectChange.CREATED else reasons.update
