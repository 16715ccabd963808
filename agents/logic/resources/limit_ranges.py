"""LimitRanges: those of a namespace as one, the bounds on a container's requests, and a range on whole pods shared out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import (
    CPU,
    MEMORY,
    Advice,
    Container,
    Resources,
    UnscalableError,
    at,
    boundary,
    proportional,
    scaled,
)
from schemas import exact_quantity
from schemas.exact_quantity import Quantity
from schemas.policies.limit_ranges import LimitRangeChanged, LimitType


@dataclass(frozen=True, slots=True)
class Range:
    """The least, the most and the default that a LimitRange sets for containers, or for whole pods.

    `ratios`: how many times its request a limit may be, by resource.
    """

    least: Resources | None = None
    most: Resources | None = None
    default: Resources | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether it sets any list of amounts, even an empty one."""
        return not (self.least is None and self.most is None and self.default is None)


@dataclass(frozen=True, slots=True)
class Ranges:
    """All LimitRanges of a namespace as if they were one; None where the namespace has none of that type."""

    container: Range | None = None
    pod: Range | None = None


NONE = Ranges()


def of_events(events: Iterable[LimitRangeChanged]) -> Ranges:
    """The LimitRanges of one namespace, merged."""
    # In the order of their names, because the last default counts.
    entries = [limit for event in sorted(events, key=lambda event: event.name) for limit in event.limits]
    typed = []
    for entry in entries:
        least, most, default = map(resource_lists.set_amounts, (entry.least, entry.most, entry.default_limits))
        typed.append((entry.type, Range(least, most, default, entry.ratios)))
    return _merged(typed)


def bounds(
    container: Container, bounding: Range, *, limit_stays: bool = False
) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """The least and the most that a recommendation may be, so that request and limit both stay within the range.

    Zero is no bound. Source: getMinAllowedRecommendation and getMaxAllowedRecommendation in pkg/utils/vpa/capping.go.
    """
    if limit_stays:
        # A limit that stays as it is does not move with the request, so that only the request itself can leave the range.
        return dict(bounding.least or {}), dict(bounding.most or {})
    least = _of_limit(container, bounding.least, bounding.default)
    for resource in least:
        # Kubernetes holds the least amount against the request as well as against the limit.
        minimum = at(bounding.least, resource)
        if minimum.nano > least[resource].nano:
            least[resource] = minimum
    return least, _of_limit(container, bounding.most, bounding.default)


def _of_limit(container: Container, bound: Resources | None, default: Resources | None) -> dict[str, Quantity]:
    if bound is None:
        return {}
    bounds_of: dict[str, Quantity] = {}
    for resource in (CPU, MEMORY):
        amounts = (at(resources, resource) for resources in (container.requests, container.limits, bound, default))
        bounds_of[resource] = boundary(resource, *amounts) or resource_lists.at(None, resource)
    return bounds_of


def _merged(entries: Iterable[tuple[str, Range]]) -> Ranges:
    of: dict[str, Range] = {}
    for kind, entry in entries:
        if entry or entry.ratios:
            so_far = of.get(kind, Range())
            least = _tightest(so_far.least, entry.least, higher=True)
            most = _tightest(so_far.most, entry.most, higher=False)
            ratios = dict(so_far.ratios)
            for name, ratio in entry.ratios.items():
                ratios[name] = min(ratio, ratios.get(name, ratio))
            of[kind] = Range(least, most, so_far.default if entry.default is None else entry.default, ratios)
    return Ranges(of.get(LimitType.CONTAINER), of.get(LimitType.POD))


def _tightest(former: Resources | None, further: Resources | None, *, higher: bool) -> Resources | None:
    if former is None or further is None:
        return former if further is None else further
    merged = dict(former)
    for resource in (CPU, MEMORY):
        if resource in further:
            pair = [resources[resource] for resources in (merged, further) if resource in resources]
            merged[resource] = (max if higher else min)(pair, key=lambda amount: amount.nano)
    return merged


Lists = dict[str, dict[str, Quantity] | None]
"""Lists of amounts by kind: upper, target, lower."""

ORDER = tuple((kind, resource) for kind in ("upper", "target", "lower") for resource in (CPU, MEMORY))


@dataclass(frozen=True, slots=True)
class _Member:
    """A container of the pod, and its recommendation if it has one."""

    container: Container
    lists: Lists | None
    keeps_limit: bool = False


