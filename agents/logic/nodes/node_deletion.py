"""How a node goes: the steps in their order, whom to evict when, and how much time each pod gets.

The consumer carries the steps out, each only after the one before it was done; whatever fails, the taint and the cordon go again.
Source: core/scaledown/actuation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.logic.nodes.pod_scheduling_needs import DEFAULT_GRACE, SchedulablePod


class DeletionStep(StrEnum):
    """What is done with a node that goes."""

    TAINT = "taint"
    CORDON = "cordon"
    WAIT = "wait"
    CHECK = "check"
    EVICT = "evict"
    WAIT_GONE = "wait-gone"
    HOOKS = "hooks"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class DeletionSettings:
    """Seconds, and whether nodes are cordoned. Upstream's defaults."""

    cordon: bool = True
    delay: float = 5.0
    longest_grace: float = 600.0
    eviction: float = 120.0
    gone_margin: float = 30.0
    hooks: float = 120.0
    batch: float = 0.0


@dataclass(frozen=True, slots=True)
class EvictionWave:
    """Pods that are evicted together, and the most seconds that each of them gets."""

    priority: int
    grace: float
    pods: tuple[SchedulablePod, ...]


def steps(*, empty: bool, settings: DeletionSettings) -> tuple[DeletionStep, ...]:
    """The steps in their order. An empty node is checked again before it goes: it may have been given a pod meanwhile."""
    first = (DeletionStep.TAINT, DeletionStep.CORDON) if settings.cordon else (DeletionStep.TAINT,)
    drained = () if empty else (DeletionStep.EVICT, DeletionStep.WAIT_GONE)
    return (*first, DeletionStep.WAIT, DeletionStep.CHECK, *drained, DeletionStep.HOOKS, DeletionStep.TERMINATE)


def grace(pod: SchedulablePod, longest: float) -> float:
    """Seconds that an evicted pod gets: its own grace period, but no more than `longest`."""
    own = pod.nature.grace
    return min(DEFAULT_GRACE if own is None else own, longest)


def waves(pods: Sequence[SchedulablePod], graces: dict[int, float]) -> list[EvictionWave]:
    """Pods in the order of their eviction, by the priorities of a drain-priority configuration, lowest first.

    A pod belongs to the highest listed priority that is not above its own, or to the lowest if all are.
    Source: drain-priority-config in core/scaledown/actuation/priority.go.
    """
    listed = sorted(graces)
    found: dict[int, list[SchedulablePod]] = {}
    for pod in pods:
        own = pod.nature.priority or 0
        mine = max((one for one in listed if one <= own), default=listed[0])
        found.setdefault(mine, []).append(pod)
    return [EvictionWave(one, graces[one], tuple(found[one])) for one in listed if one in found]
