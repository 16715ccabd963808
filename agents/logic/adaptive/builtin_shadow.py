"""The built-in estimator beside `adaptive`: the memory it would have in force, and the kills that it would have had.

Its request is followed by the thresholds of upstream's updater, and judged by the same samples as ours. Each kill under it makes
a kill of ours cheaper.
"""

import numpy as np

from agents.engine.tables.row_table import Floats
from agents.logic.adaptive.usage_rings import F4
from agents.logic.vertical.policy_code import PolicyState, RecommendedColumns

GAIN = 0.3
"""How much the logarithm of the price factor rises with a kill of ours."""
LEAST_FACTOR, MOST_FACTOR = 0.3, 16.0
OLD, FAR = 43_200.0, 0.1
"""Seconds after which upstream's updater changes a request within its bounds, and the share that it must be off."""
LEAST_RAISE = 100 * 2.0**20
"""Bytes that a request is raised by at least after a kill."""


def follow(state: PolicyState, at: Floats, builtin: RecommendedColumns) -> None:
    """The built-in estimator's request in force, by the updater's thresholds: outside its bounds, or old and 10 % off."""
    # Otherwise it would be credited with requests that no updater would ever have set.
    before, since = state["memory_builtin"], state["memory_builtin_since"]
    target = builtin.target_memory
    outside = (before < builtin.lower_memory) | (before > builtin.upper_memory)
    old = (at - since >= OLD) & (np.abs(target - before) >= FAR * before)
    moves = np.isnan(before) | outside | old
    state["memory_builtin"] = np.where(moves, target, before)
    state["memory_builtin_since"] = np.where(moves, at, since)


def killed(state: PolicyState, risk: Floats) -> None:
    """The built-in estimator's request would have been the end: the price of a kill of ours falls."""
    before = state["memory_builtin"]
    # Upstream's bump after an OOM kill: 20 %, and at least 100 MiB.
    state["memory_builtin"] = np.maximum(before * F4(1.2), before + F4(LEAST_RAISE))
    state["memory_builtin_kills"] = state["memory_builtin_kills"] + 1
    # Each kill that it would have had allows us `risk` kills: price up GAIN with ours, down GAIN times risk with its own.
    state["memory_factor"] = np.maximum(state["memory_factor"] * np.exp(-F4(GAIN) * risk.astype(F4)), F4(LEAST_FACTOR))
