"""A recommendation applied to a pod: capped as upstream caps it, without what HPAs scale by, and with limits that follow.

Most pods of a workload request the same, so it is computed once for each shape of pod. The cache is not state.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agents.engine.tables.object_table import ObjectTable
from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources import capping, resource_lists
from agents.logic.resources.capping import ContainerRule
from agents.logic.resources.container_limit_range import NONE, Ranges
from agents.logic.resources.limit_proportion import UnscalableError, limit_amounts
from agents.logic.resources.resource_lists import Advice, Container
from agents.logic.resources.service_class import service_class
from agents.logic.updates import update_priority
from agents.logic.updates.updater_state import NewestRecommendation, PodRecord
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts
from schemas.policies.vertical import ContainerPolicy, ControlledValues
from schemas.units import Bytes

Follows = Callable[[ContainerSeen], Amounts]
"""The new limits of a container."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikePods:
    """What pods that are treated alike have in common; one object stands for all equal ones."""

    containers: tuple[ContainerSeen, ...]
    observed: str | None


class PodAdvice:
    """What pods of a shape should request, how far they are from that, and what an update would set.

    `advice` are the recommended amounts, capped, in exact form. `follows` gives the new limits, by container. `fault` says why
    upstream's arithmetic has no answer for such a pod, so that the amounts are not capped and nothing may be set; else empty.
    """

    def __init__(
        self, shape: AlikePods, recommended: NewestRecommendation, advice: Sequence[Advice], follows: Follows, fault: str = ""
    ) -> None:
        self.recommended, self.fault = recommended, fault
        self.priority = update_priority.priority(_containers(shape), advice, update_priority.observed(shape.observed))
        self._shape, self._follows = shape, follows

    @property
    def targets(self) -> Mapping[str, Amounts]:
        """What is recommended, by container."""
        return {each.container: each.target for each in self.recommended.containers}

    @cached_property
    def requests(self) -> Mapping[str, Amounts]:
        """The new requests of the containers for which something is recommended."""
        wanted = self.targets
        return {each.name: wanted[each.name] for each in self._shape.containers if each.name in wanted}

    @cached_property
    def limits(self) -> Mapping[str, Amounts]:
        """The new limits of the same containers."""
        return {each.name: self._follows(each) for each in self._shape.containers if each.name in self.requests}

    @cached_property
    def keeps_class(self) -> bool:
        """Whether the pod stays in its class of service, without which the API refuses to resize it in place."""
        before, requests, limits = self._shape.containers, self.requests, self.limits
        changed = [(each, requests.get(each.name), limits.get(each.name)) for each in before]
        after = [ContainerSeen(c.name, _over(c.requests, request), _over(c.limits, limit)) for c, request, limit in changed]
        return service_class(before) == service_class(after)


class WorkloadAdvice:
    """One recommendation for the pods of one workload. `left`: resources that HPAs scale by, for those who ask without them."""

    def __init__(
        self, recommended: NewestRecommendation, policy: PolicyRecord, ranges: Ranges, left: frozenset[str] = frozenset()
    ) -> None:
        self.recommended, self.policy, self.ranges, self.left = recommended, policy, ranges, left
        self._advice = tuple(map(resource_lists.of_recommendation, recommended.containers))
        rules = tuple(_rule(each) for each in policy.policy.containers)
        caps = recommended.reverted is None and (
            ranges != NONE
            or any(each.values == ControlledValues.REQUESTS_ONLY for each in rules)
            or not capping.obeys(self._advice, rules)  # the policy is newer, or something else was put above it
        )
        self._rules = rules if caps else None
        self._found: dict[AlikePods, PodAdvice] = {}
        self._found_reduced: dict[AlikePods, PodAdvice] = {}

    def of(self, shape: AlikePods) -> PodAdvice:
        """All that is recommended to pods of a shape."""
        return _remembered(self._found, shape, lambda: self._made(shape, frozenset()))

    def reduced(self, shape: AlikePods) -> PodAdvice:
        """The same without what HPAs scale by."""
        return _remembered(self._found_reduced, shape, lambda: self._made(shape, self.left))

    def _made(self, shape: AlikePods, left: frozenset[str]) -> PodAdvice:
        recommended, advice, fault = self.recommended, self._advice, ""
        try:
            if self._rules is not None:
                recommended = self._capped(shape)
        except UnscalableError as error:
            fault = str(error)
        recommended = _without(recommended, left) if left else recommended
        if recommended is not self.recommended:
            advice = tuple(map(resource_lists.of_recommendation, recommended.containers))
        targets = {each.container: each.target for each in recommended.containers}
        return PodAdvice(shape, recommended, advice, lambda seen: self._limits(seen, targets[seen.name]), fault)

    def _limits(self, seen: ContainerSeen, target: Amounts) -> Amounts:
        """The limits that go with a target, none where the policy says that they stay; in a revert those that were there."""
        reverted = self.recommended.reverted
        if reverted is not None:
            return reverted.limits.get(seen.name, Amounts())
        if bounds(self.policy, seen.name).controlled_values is ControlledValues.REQUESTS_ONLY:
            return Amounts()
        return limit_amounts(seen.requests, seen.limits, target)

    def _capped(self, shape: AlikePods) -> NewestRecommendation:
        capped = capping.cap(self._advice, _containers(shape), self._rules or (), self.ranges)
        return replace(self.recommended, containers=tuple(map(_recommendation, capped.advice)))


