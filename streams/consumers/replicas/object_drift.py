"""Compares an object in the cluster with its desired state, and finds what must be removed from it.

Server-side apply restores our fields and keeps what others added, except in lists, which it replaces: an addition to an
autoscaler's metric is drift.
"""

from collections.abc import Mapping
from typing import Any

from schemas import exact_quantity
from schemas.exact_quantity import NotAQuantityError

Json = dict[str, Any]


def covers(there: object, wanted: object, *, exactly: bool = False) -> bool:
    """Whether `there` has all that is `wanted` and, if `exactly` or in a list, nothing more; quantities compare by value."""
    if isinstance(wanted, Mapping):
        if not isinstance(there, Mapping) or (exactly and any(value and key not in wanted for key, value in there.items())):
            return False
        return all(key in there and covers(there[key], value, exactly=exactly) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        if not isinstance(there, list) or len(there) != len(wanted):
            return False
        return all(covers(item, other, exactly=True) for item, other in zip(there, wanted, strict=True))
    return there == wanted or _same_amount(there, wanted)  # the API server writes quantities in its own way: 1000m as 1


def _same_amount(there: object, wanted: object) -> bool:
    if (
        not isinstance(there, str | int)
        or not isinstance(wanted, str | int)
        or isinstance(there, bool)
        or isinstance(wanted, bool)
    ):
        return False
    try:
        return exact_quantity.parse(str(there)).nano == exact_quantity.parse(str(wanted)).nano
    except NotAQuantityError:
        return False


def first_difference(there: Mapping[str, Any], wanted: Mapping[str, Any], place: str = "") -> str:
    """The first difference, such as `spec.maxReplicas was 50`; empty if there is none."""
    for key, value in wanted.items():
        here = f"{place}.{key}" if place else str(key)
        if not covers(there.get(key), value):
            if isinstance(value, Mapping) and isinstance(there.get(key), Mapping):
                return first_difference(there[key], value, here)
            return f"{here} was {str(there.get(key, 'not there'))[:200]}"
    return ""


def foreign_behavior(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json | None:
    """A merge patch that removes unwanted additions from an HPA's behaviour; None if there are none."""
    behavior, ours = there.get("spec", {}).get("behavior"), wanted.get("spec", {}).get("behavior")
    if behavior is None:
        return None
    if ours is None:
        return {"spec": {"behavior": None}}
    extra = {
        side: {key: None for key in behavior.get(side) or {} if key not in (ours.get(side) or {})}
        for side in ("scaleUp", "scaleDown")
    }
    extra = {side: keys for side, keys in extra.items() if keys}
    return {"spec": {"behavior": extra}} if extra else None