def share_out(
    advice: Sequence[Advice],
    containers: Sequence[Container],
    allowed: Range,
    kept: Collection[str] = (),
    *,
    upstream: bool = True,
) -> list[Advice]:
    """All amounts of a pod, scaled alike until their limits sum to what a LimitRange on whole pods allows.

    The limits of the containers in `kept` stay as they are; they count, and nothing is scaled for their sake. Raises
    UnscalableError where an amount has no list to go into, as upstream fails. Source: applyPodLimitRange in upstream's
    pkg/utils/vpa/capping.go; memory that scales to less than a byte becomes 0 here and -1 there.
    """
    advised = {entry.container for entry in advice}
    # A container that has requests but no advice takes part with its requests as the target.
    joined = [Advice(c.name, target=c.requests) for c in containers if c.name not in advised and c.requests]
    parts = [*advice, *joined]
    copies = [_lists(part) for part in parts]
    # Of two entries of one name the first counts, as in upstream, which looks them up in order.
    first: dict[str, Lists] = {}
    for part, copy in zip(parts, copies, strict=True):
        first.setdefault(part.container, copy)
    standing: dict[str, Container] = {}
    for container in containers:
        standing.setdefault(container.name, container)
    members = [_Member(standing[c.name], first.get(c.name), c.name in kept) for c in containers]
    for kind, resource in ORDER:
        # Upstream rounds shares of memory down, so that their sum may be a few bytes short of the least amount.
        _share(members, kind, resource, allowed, up=resource == CPU or not upstream)
    fitted = zip(parts, copies, strict=True)
    return [Advice(part.container, copy["target"], copy["lower"], copy["upper"], part.uncapped) for part, copy in fitted]


def _lists(advice: Advice) -> Lists:
    lists = {"upper": advice.upper, "target": advice.target, "lower": advice.lower}
    return {kind: None if given is None else dict(given) for kind, given in lists.items()}


def _share(members: Sequence[_Member], kind: str, resource: str, allowed: Range, *, up: bool) -> None:
    """Scale one resource in all lists of one kind, if the range requires it."""
    least, most, default = (at(bound, resource) for bound in (allowed.least, allowed.most, allowed.default))
    amounts = [_amount(member, kind, resource) for member in members]
    limits = [_limit(member, resource, amount, default) for member, amount in zip(members, amounts, strict=True)]
    limit, request = exact_quantity.total([amount for amount in limits if amount]), exact_quantity.total(amounts)
    fits = not most or most.nano >= limit.nano
    if least.nano <= limit.nano and least.nano <= request.nano and fits:
        return
    if not limit or (not request and any(member.keeps_limit for member in members)):
        return
    # If the requests fall short, upstream scales by their sum and does not look at the limits any more.
    if least.nano > request.nano:
        for member in members:
            if member.lists is not None:
                amount = at(member.lists[kind], resource)
                _put(member, kind, resource, scaled(resource, amount, by=least, over=request, up=up)[0])
        return
    goal = least if fits else most
    stays = [amount for amount, member in zip(limits, members, strict=True) if amount and member.keeps_limit]
    if stays:
        fixed = exact_quantity.total(stays).nano
        goal, limit = (exact_quantity.of_nano(amount.nano - fixed) for amount in (goal, limit))
        if goal.nano <= 0 or not limit:
            # The limits that stay exceed the range alone, whatever the other containers ask for.
            return
    for member in members:
        if member.keeps_limit:
            continue
        amount = at(member.container.limits if member.lists is None else member.lists[kind], resource)
        _put(member, kind, resource, scaled(resource, amount, by=goal, over=limit)[0])


def _amount(member: _Member, kind: str, resource: str) -> Quantity:
    return at(member.container.requests if member.lists is None else member.lists[kind], resource)


def _limit(member: _Member, resource: str, amount: Quantity, default: Quantity) -> Quantity | None:
    container = member.container
    if member.keeps_limit:
        return at(container.limits, resource)
    limit, request = at(container.limits, resource), at(container.requests, resource)
    return proportional(resource, limit, request, amount, default)[0]


def _put(member: _Member, kind: str, resource: str, amount: Quantity) -> None:
    amounts = None if member.lists is None else member.lists[kind]
    if amounts is None:
        name = member.container.name
        raise UnscalableError(
            f"the pod's LimitRange asks to scale {resource} of container '{name}', for which nothing is recommended"
        )
    amounts[resource] = amount
