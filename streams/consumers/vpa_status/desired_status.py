"""The status of a VPA object in the API's form: the decision, merged over the present status.

A condition whose status does not change keeps its time. Conditions that we do not decide stay as they are, except the deprecated
one that an old recommender may have left behind.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.names import Amounts
from streams.clients.kube import quantities
from streams.clients.kube.vpa_status_client import (
    RecommendedContainerResources,
    RecommendedPodResources,
    VpaCondition,
    VpaStatus,
)

DEPRECATED = "ConfigDeprecated"


def desired_status(decision: VpaConditionsDecided, before: VpaStatus, *, humanize: bool = False) -> VpaStatus:
    """What should stand in an object that has the status `before`.

    `humanize` shows memory with two decimals and a unit, as one of upstream's settings does.
    """
    recommendation = _recommendation(decision, before, humanize=humanize)
    found = {condition.type: condition for condition in before.conditions if condition.type != DEPRECATED}
    for condition in decision.conditions:
        _apply(found, condition, provided=recommendation is not None)
    return VpaStatus(tuple(found[name] for name in sorted(found)), recommendation, decision.generation)


def container_resources(each: ContainerRecommendation, *, humanize: bool = False) -> RecommendedContainerResources:
    """One container's recommendation as the API has it."""
    lower, target, upper, uncapped = (
        _resources(amounts, humanize=humanize) for amounts in (each.lower, each.target, each.upper, each.uncapped)
    )
    return RecommendedContainerResources(target, each.container, lower, upper, uncapped)


def _apply(found: dict[str, VpaCondition], condition: DecidedCondition, *, provided: bool) -> None:
    """RecommendationProvided is always present, True or False; the others are True or absent."""
    status = condition.status
    if condition.type is ConditionType.PROVIDED:
        if status is ConditionStatus.UNKNOWN:
            status = ConditionStatus.TRUE if provided else ConditionStatus.FALSE
        reason, message = ("", "") if status is ConditionStatus.TRUE else (condition.reason, condition.message)
        _put(found, VpaCondition(condition.type.value, status.value, condition.since, reason, message))
    elif status is ConditionStatus.TRUE:
        _put(found, VpaCondition(condition.type.value, status.value, condition.since, condition.reason, condition.message))
    elif status is ConditionStatus.FALSE:
        found.pop(condition.type.value, None)


def _put(found: dict[str, VpaCondition], new: VpaCondition) -> None:
    old = found.get(new.type)
    flipped = old is None or old.status != new.status
    found[new.type] = new if flipped or old is None else replace(new, last_transition_time=old.last_transition_time)


def _recommendation(decision: VpaConditionsDecided, before: VpaStatus, *, humanize: bool) -> RecommendedPodResources | None:
    if decision.containers is None:
        return _standing(decision, before)
    return _pod_resources(decision.containers, humanize=humanize)


def _pod_resources(containers: Sequence[ContainerRecommendation], *, humanize: bool) -> RecommendedPodResources | None:
    if not containers:
        return None
    return RecommendedPodResources(tuple(container_resources(container, humanize=humanize) for container in containers))


def _standing(decision: VpaConditionsDecided, before: VpaStatus) -> RecommendedPodResources | None:
    """The recommendation that the object has, if it was made for this generation."""
    true, provided = ConditionStatus.TRUE.value, ConditionType.PROVIDED.value
    stands = any(condition.type == provided and condition.status == true for condition in before.conditions)
    return before.recommendation if stands and before.observed_generation == decision.generation else None


def _resources(amounts: Amounts, *, humanize: bool) -> Mapping[str, str]:
    resources = {}
    if amounts.cpu is not None:
        resources["cpu"] = quantities.canonical_cpu(amounts.cpu)
    if amounts.memory is not None:
        resources["memory"] = quantities.canonical_memory(amounts.memory, humanize=humanize)
    return resources
