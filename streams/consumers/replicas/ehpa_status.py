"""The status of an EHPA in the API's own words: the findings of one pass, laid over the status that the object has.

A condition whose status does not change keeps its time, and conditions that no longer apply disappear. Upstream rewrites the time
in every pass and keeps every condition for ever.
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


def desired_status(before: Mapping[str, Any], found: EhpaFindings, at: datetime) -> Json:
    """The status that the object should have; equal to `before` if nothing is new."""
    kept = ("lastScaleTime",) if found.nothing else ("expectReplicas", "currentReplicas", "lastScaleTime")
    status: Json = {key: before[key] for key in kept if key in before}
    seen = {} if found.hpa is None else found.hpa.get("status") or {}
    if found.hpa is not None:
        status["expectReplicas"] = int(seen.get("desiredReplicas") or 0)
        status["currentReplicas"] = int(seen.get("currentReplicas") or 0)
        if seen.get("lastScaleTime"):
            status["lastScaleTime"] = seen["lastScaleTime"]
    if found.current is not None:
        status["currentReplicas"] = found.current
    if found.expected is not None:
        status["expectReplicas"] = found.expected
    if found.scaled is not None:
        last = times.rfc3339(found.scaled.replace(microsecond=0))
        status["lastScaleTime"] = max(last, str(status.get("lastScaleTime") or ""))
    wanted = [_ready(found), *_copied(found.prediction, "PredictionReady"), *scaling_conditions(seen)]
    stated = {each.type: _condition(each.type, each.status, each.reason, each.message) for each in found.scaling}
    wanted = [*(each for each in wanted if each["type"] not in stated), *stated.values()]
    status["conditions"] = _timed(wanted, before.get("conditions") or (), at)
    return status


def _ready(found: EhpaFindings) -> Json:
    if found.not_ready is not None:
        return _condition("Ready", "False", found.not_ready.reason, found.not_ready.message)
    message = "; ".join(["Effective HPA is ready", *found.left_out])
    return _condition("Ready", "True", "EffectiveHorizontalPodAutoscalerReady", message)


def _copied(condition: Mapping[str, Any] | None, name: str) -> list[Json]:
    if condition is None or not condition.get("reason"):
        return []
    return [_condition(name, str(condition["status"]), str(condition["reason"]), str(condition.get("message") or ""))]


def scaling_conditions(status: Mapping[str, Any]) -> list[Json]:
    """The conditions about scaling in the status of an HPA or of an EHPA."""
    conditions = status.get("conditions") or ()
    return [
        each for condition in conditions if condition.get("type") in _COPIED for each in _copied(condition, condition["type"])
    ]


def _condition(name: str, status: str, reason: str, message: str) -> Json:
    return {"type": name, "status": status, "reason": reason, "message": message[:32768]}


def _timed(wanted: Sequence[Json], before: Sequence[Mapping[str, Any]], at: datetime) -> list[Json]:
    """The conditions with the time of their last change, sorted by type."""
    old = {each.get("type"): each for each in before}
    timed = []
    for each in sorted(wanted, key=lambda condition: str(condition["type"])):
        since = old.get(each["type"])
        same = since is not None and since.get("status") == each["status"] and since.get("lastTransitionTime")
        timed.append(
            {
                **each,
                "lastTransitionTime": since["lastTransitionTime"] if same and since else times.rfc3339(at.replace(microsecond=0)),
            }
        )
    return timed


def tsp_status(before: Mapping[str, Any], forecasts: list[Json], condition: Json, at: datetime) -> Json:
    """The status of a TimeSeriesPrediction."""
    return {"predictionMetrics": forecasts, "conditions": _timed([condition], before.get("conditions") or (), at)}
