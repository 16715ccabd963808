"""Which loads the objects of a cluster need: the series of each metric, and its query.

The source of loads and the forecaster both use this module, so that one reads exactly what the other waits for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.logic.replicas import metric_queries
from agents.logic.replicas.ehpa_manifest import PREDICTED
from agents.logic.replicas.ehpa_objects import ehpa_of
from schemas.facts.load import series_id
from schemas.policies.ehpa import EhpaChanged, PredictionMetric, TimeSeriesPredictionChanged
from schemas.policies.scaling import AlgorithmOptions

_RESOURCES = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class WantedSeries:
    """One series of a workload. `query` returns it; "" if no query does.

    `scraped`: the forecaster sums it up from pod usage, so the query serves only for its history. `options`: how to forecast it;
    None for a value that is only observed. `asked`: the query in the form for one server, which may hold several clusters.
    `by_tenant`: a tenant wrote the query, or the name of the metric that the default query has as it stands.
    """

    identifier: str
    workload: str
    series: str
    query: str
    scraped: bool = False
    options: AlgorithmOptions | None = None
    asked: str = ""
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
