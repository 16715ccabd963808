"""The conditions that an EHPA's HPA would have, for an EHPA that scales directly: from its newest decision and what became of it.

Types and reasons are the HPA controller's, so that `kubectl describe` says the same with and without an HPA. Two are ours:
`ChangesNotAllowed` while the control record forbids to scale, and `NothingPlanned` where a guard objects that no HPA has.
"""

from collections.abc import Mapping

from schemas.decisions.replica_plans import HpaConditions, ProposalOrigin, ReplicasPlanned, ReplicasRefused
from schemas.facts.replica_scaling import HpaCondition
from schemas.outcomes import ActionFinished, Result

ScalingDecision = ReplicasPlanned | ReplicasRefused


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


def of(decided: ScalingDecision, scaled: ActionFinished | None, forbidden: str | None) -> list[HpaCondition]:
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


def without_scale(message: str) -> list[HpaCondition]:
    """The conditions of a target whose scale cannot be read."""
    return [HpaCondition("AbleToScale", "False", "FailedGetScale", message)]


def at_zero() -> list[HpaCondition]:
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
        return without_scale(decided.reason)[0]
    planned = decided if isinstance(decided, ReplicasPlanned) else None
    if planned is not None and scaled is not None and scaled.result is not Result.DONE:
        return HpaCondition("AbleToScale", "False", "FailedUpdateScale", scaled.reason)
    # A plan counts as carried out only once its outcome is in the log.
    if planned is not None and scaled is not None and scaled.decision == planned.id:
        return HpaCondition("AbleToScale", "True", "SucceededRescale", f"the target is asked for {planned.replicas} replicas")
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
