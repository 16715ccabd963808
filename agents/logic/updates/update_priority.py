"""Which of a VPA's pods to update, and in which order: upstream's pkg/updater/priority, in exact amounts.

A container that admission has not seen (it was injected later) is left out of everything.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import product

from agents.logic.resources.resource_lists import CPU, MEMORY, Advice, Container
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class UpdateReason(StrEnum):
    """Why a pod is to be updated."""

    OUTSIDE = "outside its bounds"
    QUICK_OOM = "quick OOM"
    OOM = "OOM kill"
    OLD = "old enough and far from its target"
    REVERT = "to be as it was before"
    BOOST_OVER = "its startup boost has ended"


@dataclass(frozen=True, slots=True)
class UpdatePriority:
    """How far a pod is from its recommendation.

    `difference` is the sum over resources of |request - target| / request, where both were summed over the containers first.
    """

    outside: bool = False
    scale_up: bool = False
    difference: float = 0.0

    @property
    def rank(self) -> tuple[bool, float]:
        """What to sort by, first things first: who wants more, then who is further off."""
        return not self.scale_up, -self.difference


@dataclass(frozen=True, slots=True)
class RecentOomKill:
    """The last OOM kill of a container: how long it had run, and how long ago that was."""

    container: str
    ran: timedelta
    ago: timedelta


@dataclass(frozen=True, slots=True)
class UpdateThresholds:
    """Upstream's flags: a smaller difference, and a younger pod, is left alone within its bounds; a quick kill is quicker."""

    difference: float = 0.1
    age: timedelta = timedelta(hours=12)
    quick: timedelta = timedelta(minutes=10)


def observed(annotation: str | None) -> frozenset[str] | None:
    """The containers that admission saw; None if that is not noted, or in an unknown form."""
    if annotation is None:
        return None
    names = annotation.split(", ") if annotation else []
    return frozenset(names) if all(_LABEL.fullmatch(name) for name in names) else None


def priority(containers: Iterable[Container], advice: Sequence[Advice], seen: Collection[str] | None = None) -> UpdatePriority:
    """The priority, over the containers that have advice and that admission saw."""
    outside = scale_up = False
    requested: dict[str, int] = {}
    recommended: dict[str, int] = {}
    for container in containers:
        advised = advice_for(container.name, advice)
        if advised is None or (seen is not None and container.name not in seen):
            continue
        lower, upper = advised.lower or {}, advised.upper or {}
        for resource, target in (advised.target or {}).items():
            recommended[resource] = recommended.get(resource, 0) + target.milli
            request = (container.requests or {}).get(resource)
            if request is None:
                outside = scale_up = True
                continue
            requested[resource] = requested.get(resource, 0) + request.milli
            scale_up |= target.milli > request.milli
            outside |= resource in lower and request.nano < lower[resource].nano
            outside |= resource in upper and request.nano > upper[resource].nano
    # At least 1, because a pod may request nothing of a resource.
    shares = (_share(max(requested.get(resource, 0), 1), amount) for resource, amount in recommended.items())
    return UpdatePriority(outside, scale_up, sum(shares))


def quick_kill(kills: Iterable[RecentOomKill], quick: timedelta, counts: Callable[[str], bool]) -> bool:
    """Whether a container that counts was killed soon after its start, and not long ago."""
    return any(kill.ran < quick and kill.ago < quick for kill in kills if counts(kill.container))


def reasons(pod: UpdatePriority, *, age: timedelta | None, quick: bool, thresholds: UpdateThresholds) -> tuple[UpdateReason, ...]:
    """Why a pod is to be updated; empty if it is not. `age`: since its start; None if it has not started."""
    # As upstream: a kill of a pod that has all that is recommended changes nothing, not even one that is out of its bounds.
    if quick and pod.difference == 0:
        return ()
    old = age is not None and age >= thresholds.age and pod.difference >= thresholds.difference
    return _REASONS[pod.outside, quick, old]


# Made once, because each pod is asked in each interval.
_REASONS = {
    held: tuple(
        reason
        for reason, holds in zip((UpdateReason.OUTSIDE, UpdateReason.QUICK_OOM, UpdateReason.OLD), held, strict=True)
        if holds
    )
    for held in product((False, True), repeat=3)
}


def admitted(containers: Iterable[Container], advice: Sequence[Advice], requirements: Sequence[EvictionRequirement]) -> bool:
    """Whether one container with advice has a request missing, or meets all requirements."""
    for container in containers:
        advised = advice_for(container.name, advice)
        if advised is None:
            continue
        requests = container.requests or {}
        if not {CPU, MEMORY} <= requests.keys() or all(_meets(container, advised, requirement) for requirement in requirements):
            return True
    return False


def advice_for(container: str, advice: Iterable[Advice]) -> Advice | None:
    """The first advice for a container."""
    return next((advised for advised in advice if advised.container == container), None)


def _share(requested: int, recommended: int) -> float:
    return abs(requested - recommended) / requested


def _meets(container: Container, advised: Advice, requirement: EvictionRequirement) -> bool:
    """Whether any of its resources is to change the required way."""
    for resource in requirement.resources:
        request, target = (amounts.get(resource) for amounts in (container.requests or {}, advised.target or {}))
        change = (target.milli if target else 0) - (request.milli if request else 0)
        if change > 0 and requirement.change is ChangeRequirement.HIGHER:
            return True
        if change < 0 and requirement.change is ChangeRequirement.LOWER:
            return True
    return False
