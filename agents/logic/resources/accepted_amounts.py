"""As much of the wanted amounts as the API server accepts.

If it would refuse a pod with all of them, each resource goes as far from what the pod has to what is wanted as it can, in one
proportion for all containers. What cannot be changed at all is left as it is. So a pod that would have been accepted without the
patch is accepted with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agents.logic.resources import pod_acceptance
from agents.logic.resources.pod_acceptance import Rules
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.resources.resource_lists import CPU, MEMORY, Resources
from schemas import exact_quantity
from schemas.exact_quantity import MOST, Form, Quantity

PARTLY: Final = "is changed only in part"
"""What the annotation of a pod says of such a resource; asked again, the patch would go a part of the rest."""

# A 64th of the way is found in six halvings, each of which judges the whole pod.
_WHOLE = 64
_NANO, _MILLI = 10**9, 10**6
SetAmounts = tuple[Resources, Resources]
"""Requests and limits of a container."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What to set for each container; `held` says of each resource that is not changed as wanted why, in words."""

    amounts: tuple[SetAmounts, ...]
    held: Mapping[str, str]


def fit(pod: QuotaPod, wanted: Sequence[SetAmounts], rules: Callable[[bool], Rules]) -> Accepted:
    """The accepted part of what is wanted for each container of a pod, in order.

    `rules` gives those of the namespace; it is asked for all of them, quotas included, only if the pod is to ask for more.
    """
    all_of_it = {CPU: _WHOLE, MEMORY: _WHOLE}
    # A pod that asks for no more than before fits into each quota that it fitted into, so that none has to be looked up.
    namespace_rules = rules(_grows(pod, wanted))
    fault = pod_acceptance.worse(pod, _with(pod, wanted, all_of_it), namespace_rules)
    if fault is None:
        return Accepted(tuple(wanted), {})
    # Shares of a LimitRange on pods are whole bytes, rounded down, so that their sum may be a few bytes short of its least
    # amount.
    rounded = _rounded_up(wanted)
    if pod_acceptance.worse(pod, _with(pod, rounded, all_of_it), namespace_rules) is None:
        return Accepted(tuple(rounded), {})
    shares, held = {}, {}
    for resource in (CPU, MEMORY):
        shares[resource], why = _share(pod, wanted, resource, namespace_rules)
        if why is not None:
            held[resource] = f"{resource} {PARTLY if shares[resource] else 'is left as it is'}: {why}"
    # Each share was judged by itself. Together they may still be refused.
    fault = pod_acceptance.worse(pod, _with(pod, wanted, shares), namespace_rules)
    if fault is not None:
        shares = dict.fromkeys(shares, 0)
        held = {resource: f"{resource} is left as it is: {fault}" for resource in shares}
    return Accepted(tuple(_parts(pod, wanted, shares)), held)


def _share(pod: QuotaPod, wanted: Sequence[SetAmounts], resource: str, rules: Rules) -> tuple[int, str | None]:
    """How many 64ths of the way a resource can go by itself, and why no further."""
    fault = pod_acceptance.worse(pod, _with(pod, wanted, {resource: _WHOLE}), rules)
    if fault is None:
        return _WHOLE, None
    low, high = 0, _WHOLE
    while high - low > 1:
        middle = (low + high) // 2
        refused = pod_acceptance.worse(pod, _with(pod, wanted, {resource: middle}), rules)
        if refused is None:
            low = middle
        else:
            high, fault = middle, refused
    return low, fault


def _rounded_up(wanted: Sequence[SetAmounts]) -> list[SetAmounts]:
    """The same with a byte more of memory in each container."""
    return [(_one_more(requests), _one_more(limits)) for requests, limits in wanted]


def _one_more(amounts: Resources) -> Resources:
    memory = amounts.get(MEMORY)
    if memory is None or not 0 < memory.whole < MOST:
        return amounts
    return {**amounts, MEMORY: exact_quantity.of_whole(memory.whole + 1, memory.form)}


def _grows(pod: QuotaPod, wanted: Sequence[SetAmounts]) -> bool:
    """Whether any amount becomes larger, or is set where none was."""
    for container, lists in zip(pod.resources.containers, wanted, strict=True):
        for present, amounts in zip((container.requests, container.limits), lists, strict=True):
            if any(name not in (present or {}) or amount.nano > (present or {})[name].nano for name, amount in amounts.items()):
                return True
    return False


def _with(pod: QuotaPod, wanted: Sequence[SetAmounts], shares: Mapping[str, int]) -> QuotaPod:
    """The pod with so many 64ths of each change."""
    containers = tuple(
        replace(
            container,
            requests=_set(container.requests, requests),
            limits=_set(container.limits, limits),
        )
        for container, (requests, limits) in zip(pod.resources.containers, _parts(pod, wanted, shares), strict=True)
    )
    return replace(pod, resources=replace(pod.resources, containers=containers))


def _set(present: Resources | None, amounts: Resources) -> Resources | None:
    return {**(present or {}), **amounts} if amounts else present


def _parts(pod: QuotaPod, wanted: Sequence[SetAmounts], shares: Mapping[str, int]) -> list[SetAmounts]:
    parts: list[SetAmounts] = []
    for container, (requests, limits) in zip(pod.resources.containers, wanted, strict=True):
        parts.append((_part(container.requests or {}, requests, shares), _part(container.limits or {}, limits, shares)))
    return parts


def _part(present: Resources, wanted: Resources, shares: Mapping[str, int]) -> dict[str, Quantity]:
    """So many 64ths of the way from the present amounts, or from nothing."""
    return {
        name: _between(name, present.get(name), amount, share)
        for name, amount in wanted.items()
        if (share := shares.get(name, 0))
    }  # fmt: skip


def _between(resource: str, present: Quantity | None, wanted: Quantity, share: int) -> Quantity:
    if share == _WHOLE:
        return wanted
    start = 0 if present is None else present.nano
    nano = start + (wanted.nano - start) * share // _WHOLE
    if resource == MEMORY:
        return exact_quantity.of_whole(nano // _NANO, Form.BINARY)
    return exact_quantity.of_milli(nano // _MILLI)
