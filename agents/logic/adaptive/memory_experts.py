"""Memory by priced experts: rules for a request, of which that one is followed whose requests and kills would have cost least.

An expert is a base (what use is expected to reach), a margin on it, and a guard on the highest use of the last hour: its request
is the larger of both products. Memory is a hard limit and kills are rare, so an expert cannot learn from its own kills alone.
Every expert is scored by what its request would have been each hour, and whether use went above it. A kill is priced in hours of
the container's memory; its price rises with each kill under our requests, and falls with each that the built-in estimator's
requests would have seen on the same samples. So kills stay within the share of the built-in's that the risk allows. Where hardly
anything happens the price stays as it is, and what was learned of like containers elsewhere decides (`memory_prior`).

Weights of samples are in units of five minutes. Amounts are bytes. Rings hold an hour or day at its place, and NaN for one of
which there is no sample.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.adaptive import builtin_shadow, usage_rings
from agents.logic.adaptive.builtin_shadow import GAIN, LEAST_RAISE, MOST_FACTOR
from agents.logic.adaptive.memory_prior import KILLS_PRIOR, REQUESTS_PRIOR
from agents.logic.adaptive.usage_rings import F4, Singles, Wholes
from agents.logic.vertical.policy_code import PolicyState, SampleColumns, StateColumn

BASES = (
    "highest of 3 d",
    "season or 1 h",
    "season or 6 h",
    "peaks that halve in 6 h",
)
GUARDS = np.array([1.05, 1.8], np.float32)
MARGINS = np.array([0.8, 1.06, 1.12, 1.25, 1.5, 2.0], np.float32)
"""More of these cost memory and time for each container, and brought nothing: with a guard of 1.3, a margin of 1.02, peaks that
halve in 2 h and a percentile of hours, requests and kills on all traces came out the same within 3 %."""
UNIT = 300.0
"""Seconds of a sample of weight 1."""
MEMORY = 720.0
"""Hours after which a cost counts half: 30 days."""
PRICE_HOURS, PRICE_GIB_HOURS = 96.0, 92.0
"""What a kill costs: so many hours of the container's memory, and so many GiB-hours."""
PRIOR_HOURS = 240.0
"""Hours that what is known of like containers counts for."""
CLASSES = np.array([0.005, 0.02, 0.06, 0.15, 0.4], np.float32)
"""Where classes of volatility begin, as the mean |ln(highest use of an hour / of the hour before)|."""
UNKNOWN_CLASS = 2
CENSORED = 1.25
"""A killed container is thought to have wanted this many times its limit."""
BUMP, REPEATED_BUMP = 1.5, 2.0
"""After a kill the request is so many times the limit, more if the last one was less than an hour ago, or by LEAST_RAISE."""
HOLD = 2 * 3600.0
"""Seconds that this holds."""
WARM_UP = 6 * 3600.0
"""Seconds after a start in which a container may still grow into its use."""
WARM, WARMER, WARM_HALF_LIFE, GROWTH = 1.05, 0.2, 1800.0, 0.8
"""Until then it is WARM times the highest use, more by WARMER at first, or by the growth of GROWTH hours."""
MOST_GROWTH = 0.5
"""Growth counts for at most this share of the highest use."""
UP, DOWN = 1.03, 0.95
"""A request rises to at least so many times itself, so that slow growth does not change it with every sample; it falls on the
hour, if the new one is below this part of it."""
CALM = 2
"""Classes below it are calm: what kills there are jumps that no past foretells, and a margin above the built-in's buys little."""
COLD, SWINGING = 576.0, 3
"""Weight of samples (two days) in which a container that does not swing yet is too little known for more than the built-in gives,
and the class from which on it swings: what is known of like containers is worth its price there."""
LEAST_SCALE = 16 * 2.0**20
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0
_GIB = float(1 << 30)
_SHAPE = (len(GUARDS), len(BASES), len(MARGINS))
EXPERTS = _SHAPE[0] * _SHAPE[1] * _SHAPE[2]

