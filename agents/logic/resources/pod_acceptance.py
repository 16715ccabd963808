"""What the API server would object to in the CPU and memory of a pod, and by how much.

A pod is judged against another one: what it was before. So a change is only refused for what it makes worse, and whatever was
accepted before stays accepted. Sources in Kubernetes 1.36: ValidateContainerResourceRequirements and
validatePodResourceConsistency in pkg/apis/core/validation, PodValidateLimitFunc in plugin/pkg/admission/limitranger; the rules of
quotas stand in quota_admission.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agents.logic.resources import pod_resources, quota_admission
from agents.logic.resources.limit_ranges import NONE, Range, Ranges
from agents.logic.resources.pod_resources import PodResources, Sums
from agents.logic.resources.quota_admission import Excess, QuotaPod, Rule
from agents.logic.resources.resource_lists import CPU, MEMORY, Container, Resources, in_words
from schemas import exact_quantity
from schemas.exact_quantity import MOST, Form, Quantity
from schemas.facts.update_facts import ResourceQuotaChanged

_MILLI = 10**6
_ABSENT = 10**30
"""The excess of an amount that is missing or zero where there must be one."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds of a namespace. `coming`: how many pods its controller still wants, this one among them."""

    ranges: Ranges = NONE
    quotas: Sequence[ResourceQuotaChanged] = ()
    coming: int = 1


def worse(before: QuotaPod, after: QuotaPod, rules: Rules) -> str | None:
    """What the API server would object to in `after` that it would not have in `before`, as a clause; None if nothing."""
    old: Mapping[Rule, Excess] | None = None
    for rule, excess in _excesses(after, rules).items():
        # Most pods break no rule, and then what they were before does not matter.
        if old is None:
            old = _excesses(before, rules)
        if excess.by > (old[rule].by if rule in old else 0):
            return excess.why
    return None


def _excesses(pod: QuotaPod, rules: Rules) -> dict[Rule, Excess]:
    excesses: dict[Rule, Excess] = {}
    for rule, excess in _all(pod, rules):
        if rule not in excesses or excess.by > excesses[rule].by:
            excesses[rule] = excess
    return excesses


def _all(pod: QuotaPod, rules: Rules) -> Iterator[tuple[Rule, Excess]]:
    resources = pod.resources
    for index, container in enumerate(resources.containers):
        yield from _of_container(index, container, resources.limits or {})
        if rules.ranges.container is not None:
            requests, limits = (pod_resources.nano(amounts) for amounts in (container.requests, container.limits))
            where = (f"container {index}", f"container '{container.name}'")
            yield from _of_range(where, "containers", rules.ranges.container, requests, limits)
    if resources.requests:
        yield from _of_sums(resources)
    if rules.ranges.pod is not None:
        # PodValidateLimitFunc sums the spec up without its overhead.
        bare = PodResources(resources.containers, resources.init, resources.requests, resources.limits)
        requested, limited = pod_resources.requested(bare), pod_resources.limited(bare)
        yield from _of_range(("pod", "the pod"), "pods", rules.ranges.pod, requested, limited)
    for quota in rules.quotas:
        yield from quota_admission.excesses(quota, pod, times=rules.coming)


def _of_container(index: int, container: Container, most: Resources) -> Iterator[tuple[Rule, Excess]]:
    """A request is within its limit, and a limit within the pod's own."""
    limits = container.limits or {}
    for resource in (CPU, MEMORY):
        request, limit, own = ((amounts or {}).get(resource) for amounts in (container.requests, limits, most))
        if request is not None and limit is not None and request.nano > limit.nano:
            asked, most_text = in_words(resource, request.nano, limit.nano)
            why = f"{resource} request {asked} of container '{container.name}' is above its limit {most_text}"
            yield ("limit", str(index), resource), Excess(request.nano - limit.nano, why)
        if limit is not None and own is not None and limit.nano > own.nano:
            asked, most_text = in_words(resource, limit.nano, own.nano)
            why = f"{resource} limit {asked} of container '{container.name}' is above {most_text}, the pod's own limit"
            yield ("own limit", str(index), resource), Excess(limit.nano - own.nano, why)


def _of_sums(pod: PodResources) -> Iterator[tuple[Rule, Excess]]:
    """What the containers request together is within what the pod itself requests."""
    total = pod_resources.requested(pod, own=False)
    for resource, own in (pod.requests or {}).items():
        if total.get(resource, 0) > own.nano:
            asked, most = in_words(resource, total[resource], own.nano)
            why = f"the containers' {resource} requests of {asked} are above {most}, the pod's own request"
            yield ("own request", resource), Excess(total[resource] - own.nano, why)


