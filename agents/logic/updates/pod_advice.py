"""A recommendation applied to a pod: capped as upstream caps it, without what HPAs scale by, and with limits that follow.

Most pods of a workload request the same, so it is computed once for each shape of pod. The cache is not state.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from agents.engine.tables.object_table import ObjectTable
from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources import resource_lists, target_caps
from agents.logic.resources.limit_ranges import NONE, Ranges
from agents.logic.resources.pod_resources import service_class
from agents.logic.resources.resource_lists import Advice, Container, UnscalableError, limit_amounts
from agents.logic.resources.target_caps import OF_RANGES, ContainerRule, ordered
from agents.logic.updates import update_priority
from agents.logic.updates.cap_sentences import Caps
from agents.logic.updates.updater_records import NewestRecommendation, PodRecord
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.names import Amounts
from schemas.policies.vertical import ContainerPolicy, ControlledValues
from schemas.units import Bytes

Follows = Callable[[ContainerSeen, Amounts], Amounts]
"""The new limits of a container, by its target."""

_ROUNDINGS = {"cpu": 0.002, "memory": 2.0}
"""Two roundings of an amount come to at most this: two millicores, two bytes."""
_NEAR = 0.01
"""The share of itself by which an amount may differ that follows from a ratio of small amounts."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikePods:
    """What pods that are treated alike have in common; one object stands for all equal ones.

    `init_containers`, `requests` and `limits` (those of the pod itself) only matter to the class of service, which Kubernetes
    says is `qos`; empty where it does not.
    """

    containers: tuple[ContainerSeen, ...]
    observed: str | None
    init_containers: tuple[ContainerSeen, ...] = ()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    qos: str = ""


_Alike = tuple[tuple[ContainerSeen, ...], str | None, tuple[ContainerSeen, ...], Amounts, Amounts, str]
"""The fields of AlikePods."""


@dataclass(frozen=True, slots=True)
class CapEffects:
    """What capping did to the advice for a pod.

    `caps` are the steps that changed each container's target. `fault` says why upstream's arithmetic has no answer for such a
    pod, so that the amounts are not capped and nothing may be set; else empty.
    """

    caps: Caps = field(default_factory=dict)
    fault: str = ""


UNCAPPED = CapEffects()


