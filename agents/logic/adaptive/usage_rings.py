"""What is kept of a container's memory when an hour is over: the highest use of hours and days, and moving means of it.

A ring has the last hours or days of each container, each at the place of its number, NaN where nothing was seen.
"""

import numpy as np
from numpy.typing import NDArray

from agents.logic.vertical.policy_code import PolicyState

F4 = np.float32
Singles = NDArray[np.floating]
"""Numbers in half the size; a container's experts have hundreds."""
Wholes = NDArray[np.signedinteger]


def put(ring: Singles, before: Wholes, now: Wholes, highest: Singles) -> Singles:
    """(n, size) A ring in which `highest` stands for the hour or day `before`, and holes for those between it and `now`."""
    size, rows, ring = ring.shape[1], np.arange(len(ring)), ring.copy()
    ring[rows, before % size] = highest
    for gap in range(1, min(int((now - before).max()), size)):
        missed = np.flatnonzero(before + gap < now)
        ring[missed, (before[missed] + gap) % size] = np.nan
    # After a gap longer than the ring, all of it is older than it may be, and so is `highest`.
    ring[now - before > size] = np.nan
    return ring


HOUR = 12.0
"""The weight of an hour."""
SEASON = 0.15
"""How far the profile of a day falls towards a lower day."""
LEAK_HALF_LIFE = 6.0
"""Hours in which the part of a peak above the mean halves."""
DAY, HOURS, DAYS = 24, 6, 4
"""Hours of a day; hours and days whose highest use is kept."""


def turn_hour(state: PolicyState, hour: Wholes) -> None:
    """Put the hour that is over into rings, moving means and the percentile."""
    before, highest = state.whole("memory_hour"), state["memory_highest"]
    rows = np.arange(len(state))
    season, last_hour = state["memory_season"].copy(), state["memory_hours"][rows, (before - 1) % HOURS]
    state["memory_hours"] = put(state["memory_hours"], before, hour, highest)
    last = season[rows, before % DAY]
    # A higher day counts at once and a lower one slowly: what is too low kills.
    season[rows, before % DAY] = np.where(np.isnan(last), highest, np.maximum(highest, last + F4(SEASON) * (highest - last)))
    day, today = before // DAY, hour // DAY
    day_highest = np.maximum(state["memory_day_highest"], highest)
    state["memory_days"] = put(state["memory_days"], day, today, day_highest)
    state["memory_season"] = season
    state["memory_day_highest"] = np.where(today != day, 0, day_highest)
    _move_means(state, hour - before, highest, last_hour)
    state["memory_hour"] = hour
    for column in ("memory_highest", "memory_sum", "memory_weight", "memory_guard_sum", "memory_base_sums", "memory_needed"):
        state[column] = 0


def _move_means(state: PolicyState, passed: Wholes, highest: Singles, last_hour: Singles) -> None:
    weight = state["memory_weight"]
    used = state["memory_sum"] / np.maximum(weight, F4(1e-6))
    part = 1 - np.exp2(-weight / F4(12 * HOUR))
    mean = state["memory_mean"] + part * (used - state["memory_mean"])
    state["memory_mean"] = mean
    age = state["memory_age"] + weight
    # The plain mean at first, until its share falls below that of the moving mean.
    share = np.maximum(1 - np.exp2(-weight / F4(72 * HOUR)), weight / np.maximum(age, F4(1e-6)))
    state["memory_scale"], state["memory_age"] = state["memory_scale"] + share * (used - state["memory_scale"]), age
    fade = np.exp2(-passed.astype(F4) / F4(LEAK_HALF_LIFE))
    state["memory_leak"] = np.maximum(highest, mean + np.maximum(state["memory_leak"] - mean, 0) * fade)
    ratio = np.abs(np.log(np.maximum(highest, 1) / np.maximum(last_hour, 1)))
    volatility = state["memory_volatility"]
    # -1 stands for no hour yet, so the first ratio is taken whole.
    moved = np.where(volatility < 0, ratio, volatility + F4(0.04) * (ratio - volatility))
    state["memory_volatility"] = np.where(np.isnan(ratio), volatility, moved)
