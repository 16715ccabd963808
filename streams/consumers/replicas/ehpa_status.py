"""The status of an EHPA in the API's own words: the findings of one pass, laid over the status that the object has.

Upstream keeps every condition for ever; here those that no longer apply disappear.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import times
from schemas.facts.replica_scaling import HpaCondition

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