def _of_range(where: tuple[str, str], kind: str, bounding: Range, requests: Sums, limits: Sums) -> Iterator[tuple[Rule, Excess]]:
    """Requests and limits are within a LimitRange, in thousandths as the API server compares them; what it bounds must be set."""
    for resource in (CPU, MEMORY):
        both = [(word, amounts.get(resource)) for word, amounts in (("request", requests), ("limit", limits))]
        least, most = ((bounds or {}).get(resource) for bounds in (bounding.least, bounding.most))
        # A least amount demands a request and a most amount a limit, as minConstraint and maxConstraint have it.
        for word, amount in both:
            rule = f"{resource} {word}"
            if least is not None and (amount is not None or word == "request"):
                by = _milli(least.nano) - _milli(amount) if amount is not None else _ABSENT
                why = f"{rule} of {where[1]} is below {_bound(resource, least, kind)}"
                yield from _beyond((where[0], "least", rule), by, why)
            if most is not None and (amount is not None or word == "limit"):
                by = _milli(amount) - _milli(most.nano) if amount is not None else _ABSENT
                why = f"{rule} of {where[1]} is above {_bound(resource, most, kind)}"
                yield from _beyond((where[0], "most", rule), by, why)
        ratio = bounding.ratios.get(resource)
        if ratio is not None:
            by = _beyond_ratio(requests.get(resource), limits.get(resource), ratio)
            why = f"the {resource} limit of {where[1]} is more than {ratio:g} times its request, {_RANGE} {kind}"
            yield from _beyond((where[0], "ratio", resource), by, why)


_RANGE = "the bound of the namespace's LimitRange for"


def _bound(resource: str, bound: Quantity, kind: str) -> str:
    return f"{in_words(resource, bound.nano)[0]}, {_RANGE} {kind}"


def _beyond(rule: Rule, by: int, why: str) -> Iterator[tuple[Rule, Excess]]:
    if by > 0:
        yield rule, Excess(by, why)


def _beyond_ratio(request: int | None, limit: int | None, most: float) -> int:
    """By how many billionths the ratio of limit to request is too large."""
    if not request or not limit:
        return _ABSENT
    # limitRequestRatioConstraint computes in floats, too.
    ratio = _milli(limit) / _milli(request) * 1000
    return round((ratio - most * 1000) * _MILLI) if ratio > most * 1000 else 0


def _milli(nano: int) -> int:
    """Thousandths, rounded up."""
    return -(-nano // _MILLI)


PARTLY: Final = "is changed only in part"
"""What the annotation of a pod says of such a resource; asked again, the patch would go a part of the rest."""

# A 64th of the way is found in six halvings, each of which judges the whole pod.
_WHOLE = 64
_NANO = 10**9
SetAmounts = tuple[Resources, Resources]
"""Requests and limits of a container."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What to set for each container; `held` says of each resource that is not changed as wanted why, in words."""

    amounts: tuple[SetAmounts, ...]
    held: Mapping[str, str]


def accepted(pod: QuotaPod, wanted: Sequence[SetAmounts], rules: Callable[[bool], Rules]) -> Accepted:
    """As much of what is wanted for each container of a pod, in order, as the API server accepts.

    If it would refuse a pod with all of it, each resource goes as far from what the pod has as it can, in one proportion for all
    containers; what cannot be changed at all is left as it is. So whatever was accepted without the patch is accepted with it.

    `rules` gives those of the namespace; it is asked for all of them, quotas included, only if the pod is to ask for more.
    """
    all_of_it = {CPU: _WHOLE, MEMORY: _WHOLE}
    # A pod that asks for no more than before fits into each quota that it fitted into, so that none has to be looked up.
    namespace_rules = rules(_grows(pod, wanted))
    fault = worse(pod, _with(pod, wanted, all_of_it), namespace_rules)
    if fault is None:
        return Accepted(tuple(wanted), {})
    # Shares of a LimitRange on pods are whole bytes, rounded down, so that their sum may be a few bytes short of its least
    # amount.
    rounded = [(_one_more(requests), _one_more(limits)) for requests, limits in wanted]
    if worse(pod, _with(pod, rounded, all_of_it), namespace_rules) is None:
        return Accepted(tuple(rounded), {})
    held: dict[str, str] = {}
    # Both go together first: a quota may demand that a pod with one of them states the other, too.
    both, _ = _share(pod, wanted, {CPU: 0, MEMORY: 0}, (CPU, MEMORY), namespace_rules)
    shares = {CPU: both, MEMORY: both}
    for resource in (CPU, MEMORY):
        shares[resource], why = _share(pod, wanted, shares, (resource,), namespace_rules)
        if why is not None:
            held[resource] = f"{resource} {PARTLY if shares[resource] else 'is left as it is'}: {why}"
    return Accepted(tuple(_parts(pod, wanted, shares)), held)


def _share(
    pod: QuotaPod, wanted: Sequence[SetAmounts], shares: Mapping[str, int], further: Sequence[str], rules: Rules
) -> tuple[int, str | None]:
    """How many 64ths of the way these resources can go from accepted `shares` of all, and why no further."""

    def refusal(share: int) -> str | None:
        return worse(pod, _with(pod, wanted, {**shares, **dict.fromkeys(further, share)}), rules)

    fault = refusal(_WHOLE)
    if fault is None:
        return _WHOLE, None
    low, high = shares[further[0]], _WHOLE
    while high - low > 1:
        middle = (low + high) // 2
        refused = refusal(middle)
        if refused is None:
            low = middle
        else:
            high, fault = middle, refused
    return low, fault


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
