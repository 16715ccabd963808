"""What caps a recommendation for a pod: LimitRanges, the policy, and limits that stay as they are.

The caps apply in upstream's order: the pod's LimitRange over all containers, then for each container its LimitRange, the policy
(which wins over it), and the container's own limit unless limits follow requests. Admission and updater share this code.
Where limits stay as they are, upstream bounds a request nevertheless so that a limit in the same ratio would be within a
LimitRange (kubernetes/autoscaler#7063); in our own profile the request itself is. Source: pkg/utils/vpa/capping.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from agents.logic.resources import limit_ranges
from agents.logic.resources.limit_ranges import Ranges, bounds
from agents.logic.resources.resource_lists import Advice, Container, Resources
from schemas.decisions.recommendations import ContainerRecommendation, TargetCuts
from schemas.exact_quantity import Quantity
from schemas.names import Amounts
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues
from schemas.units import Bytes, Cores, amount_text, bytes_text

CappedAmounts = dict[str, Quantity]
Bounds = tuple[CappedAmounts, CappedAmounts]
"""The least and the most that a container's LimitRange allows."""


class CapReason(StrEnum):
    """What capped an amount, in upstream's words."""

    LEAST_ALLOWED = "capped to minAllowed"
    MOST_ALLOWED = "capped to maxAllowed"
    LIMIT = "capped to container limit"
    RANGE_MOST = "capped to fit Max in container LimitRange"
    RANGE_LEAST = "capped to fit Min in container LimitRange"
    POD_RANGE = "scaled to fit the pod LimitRange"
    """This text is ours: upstream caps to the pod's LimitRange without a note."""


_POLICY = (CapReason.LEAST_ALLOWED, CapReason.MOST_ALLOWED)
OF_RANGES = (CapReason.RANGE_LEAST, CapReason.RANGE_MOST, CapReason.POD_RANGE)


@dataclass(frozen=True, slots=True)
class Cap:
    """One step that changed a target."""

    resource: str
    by: CapReason
    before: Quantity
    after: Quantity

    def __str__(self) -> str:
        """Upstream's note."""
        return f"{self.resource} {self.by.value}"


@dataclass(frozen=True, slots=True)
class ContainerRule:
    """A policy's rule for one container name; `*` stands for all names without a rule of their own."""

    container: str
    least: Resources = field(default_factory=dict)
    most: Resources = field(default_factory=dict)
    values: str = ControlledValues.REQUESTS_AND_LIMITS


@dataclass(frozen=True, slots=True)
class Capped:
    """Advice that obeys everything, and the caps on each container's target."""

    advice: tuple[Advice, ...]
    caps: Mapping[str, tuple[Cap, ...]]


def rule_of(name: str, rules: Iterable[ContainerRule]) -> ContainerRule | None:
    """The rule for a container: its own, else the last `*` rule, else None."""
    general = None
    for rule in rules:
        if rule.container == name:
            return rule
        if rule.container == "*":
            general = rule
    return general


def obeys(advice: Iterable[Advice], rules: Sequence[ContainerRule]) -> bool:
    """Whether all amounts of the advice lie within the policy's bounds."""
    if not any(rule.least or rule.most for rule in rules):
        return True
    for entry in advice:
        rule = rule_of(entry.container, rules)
        if rule is None:
            continue
        # Capping a copy, because capping changes what it is given.
        if any(_within(dict(given or {}), rule.least, rule.most, _POLICY) for given in (entry.target, entry.lower, entry.upper)):
            return False
    return True


def cap(
    advice: Sequence[Advice],
    containers: Sequence[Container],
    rules: Sequence[ContainerRule],
    ranges: Ranges,
    *,
    upstream: bool = True,
) -> Capped:
    """Capped advice for the containers that the pod has, as upstream does or better. Raises UnscalableError."""
    kept = frozenset[str]() if upstream else frozenset(entry.name for entry in containers if _keeps_limits(entry.name, rules))
    # Of two containers of one name the first counts, as in upstream.
    standing: dict[str, Container] = {}
    for container in containers:
        standing.setdefault(container.name, container)
    scaled = limit_ranges.share_out(advice, containers, ranges.pod, kept, upstream=upstream) if ranges.pod else list(advice)
    # Reversed, so that the first of two entries of one name is the one that stays.
    before = {entry.container: entry.target or {} for entry in reversed(advice)}
    capped, caps = [], {}
    for entry in scaled:
        if entry.container not in standing:
            continue
        container = standing[entry.container]
        rule = rule_of(entry.container, rules)
        bounded = bounds(container, ranges.container, limit_stays=entry.container in kept) if ranges.container else None
        # Bounds are capped like targets, and only the target's steps are told.
        target, steps = _steps(entry.target, container, rule, bounded)
        lower, upper = (_steps(bound, container, rule, bounded)[0] for bound in (entry.lower, entry.upper))
        capped.append(Advice(entry.container, target, lower, upper, entry.uncapped))
        steps = _scaling(before.get(entry.container), entry.target) + steps
        if steps:
            caps[entry.container] = tuple(steps)
    return Capped(tuple(capped), caps)


