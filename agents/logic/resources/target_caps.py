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
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.exact_quantity import Quantity
from schemas.names import Amounts
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues
from schemas.units import Bytes, Cores, bytes_text

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


CAPPED = "RecommendationCapped"
"""The reason where something else than the policy cut a recommendation."""


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """A bound: a word for it, as conditions have them, and a clause of a sentence."""

    reason: str
    clause: str


OF_INIT_CONTAINERS = MemoryBound(
    "InitContainer",
    "it is an init container, for which nothing is recommended, as in upstream's VPA; raise its memory in the template",
)
"""The bound of init containers, those that run on as sidecars among them."""


def memory_bound(advised: ContainerRecommendation | None, policy: ContainerPolicy, limit: Bytes | None) -> MemoryBound:
    """The bound of a container with this memory limit, the nearest one first, where it requests what is recommended."""
    target = None if advised is None else advised.target.memory
    if policy.mode is ContainerMode.OFF:
        return MemoryBound("ContainerModeOff", "its policy has the mode Off")
    if advised is None or target is None:
        return MemoryBound("MemoryNotRecommended", "its policy does not control memory, or nothing is known of its use")
    most, uncapped = policy.max_allowed.memory, advised.uncapped.memory
    if most is not None and target >= most:
        return MemoryBound("MaxAllowed", f"its policy allows {bytes_text(most)} at most")
    if policy.controlled_values is ControlledValues.REQUESTS_ONLY and limit is not None and target >= limit:
        return MemoryBound("StaticLimit", f"its limit of {bytes_text(limit)} stays, because its policy controls requests alone")
    if uncapped is not None and uncapped > target:
        return MemoryBound(
            CAPPED, f"more is recommended, and a LimitRange, a node or a maximum cuts that to {bytes_text(target)}"
        )
    return MemoryBound("RecommendationReached", f"no more than {bytes_text(target)} are recommended")
