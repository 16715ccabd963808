"""CPU by calibrated experts: rules for a request, each with a margin that learns to be exceeded as often as the risk allows.

Each expert proposes a request from what was used: a percentile, the highest of the last hours, a moving average, the same hour
of former days. Its margin falls a little with every sample, and rises with each one above its request, in the proportion in
which these may come. That is online conformal calibration (Gibbs and Candes, Adaptive Conformal Inference Under Distribution
Shift, 2021; Angelopoulos et al., Conformal PID Control for Time Series Prediction, 2023): over any N samples of five minutes an
expert is exceeded in at most `risk + (MOST - LEAST) / (STEP * N)` of the time, whatever the usage does. Of the experts that one
is followed which would have cost least lately, in requested cores and in time above them. The bound is loose in the first days,
so where the promise is nearly used up, only experts that kept it on the same samples are followed.

Weights of samples are in units of five minutes. Amounts are cores. Rings hold an hour of the day at its place, NaN for an hour
of which there is no sample.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.adaptive import usage_rings
from agents.logic.adaptive.usage_rings import F4, Singles, Wholes
from agents.logic.vertical.policy_code import PolicyState, SampleColumns, StateColumn

EXPERTS = (
    "90th percentile",
    "last sample",
    "highest of 1 h",
    "highest of 3 h",
    "highest of 6 h",
    "highest of 24 h",
    "98th percentile",
    "mean of 30 min",
    "mean and twice the deviation of 6 h",
    "same hour of former days",
    "same hour of former days, at the present level",
    "same hour of former days, or highest of 1 h",
    "same hour of yesterday, or highest of 1 h",
)
UNIT = 300.0
"""Seconds of a sample of weight 1."""
STEP = 0.02
"""How much a margin (its logarithm) rises with a sample above the request."""
FIRST, LEAST, MOST = 0.14, -0.7, 2.5
"""The logarithm of a margin at first, at least and at most."""
RAISE = 1.05
"""A request that use went above becomes this many times the use, at once."""
MEMORY = 288.0
"""Weight after which a cost counts half: a day."""
DEPTH, COUNT = 5.0, 2.5
"""What a core above the request costs, in requested cores, and what it costs that use is above it, in shares of the mean use."""
LEAST_SCALE = 0.01
"""Cores that the mean use counts as at least."""
LEAST_CPU = 0.001
"""Cores that are requested at least."""
KEEP = 0.97
"""The present expert's cost counts as so much of itself, so that like experts do not take turns."""
PERIOD = 900.0
"""Seconds after which requests are worked out again."""
WARM_UP = 48.0
"""Weight of samples until the experts are believed: four hours; until then the 90th percentile and its first margin hold."""
UP, DOWN = 1.07, 0.87
"""A request changes when the new one is beyond these parts of it: a change of a pod costs, if only calls of the API."""
HELD, EARLY = 0.9, 144.0
"""From so much of the promise on, only experts that kept it are followed, as each is for a PERIOD; and the weight (12 hours) that
every container counts as known for, so that its first minutes do not decide."""
SEASON = 0.35
"""Weight of the newest day in the profile of a day."""
LEVEL, FLOOR = 0.6, 0.005
"""How much of the present distance from the profile is believed, and the cores that both are raised by for it."""
_COUNT = len(EXPERTS)
_DAY = 24
_SHARE_MEMORY = 2016.0
"""Weight after which a sample counts half in the delivered share: a week."""

