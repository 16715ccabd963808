"""Merges the LimitRanges of a namespace into one, and derives the bounds on a container's requests from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.logic.resources import resource_lists
from agents.logic.resources.limit_proportion import boundary
from agents.logic.resources.resource_lists import CPU, MEMORY, Container, Resources, at
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
