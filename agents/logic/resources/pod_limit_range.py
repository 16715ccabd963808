"""A LimitRange on whole pods, shared out: all amounts of a pod are scaled alike until their limits sum to what it allows.

Limits that stay as they are count, and nothing is scaled for their sake. Source: applyPodLimitRange in upstream's
pkg/utils/vpa/capping.go. Like it, this fails where an amount has no list to go into.
One thing differs: memory that scales to less than a byte becomes 0 here and -1 there.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agents.logic.resources.container_limit_range import Range
from agents.logic.resources.limit_proportion import UnscalableError, proportional, scaled
from agents.logic.resources.resource_lists import CPU, MEMORY, Advice, Container, at
from schemas import exact_quantity
from schemas.exact_quantity import Quantity

Lists = dict[str, dict[str, Quantity] | None]
"""Lists of amounts by kind: upper, target, lower."""

ORDER = tuple((kind, resource) for kind in ("upper", "target", "lower") for resource in (CPU, MEMORY))


@dataclass(frozen=True, slots=True)
class _Member:
    """A container of the pod, and its recommendation if it has one."""

    container: Container
    lists: Lists | None
    keeps_limit: bool = False


def fit(
    advice: Sequence[Advice],
    containers: Sequence[Container],
    allowed: Range,
    kept: Collection[str] = (),
    *,
    upstream: bool = True,
) -> list[Advice]:
    """The scaled advice; the limits of the containers in `kept` stay as they are."""
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
