"""Which loads the objects of a cluster need: the series of each metric, its query, and who wants it.

The source of loads and the forecaster both use this module, so that one reads exactly what the other waits for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from agents.logic.replicas import metric_queries
from agents.logic.replicas.ehpa_manifest import PREDICTED, ehpa_of
from schemas.bounds import MOST_CRONS, MOST_FORECASTS
from schemas.catalogue import Event
from schemas.facts.replica_scaling import series_id
from schemas.policies.ehpa import (
    EhpaChanged,
    EhpaRemoved,
    PredictionMetric,
    TimeSeriesPredictionChanged,
    TimeSeriesPredictionRemoved,
)
from schemas.policies.scaling import AlgorithmOptions

# Decides which objects of a namespace get served: by age, each that still fits into the namespace's share.
# If several EHPAs have one target, the oldest scales it. All of this is derived from the objects and is not part of the state.


@dataclass(frozen=True, slots=True)
class SharingObject:
    """What matters of an object: its age and name, its metrics, the workload that it would scale ("" for none), and its crons."""

    rank: tuple[float, str]
    metrics: int
    scales: str = ""
    crons: int = 0

    @classmethod
    def of(cls, event: EhpaChanged | TimeSeriesPredictionChanged) -> "SharingObject":
        """What matters of an EHPA or a TimeSeriesPrediction; the latter has no crons and scales nothing."""
        if isinstance(event, TimeSeriesPredictionChanged):
            return cls(event.rank, len(event.metrics))
        return cls(event.rank, len(event.metrics), event.claims, len(event.crons))


class NamespaceShares:
    """The objects of all namespaces of a partition."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, SharingObject]] = {}
        self._touched: dict[str, set[str]] = {}
        self._refused: dict[str, dict[str, str]] = {}
        """By namespace: the keys of refused objects, each with what the namespace has too many of."""
        self._scaled: dict[str, dict[str, str]] = {}
        """By namespace: the key of the EHPA that scales each target."""

    def put(self, key: str, new: SharingObject) -> None:
        """Add an object, or replace it by its current version."""
        self._touch(key)[key] = new

    def remove(self, key: str) -> None:
        """Drop an object that is gone."""
        self._touch(key).pop(key, None)

    def settle(self) -> list[str]:
        """Share again where something changed. Returns the sorted keys that appeared, changed, disappeared or were reassessed."""
        changed: set[str] = set()
        for namespace, keys in self._touched.items():
            changed |= keys | self._share(namespace)
        self._touched.clear()
        return sorted(changed)

    def is_refused(self, key: str) -> bool:
        """Whether what older objects leave of the namespace's share is too little for this object."""
        return key in self._refused.get(_namespace(key), ())

    def exceeded(self, key: str) -> str:
        """What the namespace has too many of to serve this object: "metrics" or "crons"; "" if the object is served."""
        return self._refused.get(_namespace(key), {}).get(key, "")

    def scaled_by(self, target: str) -> str | None:
        """The key of the EHPA that scales a workload."""
        return self._scaled.get(_namespace(target), {}).get(target)

    def _touch(self, key: str) -> dict[str, SharingObject]:
        namespace = _namespace(key)
        self._touched.setdefault(namespace, set()).add(key)
        return self._objects.setdefault(namespace, {})

    def _share(self, namespace: str) -> set[str]:
        """Go through the objects of a namespace by age. Returns the keys whose verdict changed."""
        objects, before = self._objects[namespace], self._refused.get(namespace, {})
        refused, scaled, taken, crons = dict[str, str](), dict[str, str](), 0, 0
        # By age, so that no new object can take what an old one has. By key among those of one second.
        for key, rival in sorted(objects.items(), key=lambda item: (item[1].rank, item[0])):
            if rival.scales:
                scaled.setdefault(rival.scales, key)
            # Each forecast metric takes 85 kB and a fit every few minutes, and each cron a look in every round, so that a tenant
            # with thousands of objects would starve all others. An object without a metric takes a place as well.
            counts = max(1, rival.metrics)
            if taken + counts > MOST_FORECASTS:
                refused[key] = "metrics"
            elif crons + rival.crons > MOST_CRONS:
                refused[key] = "crons"
            else:
                taken, crons = taken + counts, crons + rival.crons
        self._refused[namespace], self._scaled[namespace] = refused, scaled
        if not objects:
            for table in (self._objects, self._refused, self._scaled):
                del table[namespace]
        return {key for key in before | refused if before.get(key) != refused.get(key)}


def _namespace(key: str) -> str:
    """The cluster and namespace of a key."""
    return key[: key.index("/", key.index("/") + 1)]


_RESOURCES = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class WantedSeries:
    """One series of a workload. `query` returns it; "" if no query does."""

    identifier: str
    workload: str
    series: str
    query: str  # It returns the series; "" if no query does.
    # The forecaster sums it up from pod usage, so the query serves only for its history.
    scraped: bool = False
    options: AlgorithmOptions | None = None  # How to forecast it; None for a value that is only observed.
    # The query in the form for one server, which may hold several clusters.
    asked: str = ""
    # A tenant wrote the query, or the name of the metric that the default query has as it stands.
    by_tenant: bool = False