class PodAdvice:
    """What pods of a shape should request, how far they are from that, and what an update would set.

    `advice` are the recommended amounts, capped, in exact form. `follows` gives the new limits of a container.
    """

    def __init__(
        self,
        shape: AlikePods,
        recommended: NewestRecommendation,
        advice: Sequence[Advice],
        follows: Follows,
        effects: CapEffects = UNCAPPED,
    ) -> None:
        self.recommended, self.fault, self.caps = recommended, effects.fault, effects.caps
        self.seen = update_priority.observed(shape.observed)
        self.priority = update_priority.priority(_containers(shape), advice, self.seen)
        self._shape, self._follows = shape, follows

    @cached_property
    def difference(self) -> float:
        """By how much containers' requests are off their targets, as a share of what the pod requests, over both resources."""
        # What only moves from one container to another counts, too, unlike in the priority: where a LimitRange shares out what a
        # pod may have, nothing else ever moves.
        return sum(_share(self.pairs(resource)) for resource in ("cpu", "memory"))

    @cached_property
    def changes_nothing(self) -> bool:
        """Whether an update would leave all containers that admission saw with the requests that they have."""
        # A LimitRange bounds a request by its ratio to the limit, and the ratios of template and pod differ by what was rounded.
        # An amount that it bounds is the same if it differs by no more than that: the successor would come back as it is.
        return all(
            now is not None and (now == target or (name in self._ranged and _near(resource, now, target)))
            for resource in ("cpu", "memory")
            for name, now, target in self.pairs(resource)
        )

    @cached_property
    def _ranged(self) -> frozenset[str]:
        """The containers that a LimitRange bounds."""
        return frozenset(name for name, steps in self.caps.items() if any(step.by in OF_RANGES for step in steps))

    def pairs(self, resource: str) -> Sequence[tuple[str, float | None, float]]:
        """What each container that admission saw requests of a resource, and its target; only where there is a target."""
        pairs = (
            (container.name, getattr(container.requests, resource), getattr(self.targets.get(container.name), resource, None))
            for container in self._shape.containers
            if self.seen is None or container.name in self.seen
        )
        return [(name, now, target) for name, now, target in pairs if target is not None]

    @cached_property
    def only_raises(self) -> bool:
        """Whether an update would raise a request and lower none."""
        pairs = [pair for resource in ("cpu", "memory") for pair in self.pairs(resource)]
        return any(_raises(now, target) for _, now, target in pairs) and not any(
            now is not None and target < now for _, now, target in pairs
        )

    @cached_property
    def raised(self) -> "PodAdvice | None":
        """The same without what it would take away; None if it gives nothing more."""
        more = {(name, what) for what in ("cpu", "memory") for name, now, target in self.pairs(what) if _raises(now, target)}
        if not more:
            return None

        def only(name: str, amounts: Amounts) -> Amounts:
            return Amounts(amounts.cpu if (name, "cpu") in more else None, amounts.memory if (name, "memory") in more else None)

        return self._with(only, {name for name, _ in more}, lambda seen: only(seen.name, self._limit(seen)))

    @cached_property
    def memory_alone(self) -> "PodAdvice":
        """The same with the CPU that each container has."""
        cores = {seen.name: seen.requests.cpu for seen in self._shape.containers}

        def limit(seen: ContainerSeen) -> Amounts:
            return Amounts(seen.limits.cpu, self._limit(seen).memory)

        return self._with(lambda name, amounts: Amounts(cores[name], amounts.memory), cores.keys(), limit)

    def _with(
        self, amounts: Callable[[str, Amounts], Amounts], names: Collection[str], limit: Callable[[ContainerSeen], Amounts]
    ) -> "PodAdvice":
        """The same for these containers, with other amounts and limits."""

        def of(advised: ContainerRecommendation) -> ContainerRecommendation:
            lower, target, upper = (amounts(advised.container, bound) for bound in (advised.lower, advised.target, advised.upper))
            return replace(advised, lower=lower, target=target, upper=upper)

        containers = tuple(of(advised) for advised in self.recommended.containers if advised.container in names)
        recommended = replace(self.recommended, containers=containers)
        advice = tuple(map(resource_lists.of_recommendation, recommended.containers))
        return PodAdvice(self._shape, recommended, advice, lambda seen, _: limit(seen), CapEffects(self.caps, self.fault))

    @property
    def targets(self) -> Mapping[str, Amounts]:
        """What is recommended, by container."""
        return {container.container: container.target for container in self.recommended.containers}

    @cached_property
    def requests(self) -> Mapping[str, Amounts]:
        """The new requests of the containers for which something is recommended."""
        wanted = self.targets
        return {container.name: wanted[container.name] for container in self._shape.containers if container.name in wanted}

    @cached_property
    def limits(self) -> Mapping[str, Amounts]:
        """The new limits of the same containers."""
        return {container.name: self._limit(container) for container in self._shape.containers if container.name in self.requests}

    def _limit(self, seen: ContainerSeen) -> Amounts:
        return self._follows(seen, self.targets[seen.name])

    @cached_property
    def keeps_class(self) -> bool:
        """Whether the pod stays in its class of service, without which the API refuses to resize it in place."""
        shape, requests, limits = self._shape, self.requests, self.limits
        changed = [(container, requests.get(container.name), limits.get(container.name)) for container in shape.containers]
        after = [ContainerSeen(c.name, over(c.requests, request), over(c.limits, limit)) for c, request, limit in changed]
        classes = (
            service_class((*containers, *shape.init_containers), shape.requests, shape.limits)
            for containers in (shape.containers, after)
        )
        before, then = classes
        # Or the class that Kubernetes has given the pod, which counts whatever we make of its amounts.
        return then in (before, shape.qos)


class Bounding(NamedTuple):
    """What bounds the advice for a workload.

    `left`: resources that HPAs scale by, for those who ask without them. `upstream`: caps are exactly upstream's.
    """

    ranges: Ranges = NONE
    left: frozenset[str] = frozenset()
    upstream: bool = False


