"""Writes the status of VPA objects: it caches the objects, reads them again when they may have changed, and only writes changes.

An object is looked at before its first write, and again after a conflict. One of another uid than was decided about is left
alone, and so is one that names another recommender, whatever the log says. Threads may write different objects at the same
time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.names import Amounts
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged
from streams.clients.kube import quantities
from streams.clients.kube.vpa_status_client import (
    Conflict,
    RecommendedContainerResources,
    RecommendedPodResources,
    VpaCondition,
    VpaStatus,
    VpaStatusObject,
    same,
)
from streams.consumers.executing.rate_limit import RateLimit
from streams.errors import EdgeError

_TRIES = 5
"""How often an object is read again because somebody else is writing, before others have their turn."""


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """A write that the API took: the status, and the version of the object since then."""

    status: VpaStatus
    version: str


class StatusApi(Protocol):
    """A client that reads and writes the objects: an API server's, or a fake."""

    def read(self, namespace: str, name: str) -> VpaStatusObject | None:
        """The object; None when there is none."""

    def write(self, read: VpaStatusObject, status: VpaStatus) -> VpaStatusObject | None:
        """The object with this status; None when it is gone. Raises Conflict."""


class StatusWriter:
    """`recommender` is the name under which we serve; `humanize` as in `desired_status`."""

    def __init__(
        self, api: StatusApi, limit: RateLimit, recommender: str = DEFAULT_RECOMMENDER, *, humanize: bool = False
    ) -> None:
        self._api, self._limit, self._recommender, self._humanize = api, limit, recommender, humanize
        self._objects: dict[tuple[str, str], VpaStatusObject] = {}

    def remember(self, listed: Iterable[VpaStatusObject]) -> None:
        """These are all objects, as they were listed."""
        self._objects = {(each.metadata.namespace, each.metadata.name): each for each in listed}

    def observe(self, vpa: VpaChanged) -> None:
        """The log has a version of an object; if it is not the cached one, somebody else has written it."""
        known = self._objects.get((vpa.namespace, vpa.name))
        if known is not None and vpa.resource_version not in ("", known.metadata.resource_version):
            del self._objects[vpa.namespace, vpa.name]

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        self._objects.pop((namespace, name), None)

    def write(self, decision: VpaConditionsDecided) -> WrittenStatus | None:
        """Make the object show what was decided; None when there was nothing to write. Raises TryAgain and GiveUp."""
        name = decision.namespace, decision.name
        conflict: EdgeError | None = None
        for _ in range(_TRIES):
            known = self._current(decision)
            if known is None or not self._ours(known, decision):
                return None
            wanted = desired_status(decision, known.status, humanize=self._humanize)
            if same(known.status, wanted):
                return None
            self._limit.wait()
            self._objects.pop(name, None)
            try:
                now = self._api.write(known, wanted)
            except Conflict as error:
                conflict = error
                continue
            if now is None:
                return None
            self._objects[name] = now
            return WrittenStatus(wanted, now.metadata.resource_version)
        raise conflict or AssertionError("there is a conflict after each try")

    def _current(self, decision: VpaConditionsDecided) -> VpaStatusObject | None:
        """The cached object, if it has the spec that was decided about; else it is read again."""
        name = decision.namespace, decision.name
        known = self._objects.get(name)
        if known is None or decision.uid not in ("", known.metadata.uid) or decision.generation != known.metadata.generation:
            self._limit.wait()
            known = self._api.read(*name)
            if known is None:
                self.forget(*name)
            else:
                self._objects[name] = known
        return known

    def _ours(self, known: VpaStatusObject, decision: VpaConditionsDecided) -> bool:
        """Whether it is the object that was decided about, and ours to write."""
        names = [recommender.name for recommender in known.spec.recommenders] or [DEFAULT_RECOMMENDER]
        return self._recommender in names and decision.uid in ("", known.metadata.uid)


# The status of a VPA object in the API's form: the decision, merged over the present status.
#
# Conditions that we do not decide stay as they are, except the deprecated one that an old recommender may have left behind.


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
