"""How fast replicas may change: windows over past recommendations, and rate policies over past changes.

Sources: `pkg/controller/podautoscaler/horizontal.go` of Kubernetes, and `pkg/apis/autoscaling/v2/defaults.go` for the defaults.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas import exact_quantity
from schemas.policies.scaling import HpaBehavior, HpaScalingRules

Moment = tuple[float, int]
"""A time (seconds since the epoch) and a count of replicas: recommended, or changed."""

_MOST, _LEAST = 2**31 - 1, -(2**31)
_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods, or percent of them, within `period` seconds."""

    kind: str
    value: int
    period: float


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """The rules of one direction. `window` is in seconds and `tolerance` a share; None means the controller's default."""

    policies: tuple[ScalingPolicy, ...]
    select: str = "Max"
    window: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class ScalingBehavior:
    """The rules of both directions."""

    up: ScalingRules
    down: ScalingRules


DEFAULT_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
}
DEFAULT_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def with_default_rates(block: Mapping[str, object]) -> dict[str, object]:
    """A `behavior` block with the defaults that the API server adds."""
    return {
        "scaleUp": _defaulted(block.get("scaleUp"), DEFAULT_UP),
        "scaleDown": _defaulted(block.get("scaleDown"), DEFAULT_DOWN),
    }


def _defaulted(declared: object, default: Mapping[str, object]) -> dict[str, object]:
    given = declared if isinstance(declared, Mapping) else {}
    return {**default, **{name: value for name, value in given.items() if value is not None}}


def of_event(behavior: HpaBehavior | None) -> ScalingBehavior | None:
    """The rules of a policy in the log, with defaults added; None where it says nothing of either direction."""
    # Without a behaviour the controller scales by its older rule, which is not what the defaults of a behaviour give.
    if behavior is None or {behavior.scale_up, behavior.scale_down} <= {None, HpaScalingRules()}:
        return None
    return ScalingBehavior(_of(behavior.scale_up, DEFAULT_UP), _of(behavior.scale_down, DEFAULT_DOWN))


def _of(rules: HpaScalingRules | None, default: Mapping[str, object]) -> ScalingRules:
    usual = _rules(default)
    if rules is None:
        return usual
    return ScalingRules(
        tuple(ScalingPolicy(policy.type, policy.value, float(policy.period_seconds)) for policy in rules.policies)
        or usual.policies,
        rules.select_policy or usual.select,
        usual.window if rules.stabilization_window_seconds is None else float(rules.stabilization_window_seconds),
        exact_quantity.read(rules.tolerance).thousandths / 1000 if rules.tolerance else None,
    )


def _rules(declared: object) -> ScalingRules:
    given = declared if isinstance(declared, Mapping) else {}
    policies = tuple(ScalingPolicy(p["type"], int(p["value"]), float(p["periodSeconds"])) for p in given.get("policies") or ())
    window, tolerance = given.get("stabilizationWindowSeconds"), given.get("tolerance")
    return ScalingRules(
        policies,
        str(given.get("selectPolicy") or "Max"),
        None if window is None else float(window),
        None if tolerance is None else exact_quantity.read(tolerance).thousandths / 1000,
    )


def held(wanted: int, current: int, past: Iterable[Moment], *, now: float, windows: tuple[float, float]) -> int:
    """`current`, moved only as far as every recommendation in the windows (up, down; seconds) supports."""
    up_window, down_window = windows
    lowest = highest = wanted
    for at, count in past:
        # A recommendation exactly as old as a window no longer counts, and in the older rule below it does: both as upstream.
        if at > now - up_window:
            lowest = min(lowest, count)
        if at > now - down_window:
            highest = max(highest, count)
    return min(max(current, lowest), highest)


def highest_of(wanted: int, past: Iterable[Moment], *, now: float, window: float) -> int:
    """The highest recommendation in the window (seconds), for HPAs without a behaviour; one exactly as old still counts."""
    return max([wanted, *(count for at, count in past if at >= now - window)])


def most(current: int, rules: ScalingRules, changes: tuple[Iterable[Moment], Iterable[Moment]], *, now: float) -> int:
    """The highest count that the scale-up rates allow after the changes (added, removed) so far."""
    if rules.select == "Disabled":
        return current
    limits = [_raised(policy, _start(current, policy, changes, now)) for policy in rules.policies]
    return min(limits, default=_MOST) if rules.select == "Min" else max(limits, default=_LEAST)


def least(current: int, rules: ScalingRules, changes: tuple[Iterable[Moment], Iterable[Moment]], *, now: float) -> int:
    """The lowest count that the scale-down rates allow after the changes (added, removed) so far."""
    if rules.select == "Disabled":
        return current
    limits = [_lowered(policy, _start(current, policy, changes, now)) for policy in rules.policies]
    return max(limits, default=_LEAST) if rules.select == "Min" else min(limits, default=_MOST)


def recorded(changes: tuple[Moment, ...], change: Moment, rules: ScalingRules) -> tuple[Moment, ...]:
    """The changes of a direction plus a new one, which replaces the last one older than all of its policies' periods.

    Source: `storeScaleEvent` in `pkg/controller/podautoscaler/horizontal.go` of Kubernetes.
    """
    since = change[0] - max((policy.period for policy in rules.policies), default=0.0)
    old = [place for place, (at, _) in enumerate(changes) if at < since]
    # Changes before that one stay: the other direction's policies may look further back and count them.
    return (*changes[: old[-1]], change, *changes[old[-1] + 1 :]) if old else (*changes, change)


def _start(current: int, policy: ScalingPolicy, changes: tuple[Iterable[Moment], Iterable[Moment]], now: float) -> int:
    """The count when the policy's period began; a change exactly as old as the period no longer counts."""
    added, removed = (sum(count for at, count in part if at > now - policy.period) for part in changes)
    return current - added + removed


def _raised(policy: ScalingPolicy, start: int) -> int:
    if policy.kind == "Pods":
        return start + policy.value
    return min(_MOST, math.ceil(start * (1 + policy.value / _HUNDRED)))


def _lowered(policy: ScalingPolicy, start: int) -> int:
    return start - policy.value if policy.kind == "Pods" else int(start * (1 - policy.value / _HUNDRED))