class WorkloadAdvice:
    """One recommendation for the pods of one workload."""

    __slots__ = ("_advice", "_made", "_rules", "bounding", "left", "policy", "recommended")

    def __init__(self, recommended: NewestRecommendation, policy: PolicyRecord, bounding: Bounding) -> None:
        self.recommended, self.policy, self.bounding, self.left = recommended, policy, bounding, bounding.left
        advice = self._exact()
        # For the first shape, and mostly there is no other: kept for all workloads, it took as much as a third of their pods.
        self._advice: Sequence[Advice] | None = advice
        rules = tuple(_rule(container) for container in policy.policy.containers)
        caps = recommended.reverted is None and (
            bounding.ranges != NONE
            or any(rule.values == ControlledValues.REQUESTS_ONLY for rule in rules)
            # The policy is newer than the recommendation, or something else was put above it.
            or not target_caps.obeys(advice, rules)
        )
        self._rules = rules if caps else None
        self._made: dict[tuple[AlikePods, str], PodAdvice] = {}

    def of(self, shape: AlikePods) -> PodAdvice:
        """All that is recommended to pods of a shape."""
        return self._remembered(shape, "whole")

    def reduced(self, shape: AlikePods) -> PodAdvice:
        """The same without what HPAs scale by."""
        return self._remembered(shape, "reduced")

    def uncapped(self, shape: AlikePods) -> PodAdvice:
        """What would be recommended if nothing capped it, without what HPAs scale by."""
        return self._remembered(shape, "uncapped")

    def _remembered(self, shape: AlikePods, sort: str) -> PodAdvice:
        advice = self._made.get((shape, sort))
        if advice is None:
            left = frozenset[str]() if sort == "whole" else self.left
            advice = self._made[shape, sort] = self._make(shape, left, capped=sort != "uncapped")
        return advice

    def _make(self, shape: AlikePods, left: frozenset[str], *, capped: bool) -> PodAdvice:
        recommended, advice, effects = self.recommended, self._exact() if self._advice is None else self._advice, UNCAPPED
        self._advice = None
        try:
            if capped and self._rules is not None:
                recommended, effects = self._capped(shape, advice)
        except UnscalableError as error:
            effects = CapEffects(fault=str(error))
        recommended = _without(recommended, left) if left else recommended
        if recommended is not self.recommended:
            advice = tuple(map(resource_lists.of_recommendation, recommended.containers))
        return PodAdvice(shape, recommended, advice, self._limits, effects)

    def _exact(self) -> Sequence[Advice]:
        return tuple(map(resource_lists.of_recommendation, self.recommended.containers))

    def _limits(self, seen: ContainerSeen, target: Amounts) -> Amounts:
        """The limits that go with a target, none where the policy says that they stay; in a revert those that were there."""
        reverted = self.recommended.reverted
        if reverted is not None:
            # Limits that follow would not be those that the pod had before.
            return reverted.limits.get(seen.name, Amounts())
        if bounds(self.policy, seen.name).controlled_values is ControlledValues.REQUESTS_ONLY:
            return Amounts()
        return limit_amounts(seen.requests, seen.limits, target)

    def _capped(self, shape: AlikePods, advice: Sequence[Advice]) -> tuple[NewestRecommendation, CapEffects]:
        capped = target_caps.cap(
            advice, _containers(shape), self._rules or (), self.bounding.ranges, upstream=self.bounding.upstream
        )
        containers = tuple(_recommendation(ordered(entry)) for entry in capped.advice)
        return replace(self.recommended, containers=containers), CapEffects(capped.caps)


