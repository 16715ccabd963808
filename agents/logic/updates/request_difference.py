"""How far a pod's requests are from its recommendation, by upstream's sums (pkg/updater/priority, GetUpdatePriority)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """`outside`: a request lies outside its bounds, or is missing. `scale_up`: a target is above its request, or that is missing.

    `share` is the sum over resources of |request - target| / request, requests and targets summed over containers first.
    """

    outside: bool
    scale_up: bool
    share: float


@dataclass(slots=True)
class _Sum:
    requested: int = 0
    recommended: int = 0


def difference(containers: Iterable[ContainerSeen], recommended: Mapping[str, ContainerRecommendation]) -> RequestDifference:
    """Compare what a pod's containers request with what is recommended for those of them that have a recommendation."""
    outside = scale_up = False
    sums = {"cpu": _Sum(), "memory": _Sum()}
    for seen in containers:
        wanted = recommended.get(seen.name)
        if wanted is None:
            continue
        for resource, total in sums.items():
            request, target = milli(seen.requests, resource), milli(wanted.target, resource)
            if target is None:
                continue
            total.recommended += target
            if request is None:
                outside = scale_up = True
                continue
            total.requested += request
            scale_up |= target > request
            low, high = milli(wanted.lower, resource), milli(wanted.upper, resource)
            outside |= (low is not None and request < low) or (high is not None and request > high)
    share = sum(abs(max(s.requested, 1) - s.recommended) / max(s.requested, 1) for s in sums.values() if s.recommended)
    return RequestDifference(outside, scale_up, share)


def milli(amounts: Amounts, resource: str) -> int | None:
    """An amount in whole thousandths of its unit, as upstream compares; None if not set."""
    value: float | None = getattr(amounts, resource)
    return None if value is None else round(value * 1000)
