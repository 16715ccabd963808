"""What an EHPA's objects are to be, as the reconciler asks for it: the thinking is handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.decisions.forecasts import LoadForecast

Json = dict[str, Any]
UID_LABEL = "autoscaling.crane.io/effective-hpa-uid"
"""The label of every object that follows from an EHPA; its value is the EHPA's uid."""


@dataclass(frozen=True, slots=True)
class WantedObject:
    """What an object is to be, or a sentence on why there can be none; `left_out` says what is missing in it."""

    manifest: Json | None
    why_not: str = ""
    left_out: tuple[str, ...] = ()


class ObjectGenerator(Protocol):
    """Makes the objects that follow from an EHPA, which is given as the API has it."""

    def needs_pods(self, ehpa: Mapping[str, Any]) -> bool:
        """Whether its HPA depends on what the target's pods request."""

    def hpa(
        self, ehpa: Mapping[str, Any], *, pods: Sequence[Mapping[str, Any]], forecast: LoadForecast | None, now: float
    ) -> WantedObject:
        """Its HorizontalPodAutoscaler; a forecast that has expired counts for nothing. `now` in seconds since the epoch."""

    def cron_faults(self, ehpa: Mapping[str, Any], now: float) -> Sequence[str]:
        """Sentences on what is wrong with its crons; `hpa` says them as well."""

    def substitute(self, ehpa: Mapping[str, Any]) -> Json:
        """Its Substitute, without replicas: those are the HPA's."""

    def tsp(self, ehpa: Mapping[str, Any]) -> WantedObject | None:
        """Its TimeSeriesPrediction; None where it wants no forecast."""

    def tsp_status(
        self, tsp: Mapping[str, Any], forecast: LoadForecast | None, now: float, *, unsupported: str = ""
    ) -> tuple[list[Json], Json]:
        """The forecasts that the status of a TimeSeriesPrediction is to hold, and its condition.

        One that is `unsupported` holds none, and says so.
        """

    def is_outdated(self, tsp: Mapping[str, Any], now: float) -> bool:
        """Whether the forecasts that its status holds end too soon."""