@dataclass(slots=True)
class AdviceCache:
    """Caches advice while neither recommendations nor pods change, which is nearly always."""

    _workloads: dict[str, WorkloadAdvice] = field(default_factory=dict)
    _shapes: dict[str, tuple[PodRecord, AlikePods]] = field(default_factory=dict)
    _alike: dict[_Alike, AlikePods] = field(default_factory=dict)

    def of(self, workload: str, recommended: NewestRecommendation, policy: PolicyRecord, bounding: Bounding) -> WorkloadAdvice:
        """For the pods of a workload."""
        advice = self._workloads.get(workload)
        # By identity, as this is asked for each workload in each interval, and each input is one object while it stays the same.
        if (
            advice is None
            or advice.recommended is not recommended
            or advice.policy is not policy
            or advice.bounding.ranges is not bounding.ranges
            or advice.bounding[1:] != bounding[1:]
        ):
            advice = self._workloads[workload] = WorkloadAdvice(recommended, policy, bounding)
        return advice

    def shape(self, pod: PodRecord) -> AlikePods:
        """The shape of a pod."""
        uid = pod.fact.pod.uid
        cached = self._shapes.get(uid)
        if cached is not None and cached[0] is pod:
            return cached[1]
        shape = self.shape_of(pod.fact)
        self._shapes[uid] = pod, shape
        return shape

    def shape_of(self, fact: PodChanged) -> AlikePods:
        """The shape of a pod that may not be there, such as a successor."""
        key = _alike(fact)
        shape = self._alike.get(key)
        if shape is None:
            shape = self._alike[key] = AlikePods(*key)
        return shape

    def prune(self, live: ObjectTable[PodRecord], workloads: Collection[str]) -> None:
        """Forget pods and workloads that are not among these, by uid and by key."""
        # Only once there are more than these, as going through all of them costs more than what a few hold.
        if len(self._shapes) > len(live):
            self._shapes = {uid: cached for uid, cached in self._shapes.items() if uid in live}
        if len(self._alike) > 2 * len(self._shapes):
            self._alike = {_alike(pod.fact): shape for pod, shape in self._shapes.values()}
        if len(self._workloads) > len(workloads):
            self._workloads = {workload: cached for workload, cached in self._workloads.items() if workload in workloads}


def _alike(fact: PodChanged) -> _Alike:
    """What advice depends on: the amounts of the containers, whatever became of their runs."""
    plain = [
        tuple(ContainerSeen(container.name, container.requests, container.limits) for container in containers)
        for containers in (fact.containers, fact.init_containers)
    ]
    return plain[0], fact.observed, plain[1], fact.requests, fact.limits, fact.qos


def _containers(shape: AlikePods) -> list[Container]:
    return [
        Container(c.name, resource_lists.of_amounts(c.requests), resource_lists.of_amounts(c.limits)) for c in shape.containers
    ]


def _rule(entry: ContainerPolicy) -> ContainerRule:
    least, most = map(resource_lists.of_amounts, (entry.min_allowed, entry.max_allowed))
    return ContainerRule(entry.container, least, most, entry.controlled_values)


def _recommendation(advice: Advice) -> ContainerRecommendation:
    lists = (advice.lower, advice.target, advice.upper, advice.uncapped)
    amounts = (resource_lists.to_amounts(listed or {}) for listed in lists)
    # Upstream's arithmetic of pod LimitRanges goes below zero.
    positive = (replace(amount, memory=Bytes(0)) if (amount.memory or 0) < 0 else amount for amount in amounts)
    return ContainerRecommendation(advice.container, *positive)


def _without(recommended: NewestRecommendation, left: frozenset[str]) -> NewestRecommendation:
    def of(amounts: Amounts) -> Amounts:
        return Amounts(None if "cpu" in left else amounts.cpu, None if "memory" in left else amounts.memory)

    return replace(
        recommended,
        containers=tuple(
            replace(container, lower=of(container.lower), target=of(container.target), upper=of(container.upper))
            for container in recommended.containers
        ),
    )


def _raises(now: float | None, target: float) -> bool:
    return now is None or target > now


def _share(pairs: Sequence[tuple[str, float | None, float]]) -> float:
    """The sum of |request - target| over the sum of requests; a request that is missing counts as nothing."""
    requested = sum(now or 0.0 for _, now, _ in pairs)
    off = sum(abs((now or 0.0) - target) for _, now, target in pairs)
    return off / max(requested, 0.001) if off else 0.0


def _near(resource: str, now: float, target: float) -> bool:
    return abs(now - target) <= max(_NEAR * target, _ROUNDINGS[resource] + 1e-9)


def over(old: Amounts, new: Amounts | None) -> Amounts:
    """Amounts with the new ones over the old ones, where there are some."""
    if new is None:
        return old
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