STATE = (
    StateColumn("memory_hour", -1, kind=np.int32),
    StateColumn("memory_at"),
    StateColumn("memory_started"),
    StateColumn("memory_highest", kind=F4),
    StateColumn("memory_day_highest", kind=F4),
    StateColumn("memory_hours", np.nan, usage_rings.HOURS, F4),
    StateColumn("memory_days", np.nan, usage_rings.DAYS, F4),
    StateColumn("memory_season", np.nan, usage_rings.DAY, F4),
    StateColumn("memory_mean", kind=F4),
    StateColumn("memory_scale", kind=F4),
    StateColumn("memory_age", kind=F4),
    StateColumn("memory_leak", kind=F4),
    StateColumn("memory_volatility", -1.0, kind=F4),
    StateColumn("memory_last", kind=F4),
    StateColumn("memory_growth", kind=F4),
    StateColumn("memory_sum", kind=F4),
    StateColumn("memory_weight", kind=F4),
    StateColumn("memory_unsettled", kind=F4),
    StateColumn("memory_bases", 0.0, len(BASES), F4),
    StateColumn("memory_guard", kind=F4),
    StateColumn("memory_base_sums", 0.0, len(BASES), F4),
    StateColumn("memory_guard_sum", kind=F4),
    StateColumn("memory_lowest", kind=F4),
    StateColumn("memory_needed", 0.0, len(GUARDS) * len(BASES), F4),
    StateColumn("memory_cost", 0.0, EXPERTS, F4),
    StateColumn("memory_expert_kills", 0.0, EXPERTS, F4),
    StateColumn("memory_expert", 0, kind=np.int16),
    StateColumn("memory_factor", 1.0, kind=F4),
    StateColumn("memory_applied", np.nan, kind=F4),
    StateColumn("memory_prior", np.nan, kind=F4),
    StateColumn("memory_cause", 0, kind=np.int16),
    StateColumn("memory_of", np.nan, kind=F4),
    StateColumn("memory_factor_of", 1.0, kind=F4),
    StateColumn("memory_least", kind=F4),
    StateColumn("memory_bump", kind=F4),
    StateColumn("memory_bump_ends"),
    StateColumn("memory_killed", -1e9),
    StateColumn("memory_builtin", np.nan, kind=F4),
    StateColumn("memory_builtin_since"),
    StateColumn("memory_kills", kind=F4),
    StateColumn("memory_builtin_kills", kind=F4),
    StateColumn("memory_risk", np.nan, kind=F4),
)
"""What is remembered of each container."""


def observe(samples: SampleColumns, state: PolicyState) -> None:
    """Take in OOM kills, or a sample of each container; raise the request where use comes near it, lower it on the hour."""
    killed = np.flatnonzero(samples.killed_at > 0.0)
    if len(killed):
        _killed(samples, killed, state.part(killed))
    seen = samples.memory > 0.0
    if seen.all():
        _observe(samples, np.arange(len(state)), state)
    elif seen.any():
        places = np.flatnonzero(seen)
        _observe(samples, places, state.part(places))