def _keeps_limits(name: str, rules: Sequence[ContainerRule]) -> bool:
    rule = rule_of(name, rules)
    return rule is not None and rule.values == ControlledValues.REQUESTS_ONLY


def _steps(
    given: Resources | None, container: Container, rule: ContainerRule | None, bounded: Bounds | None
) -> tuple[CappedAmounts | None, list[Cap]]:
    if given is None:
        return None, []
    amounts, steps = dict(given), list[Cap]()
    if bounded is not None:
        steps += _within(amounts, *bounded, (CapReason.RANGE_LEAST, CapReason.RANGE_MOST))
    if rule is not None:
        # After the LimitRange, so that the policy wins over it.
        steps += _within(amounts, rule.least, rule.most, _POLICY)
        if rule.values == ControlledValues.REQUESTS_ONLY:
            steps += _under_limit(amounts, container.limits or {})
    return amounts, steps


def _within(amounts: CappedAmounts, least: Resources, most: Resources, by: tuple[CapReason, CapReason]) -> list[Cap]:
    """Raise amounts to the least, then lower them to the most, which therefore wins."""
    steps = []
    for resource in sorted(amounts):
        low, high = least.get(resource), most.get(resource)
        if low and amounts[resource].nano < low.nano:
            steps.append(Cap(resource, by[0], amounts[resource], low))
            amounts[resource] = low
        if high and amounts[resource].nano > high.nano:
            steps.append(Cap(resource, by[1], amounts[resource], high))
            amounts[resource] = high
    return steps


def _under_limit(amounts: CappedAmounts, limits: Resources) -> list[Cap]:
    steps = []
    for resource in sorted(limits.keys() & amounts.keys()):
        if amounts[resource].milli > limits[resource].milli:
            steps.append(Cap(resource, CapReason.LIMIT, amounts[resource], limits[resource]))
            amounts[resource] = limits[resource]
    return steps


def _scaling(before: Resources | None, after: Resources | None) -> list[Cap]:
    """How fitting the pod's LimitRange changed a target; empty for a container without advice."""
    if before is None or after is None:
        return []
    changed = [name for name in sorted(after) if name in before and before[name].nano != after[name].nano]
    return [Cap(name, CapReason.POD_RANGE, before[name], after[name]) for name in changed]


A = TypeVar("A", Cores, Bytes)


def ordered(advice: Advice) -> Advice:
    """The advice with bounds that enclose its target; the same object if they do already.

    Source: the rule of kubernetes/autoscaler#9935, for every cap.
    """
    # Caps are put on each of the three by itself: a LimitRange on pods shares out the sums of lower bounds, of targets and of
    # upper bounds in three different ratios, and a node does the same. Then a target may lie outside its own bounds, and a pod
    # that requests exactly its target would be changed to what it has, for ever.
    lower, upper = _enclosing(advice.lower, advice.target, -1), _enclosing(advice.upper, advice.target, 1)
    return advice if lower is advice.lower and upper is advice.upper else replace(advice, lower=lower, upper=upper)


def ordered_container(given: ContainerRecommendation) -> ContainerRecommendation:
    """The same for a recommendation of the log."""
    # The recommender orders what it publishes, but a log may hold what an older program made.
    lower, target, upper = given.lower, given.target, given.upper
    least = Amounts(_outer(min, lower.cpu, target.cpu), _outer(min, lower.memory, target.memory))
    most = Amounts(_outer(max, upper.cpu, target.cpu), _outer(max, upper.memory, target.memory))
    return given if (least, most) == (lower, upper) else replace(given, lower=least, upper=most)


def _outer(which: Callable[[A, A], A], bound: A | None, target: A | None) -> A | None:
    return bound if bound is None or target is None else which(bound, target)