@dataclass(slots=True)
class AdviceCache:
    """Caches advice while neither recommendations nor pods change, which is nearly always."""

    _workloads: dict[str, WorkloadAdvice] = field(default_factory=dict)
    _shapes: dict[str, tuple[PodRecord, AlikePods]] = field(default_factory=dict)
    _alike: dict[tuple[tuple[ContainerSeen, ...], str | None], AlikePods] = field(default_factory=dict)

    def of(
        self, workload: str, recommended: NewestRecommendation, policy: PolicyRecord, ranges: Ranges, left: frozenset[str]
    ) -> WorkloadAdvice:
        """For the pods of a workload."""
        found = self._workloads.get(workload)
        if (
            found is None
            or found.recommended is not recommended
            or found.policy is not policy
            or found.ranges is not ranges
            or found.left != left
        ):
            found = self._workloads[workload] = WorkloadAdvice(recommended, policy, ranges, left)
        return found

    def shape(self, pod: PodRecord) -> AlikePods:
        """The shape of a pod."""
        uid = pod.fact.pod.uid
        cached = self._shapes.get(uid)
        if cached is not None and cached[0] is pod:
            return cached[1]
        key = pod.fact.containers, pod.fact.observed
        shape = self._alike.get(key)
        if shape is None:
            shape = self._alike[key] = AlikePods(*key)
        self._shapes[uid] = pod, shape
        return shape

    def prune(self, live: ObjectTable[PodRecord], workloads: Collection[str]) -> None:
        """Forget the pods and the workloads that are not among these, by uid and by key, once there are more than these."""
        if len(self._shapes) > len(live):
            self._shapes = {uid: cached for uid, cached in self._shapes.items() if uid in live}
        if len(self._alike) > 2 * len(self._shapes):
            self._alike = {(shape.containers, shape.observed): shape for _, shape in self._shapes.values()}
        if len(self._workloads) > len(workloads):
            self._workloads = {workload: cached for workload, cached in self._workloads.items() if workload in workloads}


def _remembered(found: dict[AlikePods, PodAdvice], shape: AlikePods, make: Callable[[], PodAdvice]) -> PodAdvice:
    if shape not in found:
        found[shape] = make()
    return found[shape]


def _containers(shape: AlikePods) -> list[Container]:
    return [
        Container(c.name, resource_lists.of_amounts(c.requests), resource_lists.of_amounts(c.limits)) for c in shape.containers
    ]


def _rule(entry: ContainerPolicy) -> ContainerRule:
    least, most = (resource_lists.of_amounts(each) for each in (entry.min_allowed, entry.max_allowed))
    return ContainerRule(entry.container, least, most, entry.controlled_values)


def _recommendation(advice: Advice) -> ContainerRecommendation:
    """Amounts below zero in upstream's arithmetic of pod LimitRanges become zero."""
    lists = (advice.lower, advice.target, advice.upper, advice.uncapped)
    amounts = (resource_lists.to_amounts(each or {}) for each in lists)
    positive = (replace(each, memory=Bytes(0)) if (each.memory or 0) < 0 else each for each in amounts)
    return ContainerRecommendation(advice.container, *positive)


def _without(recommended: NewestRecommendation, left: frozenset[str]) -> NewestRecommendation:
    def of(amounts: Amounts) -> Amounts:
        return Amounts(None if "cpu" in left else amounts.cpu, None if "memory" in left else amounts.memory)

    return replace(
        recommended,
        containers=tuple(
            replace(each, lower=of(each.lower), target=of(each.target), upper=of(each.upper)) for each in recommended.containers
        ),
    )


def _over(old: Amounts, new: Amounts | None) -> Amounts:
    if new is None:
        return old
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