def _observe(samples: SampleColumns, places: Indices, state: PolicyState) -> None:
    use, at = samples.memory[places].astype(F4), samples.at[places]
    weight = (samples.seconds[places] / UNIT).astype(F4)
    hour = (at // _HOUR_SECONDS).astype(np.int32)
    new = np.flatnonzero(state.whole("memory_hour") < 0)
    if len(new):
        _begin(state.part(new), hour[new], use[new], at[new])
    restarted = np.flatnonzero(at - state["memory_at"] > _HOUR_SECONDS)  # after such a gap it may grow into its use once more
    if len(restarted):
        state.part(restarted)["memory_started"] = at[restarted]
    over = np.flatnonzero(hour != state.whole("memory_hour"))
    if len(over):
        # The order matters: the rings take the hour that `score` has judged, and clear what it was judged by.
        score(state.part(over))
        usage_rings.turn_hour(state.part(over), hour[over])
    renewed = np.concatenate([new, over]) if len(new) else over
    if len(renewed):
        _renew(samples, places[renewed], state.part(renewed), use[renewed])
    state["memory_sum"] = state["memory_sum"] + use * weight
    state["memory_weight"] = state["memory_weight"] + weight
    state["memory_unsettled"] = state["memory_unsettled"] + weight
    # A request stands for the limit here, the built-in estimator's as well as ours.
    would = np.flatnonzero(use > state["memory_builtin"])
    if len(would):
        builtin_shadow.killed(state.part(would), samples.risk_oom[places[would]])
    high = np.flatnonzero(use > state["memory_lowest"])
    if len(high):
        part = state.part(high)
        _needed(part, use[high])
        _risen(part, use[high])
    state["memory_highest"] = np.maximum(state["memory_highest"], use)
    warm = at - state["memory_started"] < WARM_UP
    wanting = warm.copy()
    wanting[high], wanting[renewed] = True, True
    _grow(state, np.flatnonzero(warm), use, at)
    state["memory_at"] = at
    wants = np.flatnonzero(wanting)
    if len(wants):
        _apply(state.part(wants), at[wants], np.isin(wants, over))


def _begin(state: PolicyState, hour: Wholes, use: Singles, at: Floats) -> None:
    state["memory_hour"], state["memory_at"], state["memory_started"] = hour, at, at
    for column in ("memory_mean", "memory_scale", "memory_leak", "memory_last"):
        state[column] = use


def score(state: PolicyState) -> tuple[Singles, NDArray[np.bool_]]:
    """An hour is over: what each expert requested in it, in parts of the mean use, and whether it would have been killed."""
    state["memory_base_sums"], state["memory_guard_sum"] = _settled(state)
    weight = np.maximum(state["memory_weight"], F4(1e-6))
    scale = np.maximum(state["memory_scale"], F4(LEAST_SCALE))
    bases = state["memory_base_sums"] / weight[:, None]
    guard = np.maximum(GUARDS * (state["memory_guard_sum"] / weight)[:, None], state["memory_least"][:, None])
    requests = np.maximum(bases[:, None, :, None] * MARGINS, guard[:, :, None, None])
    requests *= (state["memory_weight"] / F4(usage_rings.HOUR) / scale)[
        :, None, None, None
    ]  # in parts of the mean use, as the prior is, too
    killed = state["memory_needed"].reshape(-1, len(GUARDS), len(BASES), 1) > MARGINS
    kept = F4(0.5 ** (1 / MEMORY))
    cost, kills = requests.reshape(len(state), EXPERTS), killed.reshape(len(state), EXPERTS)
    state["memory_cost"] = state["memory_cost"] * kept + cost
    state["memory_expert_kills"] = state["memory_expert_kills"] * kept + kills
    return cost, kills


def _settled(state: PolicyState) -> tuple[Singles, Singles]:
    passed = state["memory_unsettled"]
    bases = state["memory_base_sums"] + state["memory_bases"] * passed[:, None]
    return bases, state["memory_guard_sum"] + state["memory_guard"] * passed


def _renew(samples: SampleColumns, places: Indices, state: PolicyState, use: Singles) -> None:
    """A new hour: what each base says for it, and the expert that costs least."""
    evidence = samples.evidence(places)
    state["memory_least"] = evidence.least_memory.astype(F4)
    builtin_shadow.follow(state, samples.at[places], evidence.builtin)
    hour, hours = state.whole("memory_hour"), state["memory_hours"]
    rows = np.arange(len(state))
    back = [hours[rows, (hour - ago) % usage_rings.HOURS] for ago in range(1, usage_rings.HOURS)]
    last_hour = np.fmax(use, back[0])
    last_six = last_hour
    for before in back[1:]:  # fmax passes over the holes of a ring, where maximum would spread NaN
        last_six = np.fmax(last_six, before)
    three_days = np.fmax(np.fmax(last_six, state["memory_day_highest"]), np.fmax.reduce(state["memory_days"], axis=1))
    profile = state["memory_season"]
    season = np.fmax(profile[rows, hour % usage_rings.DAY], profile[rows, (hour + 1) % usage_rings.DAY])
    leak = np.maximum(state["memory_leak"], use)
    bases = np.stack([three_days, np.fmax(last_hour, season), np.fmax(last_six, season), leak], axis=1)
    state["memory_bases"], state["memory_guard"], state["memory_unsettled"] = bases, last_hour, 0
    state["memory_lowest"] = np.minimum(bases.min(axis=1), last_hour)
    state["memory_risk"] = samples.risk_oom[places]
    state["memory_expert"] = total_costs(state).argmin(axis=1).astype(np.int16)


def classes(state: PolicyState) -> Indices:
    """(n,) The class of volatility of each container."""
    volatility = state["memory_volatility"]
    return np.where(volatility < 0, UNKNOWN_CLASS, np.searchsorted(CLASSES, volatility, side="right"))


def price(state: PolicyState) -> Singles:
    """(n,) What a kill costs, in hours of the container's memory."""
    gib = np.maximum(state["memory_scale"], F4(LEAST_SCALE)) / F4(_GIB)
    return state["memory_factor"] * (F4(PRICE_HOURS) + F4(PRICE_GIB_HOURS) / gib)


def total_costs(state: PolicyState) -> Singles:
    """(n, experts) What each would have cost, in hours of the container's memory: requests, and kills at their price."""
    requests, kills = costs_and_kills(state)
    return requests + price(state)[:, None] * kills


def costs_and_kills(state: PolicyState) -> tuple[Singles, Singles]:
    """(n, experts) each: hours of the container's memory that would have been requested, and kills; with like containers'."""
    of = classes(state)
    requests = state["memory_cost"] + F4(PRIOR_HOURS) * REQUESTS_PRIOR[of]
    return requests, state["memory_expert_kills"] + F4(PRIOR_HOURS) * KILLS_PRIOR[of]


def _killed(samples: SampleColumns, places: Indices, state: PolicyState) -> None:
    """OOM kills: experts below are scored, the price rises, and the request is well above the limit for a while."""
    limit, at = samples.killed_at[places].astype(F4), samples.at[places]
    begun = np.flatnonzero(state.whole("memory_hour") >= 0)
    if len(begun):
        part, wanted = state.part(begun), limit[begun] * F4(CENSORED)
        _needed(part, wanted)
        theirs = np.flatnonzero(wanted > part["memory_builtin"])
        if len(theirs):
            builtin_shadow.killed(part.part(theirs), samples.risk_oom[places[begun[theirs]]])
    again = at - state["memory_killed"] < _HOUR_SECONDS
    bump = np.maximum(limit * np.where(again, F4(REPEATED_BUMP), F4(BUMP)), limit + F4(LEAST_RAISE))
    state["memory_killed"], state["memory_bump"], state["memory_bump_ends"] = at, bump, at + HOLD
    state["memory_kills"] = state["memory_kills"] + samples.pods[places].astype(F4)
    # A kill of ours makes kills dearer for this container at once; `builtin_shadow.killed` makes them cheaper again.
    state["memory_factor"] = np.minimum(state["memory_factor"] * np.exp(F4(GAIN)), F4(MOST_FACTOR))
    applied = state["memory_applied"]
    higher = np.flatnonzero(bump > applied)
    if len(higher):
        part = state.part(higher)
        part["memory_prior"], part["memory_applied"] = applied[higher], bump[higher]
        part["memory_cause"], part["memory_of"], part["memory_factor_of"] = CAUSES.index("OOM kill"), bump[higher], 1.0


def _needed(state: PolicyState, use: Singles) -> None:
    """The margin on each base that this use would have needed, where the guard alone was not enough."""
    bases, needed = state["memory_bases"], state["memory_needed"].reshape(-1, len(GUARDS), len(BASES))
    above = (use[:, None] > GUARDS * state["memory_guard"][:, None]) & (use > state["memory_least"])[:, None]
    ratio = use[:, None] / np.maximum(bases, 1)
    needed = np.maximum(needed, np.where(above[:, :, None], ratio[:, None, :], 0))
    state["memory_needed"] = needed.reshape(len(state), -1)


def _risen(state: PolicyState, use: Singles) -> None:
    """Use is above a base or above the last hour's highest: these rise with it."""
    state["memory_base_sums"], state["memory_guard_sum"] = _settled(state)
    bases = np.maximum(state["memory_bases"], use[:, None])
    guard = np.maximum(state["memory_guard"], use)
    state["memory_bases"], state["memory_guard"], state["memory_unsettled"] = bases, guard, 0
    state["memory_lowest"] = np.minimum(bases.min(axis=1), guard)


def _grow(state: PolicyState, warm: Indices, use: Singles, at: Floats) -> None:
    """Growth in bytes an hour of those that started lately, with a half life of ten minutes."""
    if not len(warm):
        return
    state, use, at = state.part(warm), use[warm], at[warm]
    hours = np.clip((at - state["memory_at"]) / _HOUR_SECONDS, 1e-6, usage_rings.DAY).astype(F4)
    growth = state["memory_growth"]
    state["memory_growth"] = growth + (1 - np.exp2(-6 * hours)) * (
        (use - state["memory_last"]) / hours - growth
    )  # six half lives an hour
    state["memory_last"] = use


CAUSES = ("expert", "last hour", "least amount", "growth since its start", "OOM kill", "built-in estimator")
"""What a request may come from, in this order."""


def _apply(state: PolicyState, at: Floats, on_the_hour: NDArray[np.bool_]) -> None:
    """Raise the request where more is wanted; lower it on the hour."""
    amounts, factors = wants(state, at)
    parts, applied = amounts * factors, state["memory_applied"]
    cause = parts.argmax(axis=1)
    wanted = parts.max(axis=1)
    # Raising cannot wait, lowering can: a request that falls with each sample would change a pod as often.
    lower = on_the_hour & (wanted < applied * F4(DOWN))
    moved = np.flatnonzero(np.isnan(applied) | (wanted > applied) | lower)
    if not len(moved):
        return
    part, before = state.part(moved), applied[moved]
    part["memory_applied"] = np.where(wanted[moved] > before, np.maximum(wanted[moved], before * F4(UP)), wanted[moved])
    part["memory_prior"], part["memory_cause"] = before, cause[moved]
    part["memory_of"], part["memory_factor_of"] = amounts[moved, cause[moved]], factors[moved, cause[moved]]


def wants(state: PolicyState, at: Floats) -> tuple[Singles, Singles]:
    """(n, causes) each: amounts in bytes and factors, whose highest product is the request that is wanted."""
    guard, base, margin = np.unravel_index(state.whole("memory_expert").astype(np.int64), _SHAPE)
    count, last_hour = len(state), state["memory_guard"]
    age = at - state["memory_started"]
    highest = np.maximum(state["memory_bases"][:, 0], 1)
    floor = F4(WARM) + F4(WARMER) * np.exp2(-np.clip(age, 0, WARM_UP) / WARM_HALF_LIFE).astype(F4)
    growth = np.minimum(F4(GROWTH) * np.maximum(state["memory_growth"], 0), F4(MOST_GROWTH) * highest)
    warm = np.where(age < WARM_UP, np.maximum(floor * highest, last_hour + growth), 0)
    bump = np.where(at < state["memory_bump_ends"], state["memory_bump"], 0)
    bases = state["memory_bases"][np.arange(count), base]
    ones, builtin = np.ones(count, F4), state["memory_builtin"]
    cap = caps(state)
    above = np.maximum(bases * MARGINS[margin], last_hour * GUARDS[guard]) > builtin * cap
    expert, guards, limit = np.where(above, 0, bases), np.where(above, GUARDS[0], GUARDS[guard]), np.where(above, builtin, 0)
    amounts = np.stack([expert, last_hour, state["memory_least"], warm, bump, limit], axis=1)
    return amounts, np.stack([MARGINS[margin], guards, ones, ones, ones, np.where(above, cap, 1)], axis=1)


def caps(state: PolicyState) -> Singles:
    """(n,) How many times the built-in estimator's request an expert may ask for: of what is calm or hardly known, once.

    Kills of ours that the built-in estimator would not have had raise that with the price of a kill.
    """
    of = classes(state)
    bound = (of < CALM) | ((state["memory_age"] < COLD) & (of < SWINGING))
    return np.where(bound, np.maximum(state["memory_factor"], 1), F4(np.inf))


def explain(state: PolicyState) -> Mapping[str, Sequence[object] | NDArray[np.generic]]:
    """The numbers of the request in force, in bytes; the price of a kill, kills (ours and the built-in's), and the next margins.

    When the request changed last, `of * factor` was wanted, for the cause that is named, in place of `prior`; a raise is to at
    least UP times that. `more` and `less` are the next margins of the same expert: what each would request now, how much more it
    would have requested so far (a share), and how many kills more it would have had, like containers' share counted in.
    """
    rows, expert = np.arange(len(state)), state.whole("memory_expert").astype(np.int64)
    guard, base, margin = np.unravel_index(expert, _SHAPE)
    numbers = {"applied": "request", "prior": "prior", "of": "of", "factor_of": "factor", "guard": "last_hour", "kills": "kills"}
    numbers |= {"builtin_kills": "kills_built_in", "risk": "kills_promised"}
    explanation: dict[str, Sequence[object] | NDArray[np.generic]] = {
        "memory_expert": [BASES[number] for number in base.tolist()],
        "memory_cause": [CAUSES[number] for number in state.whole("memory_cause").tolist()],
        "memory_base": state["memory_bases"].astype(np.float64)[rows, base],
        "memory_margin": MARGINS.astype(np.float64)[margin],
        "memory_guard": GUARDS.astype(np.float64)[guard],
        "memory_kill_price_hours": price(state).astype(np.float64),
        "memory_at_most": state["memory_builtin"].astype(np.float64) * caps(state),
        "memory_up": np.full(len(state), UP),
        **{f"memory_{name}": state[f"memory_{column}"].astype(np.float64) for column, name in numbers.items()},
    }
    costs, kills = (array.astype(np.float64) for array in costs_and_kills(state))
    for name, step in (("more", 1), ("less", -1)):
        there = (margin + step >= 0) & (margin + step < len(MARGINS))
        next_ = np.clip(margin + step, 0, len(MARGINS) - 1)
        other = expert + np.where(there, step, 0)
        request = np.maximum(state["memory_bases"][rows, base] * MARGINS[next_], GUARDS[guard] * state["memory_guard"])
        request = np.maximum(request, state["memory_least"]).astype(np.float64)
        explanation[f"memory_{name}_margin"] = np.where(there, MARGINS.astype(np.float64)[next_], np.nan)
        explanation[f"memory_{name}_request"] = np.where(there, request, np.nan)
        explanation[f"memory_{name}_cost"] = np.where(there, costs[rows, other] / costs[rows, expert] - 1, np.nan)
        explanation[f"memory_{name}_kills"] = np.where(there, kills[rows, other] - kills[rows, expert], np.nan)
    return explanation
