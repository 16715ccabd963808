"""The desired objects of an EHPA, which somebody else decides on, and how an object in the cluster differs from its desired one.

Server-side apply restores our fields and keeps what others added, except in lists, which it replaces: an addition to an
autoscaler's metric is drift.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas import exact_quantity
from schemas.decisions.replica_plans import LoadForecast
from schemas.exact_quantity import NotAQuantityError
from schemas.well_known_labels import METRIC_QUERY

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WantedObject:
    """The desired object, or a sentence on why there can be none; `left_out` lists what is missing from it."""

    manifest: Json | None
    why_not: str = ""
    left_out: tuple[str, ...] = ()


class ObjectGenerator(Protocol):
    """Makes the objects of an EHPA, which it takes as the API returns it."""

    def needs_pods(self, ehpa: Mapping[str, Any]) -> bool:
        """Whether the EHPA's HPA depends on the requests of the target's pods."""

    def hpa(
        self, ehpa: Mapping[str, Any], *, pods: Sequence[Mapping[str, Any]], forecast: LoadForecast | None, now: float
    ) -> WantedObject:
        """The EHPA's HorizontalPodAutoscaler, ignoring a forecast that has expired. `now` in seconds since the epoch."""

    def cron_faults(self, ehpa: Mapping[str, Any], now: float) -> Sequence[str]:
        """Sentences on what is wrong with the EHPA's crons; `hpa` reports them as well."""

    def substitute(self, ehpa: Mapping[str, Any]) -> Json:
        """The EHPA's Substitute, without replicas: the HPA sets those."""

    def tsp(self, ehpa: Mapping[str, Any]) -> WantedObject | None:
        """The EHPA's TimeSeriesPrediction; None if it wants no forecast."""

    def tsp_status(
        self, tsp: Mapping[str, Any], forecast: LoadForecast | None, now: float, *, unsupported: str = ""
    ) -> tuple[list[Json], Json]:
        """The forecasts for the status of a TimeSeriesPrediction, and its condition.

        If it is `unsupported`, there are no forecasts, and the condition says so.
        """

    def is_outdated(self, tsp: Mapping[str, Any], now: float) -> bool:
        """Whether the forecasts in the status of a TimeSeriesPrediction end too soon."""


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
        # To Python a truth value is an integer.
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


def with_queries(live: Json, queries: Mapping[str, str]) -> Json:
    """The EHPA with annotations for the queries that rules give, where it has none of its own."""
    about = live["metadata"]
    annotations = {**{f"{METRIC_QUERY}/{name}": text for name, text in queries.items()}, **(about.get("annotations") or {})}
    return {**live, "metadata": {**about, "annotations": annotations}} if queries else live