STATE = (
    StateColumn("cpu_hour", -1, kind=np.int32),
    StateColumn("cpu_highest", kind=F4),
    StateColumn("cpu_hours", np.nan, _DAY, F4),
    StateColumn("cpu_season", np.nan, _DAY, F4),
    StateColumn("cpu_mean_30m", kind=F4),
    StateColumn("cpu_mean_6h", kind=F4),
    StateColumn("cpu_deviation", kind=F4),
    StateColumn("cpu_scale", kind=F4),
    StateColumn("cpu_weight", kind=F4),
    StateColumn("cpu_unsettled", kind=F4),
    StateColumn("cpu_margin", FIRST, _COUNT, F4),
    StateColumn("cpu_request", np.inf, _COUNT, F4),
    StateColumn("cpu_cost", 0.0, _COUNT, F4),
    StateColumn("cpu_lowest", np.inf, kind=F4),
    StateColumn("cpu_applied", np.nan, kind=F4),
    StateColumn("cpu_expert", 0, kind=np.int16),
    StateColumn("cpu_due", -np.inf),
    StateColumn("cpu_short", kind=F4),
    StateColumn("cpu_seen", kind=F4),
    StateColumn("cpu_prior", np.nan, kind=F4),
    StateColumn("cpu_last", kind=F4),
    StateColumn("cpu_raised_by", kind=F4),
    StateColumn("cpu_proposed", np.nan, kind=F4),
    StateColumn("cpu_used_margin", np.nan, kind=F4),
    StateColumn("cpu_risk", np.nan, kind=F4),
    StateColumn("cpu_held", 0, kind=np.bool_),
)
"""What is remembered of each container."""


def observe(samples: SampleColumns, state: PolicyState) -> None:
    """Take in a sample of each container: score the experts, learn their margins, and raise or renew the request."""
    seen = samples.cpu >= 0.0
    if not seen.all():
        places = np.flatnonzero(seen)
        if len(places):
            _observe(samples, places, state.part(places))
        return
    _observe(samples, np.arange(len(state)), state)


