"""Keeps lower bound <= target <= upper bound, with the target as the reference.

Caps are put on each of the three by itself: a LimitRange on pods shares out the sums of lower bounds, of targets and of upper
bounds in three different ratios, and a node does the same. Then a target may lie outside its own bounds, and a pod that requests
exactly its target would be changed to what it has, for ever. Source: the rule of kubernetes/autoscaler#9935, for every cap.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agents.logic.resources.resource_lists import Advice, Resources
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from schemas.units import Bytes, Cores

A = TypeVar("A", Cores, Bytes)


def ordered(advice: Advice) -> Advice:
    """The advice with bounds that enclose its target; the same object if they do already."""
    lower, upper = _enclosing(advice.lower, advice.target, -1), _enclosing(advice.upper, advice.target, 1)
    return advice if lower is advice.lower and upper is advice.upper else replace(advice, lower=lower, upper=upper)


def ordered_container(given: ContainerRecommendation) -> ContainerRecommendation:
    """The same for a recommendation of the log."""
    # The recommender orders what it publishes, but a log may hold what an older program made.
    lower, target, upper = given.lower, given.target, given.upper
    least = Amounts(_outer(min, lower.cpu, target.cpu), _outer(min, lower.memory, target.memory))
    most = Amounts(_outer(max, upper.cpu, target.cpu), _outer(max, upper.memory, target.memory))
    return given if (least, most) == (lower, upper) else replace(given, lower=least, upper=most)


def _outer(which: Callable[[A, A], A], bound: A | None, target: A | None) -> A | None:
    return bound if bound is None or target is None else which(bound, target)


def order_columns(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for (n, 6) amounts: lower bound, target and upper bound of CPU, then of memory; in place. NaN stays NaN."""
    targets = amounts[:, 1::3]
    np.minimum(amounts[:, 0::3], targets, out=amounts[:, 0::3])
    np.maximum(amounts[:, 2::3], targets, out=amounts[:, 2::3])
    return amounts


def _enclosing(bound: Resources | None, target: Resources | None, side: int) -> Resources | None:
    """The bound, moved out to the target where it lies inside of it; `side` is -1 for a lower bound and 1 for an upper one."""
    wrong = {
        resource: amount
        for resource, amount in (target or {}).items()
        if bound is not None and resource in bound and (amount.nano - bound[resource].nano) * side > 0
    }
    return {**bound, **wrong} if bound is not None and wrong else bound
