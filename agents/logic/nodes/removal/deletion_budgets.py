"""How many nodes may go at once: numbers of empty ones and of ones that must be drained, with what is on its way counted in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeletionParallelism:
    """Most deletions at once, and most of them that drain a node. Source: max-scale-down-parallelism, max-drain-parallelism."""

    total: int = 10
    drain: int = 1


@dataclass(frozen=True, slots=True)
class RunningDeletions:
    """Deletions on their way."""

    empty: int = 0
    drain: int = 0


def crop(
    empty: Sequence[str], drain: Sequence[str], most: DeletionParallelism, running: RunningDeletions
) -> tuple[list[str], list[str]]:
    """The first of the empty and of the draining nodes that the budget leaves; empty ones go first.

    Source: CropNodesToBudgets in core/scaledown/budgets.
    """
    # More may be on their way than there may be now, after the setting was lowered.
    total = max(most.total - running.empty - running.drain, 0)
    chosen = list(empty[:total])
    draining = max(min(total - len(chosen), most.drain - running.drain), 0)
    return chosen, list(drain[:draining])


def unneeded(previous: int, parallelism: int, unneeded_time: float, interval: float) -> int:
    """How many unneeded nodes are worth looking for, so that enough are ripe when their time has come.

    `interval`: the shortest time between two looks. Source: unneededNodesLimit in core/scaledown/planner.
    """
    looks = math.floor(max(unneeded_time, interval) / interval) if interval > 0 else 1
    return min(previous + 2 * parallelism, parallelism * looks + parallelism)
