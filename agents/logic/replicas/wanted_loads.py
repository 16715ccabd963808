"""Which queries the objects of a cluster need: the source of loads reads them, and the forecaster waits for the results.

Both apply the same namespace shares, so the source queries nothing that the forecaster would ignore.
"""

from collections.abc import Callable, Sequence

from agents.logic.replicas import metric_series
from agents.logic.replicas.metric_series import WantedSeries
from agents.logic.replicas.metric_series_index import ring_key
from agents.logic.replicas.namespace_shares import NamespaceShares, SharingObject
from schemas.catalogue import Event
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved


class WantedLoads:
    """The EHPAs and TimeSeriesPredictions of one cluster. Objects with more than `most` metrics get no queries.

    `partition_of` gives the partition of a key, because the forecaster divides shares within each partition. `matchers`
    distinguish the cluster from others on the same server.
    """

    def __init__(self, cluster: str, partition_of: Callable[[str], int], most: int, matchers: Sequence[str] = ()) -> None:
        self._cluster, self._partition_of, self._most, self._matchers = cluster, partition_of, most, matchers
        self._objects: dict[str, EhpaChanged | TimeSeriesPredictionChanged] = {}
        self._wanted: dict[str, list[WantedSeries]] = {}
        self._shares: dict[int, NamespaceShares] = {}

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""
        match event:
            case EhpaChanged() | TimeSeriesPredictionChanged() if event.cluster == self._cluster:
                self._forget(event.key)
                self._objects[event.key] = event
                self._wanted[event.key] = self._wishes(event)
                self._share(event).put(event.key, SharingObject.of(event))
            case EhpaRemoved() | TimeSeriesPredictionRemoved():
                self._forget(event.key)
            case _:
                pass

    def series(self) -> list[WantedSeries]:
        """Each series that has a query, once, in the order of the objects' names."""
        for shares in self._shares.values():
            shares.settle()
        series_of: dict[str, WantedSeries] = {}
        for key in sorted(self._wanted):
            if not self._share(self._objects[key]).is_refused(key):
                for wanted in self._wanted[key]:
                    series_of.setdefault(ring_key(wanted), wanted)
        return list(series_of.values())

    def _wishes(self, event: EhpaChanged | TimeSeriesPredictionChanged) -> list[WantedSeries]:
        of_prediction = metric_series.of_prediction
        wanted = metric_series.of_ehpa(event, self._matchers) if isinstance(event, EhpaChanged) else of_prediction(event)
        # The forecaster refuses an object with too many metrics as a whole, so that nobody would read their values.
        return [series for series in wanted if series.query] if len(wanted) <= self._most and event.target else []

    def _forget(self, key: str) -> None:
        before = self._objects.pop(key, None)
        self._wanted.pop(key, None)
        if before is not None:
            self._share(before).remove(key)

    def _share(self, event: EhpaChanged | TimeSeriesPredictionChanged) -> NamespaceShares:
        return self._shares.setdefault(self._partition_of(event.target or event.key), NamespaceShares())
