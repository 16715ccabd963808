"""The status and the Events of an EHPA in the API's own words: the findings of one pass, laid over the status that it has.

Upstream keeps every condition for ever; here those that no longer apply disappear. Reasons of Events are upstream's, too
(pkg/controller/ehpa of Crane), and nothing depends on an Event.
An EHPA that scales directly has no HPA: the conditions that one would have follow from its newest decision and what became of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import times
from schemas.decision_subjects import Subject
from schemas.decisions.replica_plans import HpaConditions, LoadForecast, ProposalOrigin, ReplicasPlanned, ReplicasRefused
from schemas.facts.replica_scaling import HpaCondition
from schemas.outcomes import ActionFinished, ObjectChange, Result
from schemas.times import to_seconds
from schemas.units import counted
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.consumers.replicas.desired_objects import ObjectGenerator
from streams.consumers.replicas.pass_objects import PassObjects
from streams.consumers.replicas.pass_order import PassOrder, PassReport, ScalingDecision
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


def replacing(status: Json) -> Json:
    """A merge patch that makes this the whole status, as far as it is ours."""
    # A merge patch keeps every field that it does not name.
    return {**dict.fromkeys(("expectReplicas", "currentReplicas", "lastScaleTime")), **status}


def news(findings: EhpaFindings, at: datetime) -> tuple[object, ...]:
    """What of a status is worth a write at once, whoever sets it back: no times, and no texts, which may have numbers in them."""
    status = desired_status({}, findings, at)
    turns = [(condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]]
    return status.get("expectReplicas"), status.get("currentReplicas"), turns


def write_forecasts(
    tsps: PassObjects, generator: ObjectGenerator, live: Json, order: PassOrder, forecast: LoadForecast | None
) -> Json | None:
    """Keep the status of a TimeSeriesPrediction up to date, and return its condition Ready."""
    before, now = live.get("status") or {}, to_seconds(order.at)
    forecasts, condition = generator.tsp_status(live, forecast, now, unsupported=order.unsupported)
    readiness = _readiness(forecasts)
    same = _readiness(before.get("predictionMetrics") or ()) == readiness
    # Once in a window for the forecasts' sake, as upstream does, and not with each new forecast.
    new = not same or (forecasts and generator.is_outdated(live, now)) or _meaning(ready_condition(live)) != _meaning(condition)
    status = tsp_status(before, forecasts, condition, order.at) if new else None
    return ready_condition(tsps.show_status(live, status, (sorted(readiness), condition["status"], condition["reason"])))


def _readiness(forecasts: Sequence[Mapping[str, Any]]) -> set[tuple[str, bool]]:
    return {(str(forecast.get("resourceIdentifier")), bool(forecast.get("ready"))) for forecast in forecasts}


def _meaning(condition: Mapping[str, Any] | None) -> tuple[object, ...]:
    return () if condition is None else tuple(condition.get(key) or "" for key in ("status", "reason", "message"))


def ready_condition(tsp: Mapping[str, Any]) -> Json | None:
    """The condition Ready in the status of a TimeSeriesPrediction."""
    conditions = (tsp.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), None)


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


_MESSAGES: Mapping[str, str] = {
    "SucceededGetScale": "the scale of the target can be read",
    "ReadyForNewScale": "no earlier recommendation holds the replicas back",
    "ScaleDownStabilized": "a higher recommendation of the stabilization window still holds",
    "ScaleUpStabilized": "a lower recommendation of the stabilization window still holds",
    "ScalingDisabled": "the target is asked for no replicas, and minReplicas is not 0",
    "DesiredWithinRange": "the desired replicas are within all bounds and rates",
    "TooManyReplicas": "more replicas are desired than maxReplicas",
    "TooFewReplicas": "fewer replicas are desired than minReplicas",
    "ScaleUpLimit": "more replicas are desired than the rates allow to add now",
    "ScaleDownLimit": "fewer replicas are desired than the rates allow to remove now",
}
_SILENT = ("paused", "rival", "scale")  # the status says more of these elsewhere, and they tell nothing of the metrics


def direct_conditions(decided: ScalingDecision, scaled: ActionFinished | None, forbidden: str | None) -> list[HpaCondition]:
    """The conditions after a decision. `scaled`: the last thing that the scaler did; `forbidden`: the control record's reason."""
    shown = [_able(decided, scaled, forbidden)]
    if isinstance(decided, ReplicasRefused) and decided.guard != "no-metric":
        if decided.guard not in _SILENT:
            shown.append(HpaCondition("ScalingActive", "False", "NothingPlanned", decided.reason))
        return shown
    conditions = decided.conditions or HpaConditions()
    for kind, condition in (("ScalingActive", conditions.active), ("ScalingLimited", conditions.limited)):
        status, _, reason = condition.partition("/")
        if reason:
            shown.append(HpaCondition(kind, status, reason, _message(decided, reason)))
    return shown


def conditions_without_scale(message: str) -> list[HpaCondition]:
    """The conditions of a target whose scale cannot be read."""
    return [HpaCondition("AbleToScale", "False", "FailedGetScale", message)]


def conditions_at_zero() -> list[HpaCondition]:
    """The conditions of a target that somebody scaled to 0, with or without an HPA."""
    return [
        HpaCondition("AbleToScale", "True", "SucceededGetScale", _MESSAGES["SucceededGetScale"]),
        HpaCondition("ScalingActive", "False", "ScalingDisabled", _MESSAGES["ScalingDisabled"]),
    ]


def _able(decided: ScalingDecision, scaled: ActionFinished | None, forbidden: str | None) -> HpaCondition:
    """Whether the target can be scaled."""
    if forbidden is not None:
        return HpaCondition("AbleToScale", "False", "ChangesNotAllowed", forbidden)
    if isinstance(decided, ReplicasRefused) and decided.guard == "scale":
        return conditions_without_scale(decided.reason)[0]
    planned = decided if isinstance(decided, ReplicasPlanned) else None
    if planned is not None and scaled is not None and scaled.result is not Result.DONE:
        return HpaCondition("AbleToScale", "False", "FailedUpdateScale", scaled.reason)
    # A plan counts as carried out only once its outcome is in the log.
    if planned is not None and scaled is not None and scaled.decision == planned.id:
        return HpaCondition(
            "AbleToScale", "True", "SucceededRescale", f"the target is asked for {counted(planned.replicas, 'replica')}"
        )
    status, _, reason = (decided.conditions or HpaConditions()).able.partition("/")
    if reason not in _MESSAGES:
        status, reason = "True", "SucceededGetScale"
    return HpaCondition("AbleToScale", status, reason, _MESSAGES[reason])


def _message(decided: ScalingDecision, reason: str) -> str:
    if reason in _MESSAGES:
        return _MESSAGES[reason]
    if isinstance(decided, ReplicasRefused):
        return decided.reason
    if reason != "ValidMetricFound":
        return next((proposal.error for proposal in decided.proposals if proposal.error), "no metric can be read")
    return f"the replicas follow from {_highest(decided)}"


def _highest(plan: ReplicasPlanned) -> str:
    """The metric that asks for the most replicas, and whether that is its forecast."""
    proposals = [proposal for proposal in plan.proposals if proposal.replicas is not None]
    most = max(proposals, key=lambda proposal: proposal.replicas or 0, default=None)
    if most is None:
        return "its metrics"
    return f"the forecast of {most.identifier}" if most.origin is ProposalOrigin.FORECAST else most.identifier
