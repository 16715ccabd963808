"""The interface through which the reconciler gets the desired objects of an EHPA; somebody else decides what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.decisions.replica_plans import LoadForecast

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