def of_ehpa(event: EhpaChanged, matchers: Sequence[str] = ()) -> list[WantedSeries]:
    """The series that an EHPA needs; none if it cannot be carried out. `matchers` are added to default queries."""
    try:
        ehpa = ehpa_of(event)
        metrics = ehpa.metrics
    except ValueError:
        return []
    options = None
    if ehpa.prediction is not None and event.prediction is not None:
        options = event.prediction.algorithm
    series_of: dict[str, WantedSeries] = {}
    for metric in metrics:
        own_query = ehpa.queries.get(metric.identifier) or event.queries.get(metric.identifier)
        query = own_query or metric_queries.query(ehpa, metric) or ""
        # What the source of pod usage reads anyway is not asked for a second time.
        scraped = not own_query and metric.kind == "Resource" and metric.name in _RESOURCES
        series = series_id(metric.identifier, "" if scraped else query)
        forecast = options if metric.kind in PREDICTED else None
        asked = query if own_query or not matchers else metric_queries.query(ehpa, metric, more=matchers) or ""
        of_tenant = bool(ehpa.queries.get(metric.identifier)) or (not own_query and metric.kind in ("Pods", "External"))
        # Of two metrics with one identifier the first counts, as in upstream.
        series_of.setdefault(
            metric.identifier, WantedSeries(metric.identifier, event.target, series, query, scraped, forecast, asked, of_tenant)
        )
    return list(series_of.values())


def of_prediction(event: TimeSeriesPredictionChanged) -> list[WantedSeries]:
    """The series that a TimeSeriesPrediction needs; none if it belongs to an EHPA or cannot be carried out."""
    if event.unsupported or event.owner_uid or not event.target:
        return []
    return [_of_metric(event, metric) for metric in event.metrics]


def _of_metric(event: TimeSeriesPredictionChanged, metric: PredictionMetric) -> WantedSeries:
    scraped = metric.type == "ResourceQuery" and metric.resource in _RESOURCES
    identifier = f"resource.{metric.resource}" if scraped else metric.identifier
    query = metric.expression if metric.type == "ExpressionQuery" else ""
    options = metric.algorithm or AlgorithmOptions()
    series = series_id(identifier, "" if scraped else query)
    return WantedSeries(metric.identifier, event.target, series, query, scraped, options, query, bool(query))


def ring_key(wanted: WantedSeries) -> str:
    """The name of a wanted series, unique across all workloads."""
    return series_key(wanted.workload, wanted.series)


def series_key(workload: str, series: str) -> str:
    """The name of a workload's series, unique across all workloads."""
    return f"{workload}|{series}"


def model_key(object_key: str, wanted: WantedSeries) -> str:
    """The name of the model of one metric of one object."""
    return f"{object_key}|{wanted.identifier}"


class WantedIndex:
    """The series that the objects of a partition want, by object, by series and by workload; no part of the state."""

    def __init__(self) -> None:
        self._of: dict[str, list[WantedSeries]] = {}
        self._users: dict[str, set[str]] = {}
        self._objects: dict[str, set[str]] = {}
        self._workload: dict[str, str] = {}

    def put(self, object_key: str, wanted: Iterable[WantedSeries], workload: str) -> list[str]:
        """Replace what an object wants by these series of a workload. Returns the names of series that nobody wants any more."""
        gone = self.remove(object_key)
        self._of[object_key] = list(wanted)
        if workload:
            self._workload[object_key] = workload
            self._objects.setdefault(workload, set()).add(object_key)
        for series in self._of[object_key]:
            self._users.setdefault(ring_key(series), set()).add(object_key)
        # Only now: a series that the object still wants was dropped above and has its user back.
        return [name for name in gone if name not in self._users]

    def remove(self, object_key: str) -> list[str]:
        """Drop all that an object wants. Returns the names of series that nobody wants any more."""
        gone = []
        for name in map(ring_key, self._of.pop(object_key, ())):
            users = self._users.get(name, set())
            users.discard(object_key)
            if not users and self._users.pop(name, None) is not None:
                gone.append(name)
        workload = self._workload.pop(object_key, "")
        if workload:
            self._objects[workload].discard(object_key)
            if not self._objects[workload]:
                del self._objects[workload]
        return gone

    def of(self, object_key: str) -> list[WantedSeries]:
        """The series that an object wants."""
        return self._of.get(object_key, [])

    def users(self, name: str) -> list[str]:
        """The keys of the objects that want a series, in order."""
        return sorted(self._users.get(name, ()))

    def wants(self, name: str) -> bool:
        """Whether somebody wants a series."""
        return name in self._users

    def objects(self, workload: str) -> list[str]:
        """The keys of the objects that are about a workload, in order."""
        return sorted(self._objects.get(workload, ()))

    def is_wanted(self, workload: str) -> bool:
        """Whether some object is about a workload."""
        return workload in self._objects

    def scraped(self, workload: str) -> Iterator[WantedSeries]:
        """The series of a workload that are summed up from its pods' usage, each once."""
        seen: set[str] = set()
        for key in self.objects(workload):
            for series in self.of(key):
                if series.scraped and series.series not in seen:
                    seen.add(series.series)
                    yield series


class WantedLoads:
    """Which queries the EHPAs and TimeSeriesPredictions of one cluster need. Objects with more than `most` metrics get none.

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
        wanted = of_ehpa(event, self._matchers) if isinstance(event, EhpaChanged) else of_prediction(event)
        # The forecaster refuses an object with too many metrics as a whole, so that nobody would read their values.
        return [series for series in wanted if series.query] if len(wanted) <= self._most and event.target else []

    def _forget(self, key: str) -> None:
        before = self._objects.pop(key, None)
        self._wanted.pop(key, None)
        if before is not None:
            self._share(before).remove(key)

    def _share(self, event: EhpaChanged | TimeSeriesPredictionChanged) -> NamespaceShares:
        return self._shares.setdefault(self._partition_of(event.target or event.key), NamespaceShares())
