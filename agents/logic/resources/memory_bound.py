"""What keeps a container that is OOM-killed again and again from getting more memory, for guards and for conditions."""

from dataclasses import dataclass

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues
from schemas.units import Bytes, bytes_text

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
