"""Writes the status of VPA objects: it caches the objects, reads them again when they may have changed, and only writes changes.

An object is looked at before its first write, and again after a conflict. One of another uid than was decided about is left
alone, and so is one that names another recommender, whatever the log says. Threads may write different objects at the same
time.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.names import Amounts
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged
from schemas.units import Seconds
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
from streams.consumers.executing.acting_consumer import RateLimit
from streams.contested_writes import DriftBook
from streams.errors import EdgeError, TryAgain

_TRIES = 5  # reads of an object to which somebody else is writing, before other objects have their turn


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


class Contended(TryAgain):
    """Somebody else keeps writing the status, so it stays as they wrote it for a while."""


class StatusWriter:
    """`recommender` is the name under which we serve; `humanize` as in `desired_status`; `clock` counts real seconds."""

    def __init__(
        self,
        api: StatusApi,
        limit: RateLimit,
        recommender: str = DEFAULT_RECOMMENDER,
        *,
        humanize: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._limit, self._recommender, self._humanize = api, limit, recommender, humanize
        self._clock, self._drifts = clock, DriftBook()
        self._objects: dict[tuple[str, str], VpaStatusObject] = {}

    def remember(self, listed: Iterable[VpaStatusObject]) -> None:
        """These are all objects, as they were listed."""
        self._objects = {(vpa.metadata.namespace, vpa.metadata.name): vpa for vpa in listed}

    def observe(self, vpa: VpaChanged) -> None:
        """The log has a version of an object; if it is not the cached one, somebody else has written it."""
        cached = self._objects.get((vpa.namespace, vpa.name))
        if cached is not None and vpa.resource_version not in ("", cached.metadata.resource_version):
            del self._objects[vpa.namespace, vpa.name]

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        self._objects.pop((namespace, name), None)
        self._drifts.forget(namespace, name)

    def write(self, decision: VpaConditionsDecided) -> WrittenStatus | None:
        """Make the object show what was decided; None when there was nothing to write. Raises TryAgain and GiveUp."""
        name = decision.namespace, decision.name
        conflict: EdgeError | None = None
        for _ in range(_TRIES):
            live = self._current(decision)
            if live is None or not self._ours(live, decision):
                return None
            wanted = desired_status(decision, live.status, humanize=self._humanize)
            # A write that changes nothing would wake whoever watches the object.
            drift, ours = (*name, "VPA"), (decision.containers, decision.conditions, decision.generation)
            if same(live.status, wanted):
                self._drifts.settled(drift, ours)
                return None
            if conflict is None:
                self._check_drift(drift, ours)
            self._limit.wait()
            self._objects.pop(name, None)  # whatever becomes of the write, the cached version is over
            try:
                now = self._api.write(live, wanted)
            except Conflict as error:
                conflict = error
                continue
            if now is None:
                return None
            self._objects[name] = now
            self._drifts.settled(drift, ours)
            return WrittenStatus(wanted, now.metadata.resource_version)
        raise conflict or AssertionError("there is a conflict after each try")

    def _check_drift(self, drift: tuple[str, str, str], ours: object) -> None:
        # Two recommenders that serve one object would each write whenever the other did.
        now = self._clock()
        again = self._drifts.again(drift, ours, now)
        if again > now:
            answer, after = "somebody else keeps writing it; are there two recommenders?", Seconds(again - now)
            raise Contended(doing="writing the status of VPA", to="/".join(drift[:2]), answer=answer, after=after)

    def _current(self, decision: VpaConditionsDecided) -> VpaStatusObject | None:
        """The cached object, if it has the spec that was decided about; else it is read again."""
        name = decision.namespace, decision.name
        cached = self._objects.get(name)
        if cached is None or decision.uid not in ("", cached.metadata.uid) or decision.generation != cached.metadata.generation:
            self._limit.wait()
            cached = self._api.read(*name)
            if cached is None:
                self.forget(*name)
            else:
                self._objects[name] = cached
        return cached

    def _ours(self, live: VpaStatusObject, decision: VpaConditionsDecided) -> bool:
        """Whether it is the object that was decided about, and ours to write."""
        # An object without a list is the default recommender's, as upstream has it.
        names = [recommender.name for recommender in live.spec.recommenders] or [DEFAULT_RECOMMENDER]
        return self._recommender in names and decision.uid in ("", live.metadata.uid)


DEPRECATED = "ConfigDeprecated"
"""A condition that an old recommender may have left behind. All others that we do not decide stay as they are."""


def desired_status(decision: VpaConditionsDecided, before: VpaStatus, *, humanize: bool = False) -> VpaStatus:
    """What should stand in an object that has the status `before`.

    `humanize` shows memory with two decimals and a unit, as one of upstream's settings does.
    """
    recommendation = _recommendation(decision, before, humanize=humanize)
    conditions = {condition.type: condition for condition in before.conditions if condition.type != DEPRECATED}
    for condition in decision.conditions:
        _apply(conditions, condition, provided=recommendation is not None)
    return VpaStatus(tuple(conditions[name] for name in sorted(conditions)), recommendation, decision.generation)


def container_resources(container: ContainerRecommendation, *, humanize: bool = False) -> RecommendedContainerResources:
    """One container's recommendation as the API has it."""
    lower, target, upper, uncapped = (
        _resources(amounts, humanize=humanize)
        for amounts in (container.lower, container.target, container.upper, container.uncapped)
    )
    return RecommendedContainerResources(target, container.container, lower, upper, uncapped)


def _apply(conditions: dict[str, VpaCondition], condition: DecidedCondition, *, provided: bool) -> None:
    status = condition.status
    if condition.type is ConditionType.PROVIDED:  # always present, True or False; the others are True or absent
        if status is ConditionStatus.UNKNOWN:
            status = ConditionStatus.TRUE if provided else ConditionStatus.FALSE
        reason, message = ("", "") if status is ConditionStatus.TRUE else (condition.reason, condition.message)
        _put(conditions, VpaCondition(condition.type.value, status.value, condition.since, reason, message))
    elif status is ConditionStatus.TRUE:
        _put(conditions, VpaCondition(condition.type.value, status.value, condition.since, condition.reason, condition.message))
    elif status is ConditionStatus.FALSE:
        conditions.pop(condition.type.value, None)


def _put(conditions: dict[str, VpaCondition], new: VpaCondition) -> None:
    old = conditions.get(new.type)
    # Kubernetes' rule: the time is that of the last change of the status, and not of reason or message.
    flipped = old is None or old.status != new.status
    conditions[new.type] = new if flipped or old is None else replace(new, last_transition_time=old.last_transition_time)


def _recommendation(decision: VpaConditionsDecided, before: VpaStatus, *, humanize: bool) -> RecommendedPodResources | None:
    if decision.containers is None:
        return _standing(decision, before)
    containers = tuple(container_resources(container, humanize=humanize) for container in decision.containers)
    return RecommendedPodResources(containers) if containers else None


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