def _observe(samples: SampleColumns, places: Indices, state: PolicyState) -> None:
    use, at = samples.cpu[places].astype(F4), samples.at[places]
    weight = (samples.seconds[places] / UNIT).astype(F4)
    hour = (at // 3600.0).astype(np.int32)
    new = state.whole("cpu_hour") < 0
    if new.any():
        _begin(state.part(new), hour[new], use[new])
    _count(state, use, weight)
    short = np.flatnonzero(use > state["cpu_lowest"])
    # Margins and costs of samples below every request follow from their weight alone, so they wait until a request is exceeded.
    if len(short):
        _exceeded(state.part(short), use[short], weight[short], samples.risk_cpu[places[short]])
    _turn_hour(state, hour)
    state["cpu_highest"] = np.maximum(state["cpu_highest"], use)
    _average(state, use, weight)
    applied = state["cpu_applied"]
    state["cpu_raised_by"] = np.where(use > applied, use, state["cpu_raised_by"])  # before `applied`, which is a view, changes
    state["cpu_applied"] = np.where(use > applied, use * F4(RAISE), applied)
    due = np.flatnonzero(at >= state["cpu_due"])
    if len(due):
        _renew(samples, places[due], state.part(due), use[due])


def _begin(state: PolicyState, hour: Wholes, use: Singles) -> None:
    state["cpu_hour"] = hour
    state["cpu_mean_30m"], state["cpu_mean_6h"], state["cpu_deviation"] = use, use, use * F4(0.5)


def _count(state: PolicyState, use: Singles, weight: Singles) -> None:
    """The share of time above the request in force, and the weight of what was seen."""
    applied = state["cpu_applied"]
    requested = ~np.isnan(applied)
    # Only time after the first request counts: before it nothing was promised.
    fade = _fade(weight, _SHARE_MEMORY)
    state["cpu_short"] = state["cpu_short"] * fade + weight * (use > applied)
    state["cpu_seen"] = state["cpu_seen"] * fade + weight * requested
    state["cpu_unsettled"] = state["cpu_unsettled"] + weight
    state["cpu_weight"] = state["cpu_weight"] + weight


def _fade(weight: Singles, half_life: float) -> Singles:
    """What is left after this weight; one number where all weights are the same, as they mostly are."""
    # Scrapes are as far apart for all, so one power mostly does for thousands of rows.
    first = weight[0]
    of = first if (weight == first).all() else weight
    return np.asarray(np.exp2(-of / F4(half_life)))


def settled(state: PolicyState, risk: Floats) -> tuple[Singles, Singles]:
    """Margins and costs of each expert with the samples since the last settlement, none of which was above its request."""
    passed = state["cpu_unsettled"][:, None]
    kept = np.exp2(-passed / F4(MEMORY))
    # The integral of a weight that halves in MEMORY, over the samples that passed: the sum without a loop.
    whole = F4(MEMORY / np.log(2.0)) * (1 - kept)
    requests = state["cpu_request"]
    cost = state["cpu_cost"] * kept + np.where(np.isfinite(requests), requests, 0) * whole
    # With an exceedance a margin rises by STEP, and without one falls by STEP * risk: balanced where the share exceeded is the
    # risk.
    margin = np.maximum(state["cpu_margin"] - F4(STEP) * risk[:, None].astype(F4) * passed, F4(LEAST))
    return margin, cost


def _settle(state: PolicyState, risk: Floats) -> None:
    state["cpu_margin"], state["cpu_cost"] = settled(state, risk)
    state["cpu_unsettled"] = 0


def _exceeded(state: PolicyState, use: Singles, weight: Singles, risk: Floats) -> None:
    """Use is above the request of some expert: it pays, its margin rises, and its request goes above the use."""
    _settle(state, risk)
    requests, use, weight = state["cpu_request"], use[:, None], weight[:, None]
    above = use > requests
    scale = np.maximum(state["cpu_scale"], F4(LEAST_SCALE))[:, None]
    cost = weight * (F4(DEPTH) * (use - np.where(above, requests, use)) + F4(COUNT) * scale)
    state["cpu_cost"] = state["cpu_cost"] + np.where(above, cost, 0)
    state["cpu_margin"] = np.minimum(state["cpu_margin"] + np.where(above, F4(STEP) * weight, 0), F4(MOST))
    requests = np.where(above, use * F4(RAISE), requests)
    state["cpu_request"] = requests
    state["cpu_lowest"] = requests.min(axis=1)


def _turn_hour(state: PolicyState, hour: Wholes) -> None:
    """Put the highest use of an hour that is over into the rings; hours of which nothing was seen are holes."""
    over = np.flatnonzero(hour != state.whole("cpu_hour"))
    if not len(over):
        return
    state, hour = state.part(over), hour[over]
    before, highest = state.whole("cpu_hour"), state["cpu_highest"]
    places, rows = before % _DAY, np.arange(len(over))
    season = state["cpu_season"].copy()
    last = season[rows, places]
    # The first day is the profile itself; later days move it.
    season[rows, places] = np.where(np.isnan(last), highest, last + F4(SEASON) * (highest - last))
    hours = usage_rings.put(state["cpu_hours"], before, hour, highest)
    state["cpu_hours"], state["cpu_season"], state["cpu_hour"] = hours, season, hour
    state["cpu_highest"] = 0


def _average(state: PolicyState, use: Singles, weight: Singles) -> None:
    """Moving averages: half lives of 30 minutes, of 6 hours, and of a day, the last one the plain mean at first."""
    mean = state["cpu_mean_30m"]
    # 6, 72 and 288 samples of five minutes are half an hour, six hours and a day.
    state["cpu_mean_30m"] = mean + (1 - _fade(weight, 6.0)) * (use - mean)
    part, mean, deviation = 1 - _fade(weight, 72.0), state["cpu_mean_6h"], state["cpu_deviation"]
    mean = mean + part * (use - mean)
    state["cpu_mean_6h"] = mean
    state["cpu_deviation"] = deviation + part * (np.abs(use - mean) - deviation)
    scale, seen = state["cpu_scale"], state["cpu_weight"]
    state["cpu_scale"] = scale + np.maximum(1 - _fade(weight, 288.0), weight / np.maximum(seen, weight + F4(1e-9))) * (
        use - scale
    )


def _renew(samples: SampleColumns, places: Indices, state: PolicyState, use: Singles) -> None:
    """Work out all requests again, and follow the expert that costs least."""
    evidence, at = samples.evidence(places), samples.at[places]
    # Containers are spread over the period, so that not all are worked out in one turn.
    shift = samples.spread[places] * PERIOD
    state["cpu_due"] = (np.floor((at - shift) / PERIOD) + 1) * PERIOD + shift
    _settle(state, samples.risk_cpu[places])
    least = np.maximum(evidence.least_cpu, LEAST_CPU).astype(F4)[:, None]
    bases = proposals(state, use, evidence.cpu.percentile(0.9).astype(F4), evidence.cpu.percentile(0.98).astype(F4))
    requests = np.maximum(bases * np.exp(state["cpu_margin"]), least)
    state["cpu_request"] = requests
    state["cpu_lowest"] = requests.min(axis=1)
    rows, best = np.arange(len(state)), _follow(state, samples.risk_cpu[places])
    # A request is never lowered below the use of this moment.
    wanted, applied = np.maximum(requests[rows, best], use * F4(RAISE)), state["cpu_applied"].copy()
    moves = np.isnan(applied) | (wanted > applied * F4(UP)) | (wanted < applied * F4(DOWN))
    state["cpu_applied"] = np.where(moves, wanted, applied)
    state["cpu_proposed"], state["cpu_used_margin"] = bases[rows, best], state["cpu_margin"][rows, best]
    state["cpu_risk"], state["cpu_prior"], state["cpu_last"], state["cpu_raised_by"] = samples.risk_cpu[places], applied, use, 0


def _follow(state: PolicyState, risk: Floats) -> NDArray[np.int16]:
    """(n,) The expert to follow: of those that may be, the one that would have cost least; the percentile during the warm-up."""
    margins, rows = state["cpu_margin"], np.arange(len(state))
    held = state["cpu_short"] > F4(HELD) * risk.astype(F4) * np.maximum(state["cpu_seen"], F4(EARLY))
    cost = state["cpu_cost"].copy()
    # Two experts of like cost would otherwise take turns, and each turn changes the pod.
    cost[rows, state.whole("cpu_expert")] *= F4(KEEP)
    # Expert 0 is the 90th percentile, which is believed from the start.
    cost[state["cpu_weight"] <= WARM_UP, 1:] = np.inf
    # A margin above its first value rose more often than it fell, so that expert's own share so far is above the risk.
    if held.any():
        kept = margins[held] <= np.maximum(margins[held].min(axis=1), F4(FIRST))[:, None]
        cost[held] = np.where(kept, state["cpu_cost"][held], np.inf)
    best: NDArray[np.int16] = cost.argmin(axis=1).astype(np.int16)
    state["cpu_expert"], state["cpu_held"] = best, held
    return best


def proposals(state: PolicyState, use: Singles, p90: Singles, p98: Singles) -> Singles:
    """(n, experts) What each expert proposes before its margin, in cores. `use` is the newest sample."""
    hour, hours, now = state.whole("cpu_hour"), state["cpu_hours"], state["cpu_highest"]
    rows = np.arange(len(state))
    back = [hours[rows, (hour - hours_ago) % _DAY] for hours_ago in range(1, _DAY + 1)]
    highest = [now]
    for before in back:
        highest.append(np.fmax(highest[-1], before))
    yesterday, profile = back[-1], state["cpu_season"]
    season = profile[rows, hour % _DAY]
    # On the first day there is no profile yet.
    season = np.where(np.isnan(season), p98, season)
    # A day that began busier than usual is expected to go on so, but not by all of the difference.
    level = np.exp(F4(LEVEL) * _distance(profile, hour, back))
    return np.stack(
        [
            p90,
            use,
            highest[1],
            highest[3],
            highest[6],
            highest[24],
            p98,
            state["cpu_mean_30m"],
            state["cpu_mean_6h"] + 2 * state["cpu_deviation"],
            season,
            season * level,
            np.maximum(season, highest[1]),
            np.maximum(np.where(np.isnan(yesterday), highest[24], yesterday), highest[1]),
        ],
        axis=1,
    )


def _distance(profile: Singles, hour: Wholes, back: Sequence[Singles]) -> Singles:
    """The mean logarithm of use over profile in the last three hours of which there is use; 0 without any."""
    rows = np.arange(len(profile))
    total, count = np.zeros(len(profile), F4), np.zeros(len(profile), F4)
    for hours_ago in (1, 2, 3):
        ratio = np.log((back[hours_ago - 1] + F4(FLOOR)) / (profile[rows, (hour - hours_ago) % _DAY] + F4(FLOOR)))
        there = ~np.isnan(ratio)
        total[there] += ratio[there]
        count += there
    return total / np.maximum(count, 1)


def explain(state: PolicyState) -> Mapping[str, Sequence[object] | NDArray[np.generic]]:
    """The numbers of the request in force, in cores, the share of time short of CPU, and what the next experts would cost.

    When the request was renewed last, `wanted` was the highest of `proposed * margin`, the least amount and RAISE times `last`,
    the use then. It took the place of `prior` if it was beyond UP or DOWN times that; use above it since (`raised_by`) raised it
    to RAISE times that use. `more` and `less` are the experts that ask for the next higher and the next lower amount; each
    `cost` is a mean in cores that are requested, with those that time above the request counts for.
    """
    rows, expert = np.arange(len(state)), state.whole("cpu_expert")
    requests, costs = state["cpu_request"].astype(np.float64), _mean_costs(state)
    # Double precision from here on: these numbers are for people, who compare them with their sum.
    own = requests[rows, expert]
    more = np.where(requests > own[:, None] * (1 + _SAME), requests, np.inf)
    less = np.where(requests < own[:, None] * (1 - _SAME), requests, -np.inf)
    seen = np.maximum(state["cpu_seen"].astype(np.float64), 1e-9)
    numbers: dict[str, Sequence[object] | NDArray[np.generic]] = {
        "cpu_expert": [EXPERTS[number] for number in expert.tolist()],
        "cpu_margin": np.exp(state["cpu_used_margin"].astype(np.float64)),
        "cpu_expert_request": own,
        "cpu_request": state["cpu_applied"].astype(np.float64),
        "cpu_short_promised": state["cpu_risk"].astype(np.float64),
        "cpu_short_delivered": state["cpu_short"].astype(np.float64) / seen,
        "cpu_cost": costs[rows, expert],
        "cpu_held": state.whole("cpu_held").astype(np.int64),
    }
    numbers |= {f"cpu_{name}": state[f"cpu_{name}"].astype(np.float64) for name in ("proposed", "last", "prior", "raised_by")}
    numbers |= {f"cpu_{name}": np.full(len(state), value) for name, value in (("up", UP), ("down", DOWN), ("raise", RAISE))}
    for name, next_, at in (("more", more, more.argmin(axis=1)), ("less", less, less.argmax(axis=1))):
        there = np.isfinite(next_[rows, at])
        numbers[f"cpu_{name}_expert"] = [
            EXPERTS[i] if finite else None for i, finite in zip(at.tolist(), there.tolist(), strict=True)
        ]
        numbers[f"cpu_{name}_request"] = np.where(there, requests[rows, at], np.nan)
        numbers[f"cpu_{name}_cost"] = np.where(there, costs[rows, at], np.nan)
    return numbers


_SAME = 1e-4
"""Requests that differ by less of themselves are the same."""


def _mean_costs(state: PolicyState) -> Floats:
    """(n, experts) The mean cost of each in cores, of the samples that count, newer ones more."""
    weight = MEMORY / np.log(2.0) * (1 - np.exp2(-state["cpu_weight"].astype(np.float64) / MEMORY))
    unsettled = state["cpu_unsettled"].astype(np.float64)
    settled = np.maximum(weight - unsettled, 1e-9)
    return np.asarray(state["cpu_cost"].astype(np.float64) / settled[:, None])