def _enclosing(bound: Resources | None, target: Resources | None, side: int) -> Resources | None:
    """The bound, moved out to the target where it lies inside of it; `side` is -1 for a lower bound and 1 for an upper one."""
    wrong = {
        resource: amount
        for resource, amount in (target or {}).items()
        if bound is not None and resource in bound and (amount.nano - bound[resource].nano) * side > 0
    }
    return {**bound, **wrong} if bound is not None and wrong else bound


@dataclass(frozen=True, slots=True)
class TargetBound:
    """A bound: a word for it, as conditions have them, and a clause of a sentence, with what to change."""

    reason: str
    clause: str


_OF_INIT_CONTAINERS = TargetBound(
    "InitContainer",
    "it is an init container, for which nothing is recommended, as in upstream's VPA; raise its memory in the template",
)
"""The bound of init containers, those that run on as sidecars among them."""


def beyond_advice(pod_limit: Bytes | None, *, init: bool) -> TargetBound | None:
    """The bound of a container that no recommendation helps; None for any other.

    `pod_limit`: what the pod has for all its containers together, where this one has no limit of its own; `init`: it is an init
    container.
    """
    if pod_limit is None:
        return _OF_INIT_CONTAINERS if init else None
    most = bytes_text(pod_limit)
    return TargetBound("PodLimit", f"it has no limit of its own, and was killed at its pod's, {most}; raise the pod's own limit")


def unhelped(container: str) -> str:
    """The beginning of a sentence that says what keeps a loop of kills going."""
    return f"container '{container}' is OOM-killed again and again and gets no more memory"


def cut_by(
    resource: str, advised: ContainerRecommendation, policy: ContainerPolicy, cuts: TargetCuts, *, whose: str = "its policy"
) -> TargetBound | None:
    """What made the recommendation of a resource another than the estimate: the last step that binds. None where nothing did.

    `whose` names the policy.
    """
    free, target = getattr(advised.uncapped, resource), getattr(advised.target, resource)
    if free is None or target is None or free == target:
        return None
    amount = amount_text(resource, target)
    if free < target:
        return TargetBound("MinAllowed", f"{whose} asks for {amount} at least; lower its minAllowed")
    # In the order of the recommender's steps, the last one first: it cuts pods to a node after all else.
    if node := cuts.nodes.get(resource):
        return TargetBound("LargestNode", f"its pod is cut down to node '{node}', the largest that is known; add a larger node")
    if (most := _at_most(resource, target, policy, whose)) is not None:
        return most
    leaks = (leak for leak in cuts.leaks if resource == "memory" and leak.container == advised.container)
    if any(target <= leak.most for leak in leaks):
        return TargetBound("MemoryLeak", f"it leaks, and a leak's growth is bounded to {amount} today; mend the leak")
    return TargetBound("MaximumOfSettings", f"the setting vertical.maximum_{resource} allows {amount} at most; raise it")


def memory_bound(
    advised: ContainerRecommendation | None, policy: ContainerPolicy, limit: Bytes | None, cuts: TargetCuts
) -> TargetBound:
    """The bound of a container with this memory limit, the nearest one first, where it requests what is recommended."""
    target = None if advised is None else advised.target.memory
    if policy.mode is ContainerMode.OFF:
        return TargetBound("ContainerModeOff", "its policy has the mode Off")
    if advised is None or target is None:
        return TargetBound("MemoryNotRecommended", "its policy does not control memory, or nothing is known of its use")
    # Also where nothing was cut, as no more could be given.
    if (most := _at_most("memory", target, policy, "its policy")) is not None:
        return most
    if policy.controlled_values is ControlledValues.REQUESTS_ONLY and limit and target >= limit:
        return TargetBound("StaticLimit", f"its limit of {bytes_text(limit)} stays, because its policy controls requests alone")
    cut = cut_by("memory", advised, policy, cuts)
    if cut is not None and cut.reason != "MinAllowed":
        return TargetBound(cut.reason, f"{_recommended(advised)} without a bound, but {cut.clause}")
    return TargetBound("RecommendationReached", f"no more than {bytes_text(target)} are recommended")


def _at_most(resource: str, target: float, policy: ContainerPolicy, whose: str) -> TargetBound | None:
    most = getattr(policy.max_allowed, resource)
    if most is None or target < most:
        return None
    return TargetBound("MaxAllowed", f"{whose} allows {amount_text(resource, most)} at most; raise its maxAllowed")


def _recommended(advised: ContainerRecommendation) -> str:
    free = advised.uncapped.memory
    return "more would be recommended" if free is None else f"{bytes_text(free)} would be recommended"
