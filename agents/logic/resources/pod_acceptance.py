"""What the API server would object to in the CPU and memory of a pod, and by how much.

A pod is judged against another one: what it was before. So a change is only refused for what it makes worse, and whatever was
accepted before stays accepted. Sources in Kubernetes 1.36: ValidateContainerResourceRequirements and
validatePodResourceConsistency in pkg/apis/core/validation, PodValidateLimitFunc in plugin/pkg/admission/limitranger; the rules of
quotas stand in quota_admission.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.logic.resources import pod_resources, quota_admission
from agents.logic.resources.container_limit_range import NONE, Range, Ranges
from agents.logic.resources.pod_resources import PodResources, Sums
from agents.logic.resources.quota_admission import Excess, QuotaPod, Rule
from agents.logic.resources.resource_lists import CPU, MEMORY, Container, Resources
from schemas import exact_quantity
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
            why = f"{resource} request {request.text} of container '{container.name}' is above its limit {limit.text}"
            yield ("limit", str(index), resource), Excess(request.nano - limit.nano, why)
        if limit is not None and own is not None and limit.nano > own.nano:
            why = f"{resource} limit {limit.text} of container '{container.name}' is above {own.text}, the pod's own limit"
            yield ("own limit", str(index), resource), Excess(limit.nano - own.nano, why)


def _of_sums(pod: PodResources) -> Iterator[tuple[Rule, Excess]]:
    """What the containers request together is within what the pod itself requests."""
    total = pod_resources.requested(pod, own=False)
    for resource, own in (pod.requests or {}).items():
        if total.get(resource, 0) > own.nano:
            asked = exact_quantity.of_nano(total[resource]).text
            why = f"the containers' {resource} requests of {asked} are above {own.text}, the pod's own request"
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
                yield from _beyond((where[0], "least", rule), by, f"{rule} of {where[1]} is below {least.text}, {_RANGE} {kind}")
            if most is not None and (amount is not None or word == "limit"):
                by = _milli(amount) - _milli(most.nano) if amount is not None else _ABSENT
                yield from _beyond((where[0], "most", rule), by, f"{rule} of {where[1]} is above {most.text}, {_RANGE} {kind}")
        ratio = bounding.ratios.get(resource)
        if ratio is not None:
            by = _beyond_ratio(requests.get(resource), limits.get(resource), ratio)
            why = f"the {resource} limit of {where[1]} is more than {ratio:g} times its request, {_RANGE} {kind}"
            yield from _beyond((where[0], "ratio", resource), by, why)


_RANGE = "the bound of the namespace's LimitRange for"


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
