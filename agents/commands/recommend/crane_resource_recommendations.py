"""Runs `ullage recommendations --of workloads`: what each container of a workload should request by Crane's own rules.

It uses pods, usage and OOM kills in the log, over the histories that these rules need, or over the given time. It is for
comparisons and for users of Crane; Ullage acts on `--of requests`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter

import numpy as np

from agents.commands.recommend.replica_and_node_recommendations import Fleet, is_of, newest, print_rows
from agents.logic.forecast.percentile_predictor import Percentiles, PercentileSettings
from agents.logic.replicas import fleet_recommendations
from agents.logic.replicas.fleet_recommendations import Estimators, RecommendedResources, ResourceNeeds
from agents.settings.all_settings import Settings
from agents.terminal.output_table import OutputForm, Row
from agents.why import event_descriptions
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts
from schemas.units import Bytes, Seconds
from streams import reverse_log_reader
from streams.errors import BadInput
from streams.log_context import LogContext

_COLUMNS = ("workload", "container", "pods", "cpu now → target", "memory now → target", "action", "why")
_amount = partial(event_descriptions.amount, "-")
_Key = tuple[str, str]
"""Workload and container."""


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """Whose rules, over how much of the past (theirs, if None), and the sizes to round up to."""

    estimators: Estimators = Estimators.RECOMMENDER
    history: timedelta | None = None
    sizes: tuple[Amounts, ...] = ()

    @property
    def needs(self) -> ResourceNeeds:
        """The rules' settings."""
        needs = fleet_recommendations.NEEDS[self.estimators]
        if self.history is None:
            return needs
        seconds = Seconds(self.history.total_seconds())
        return replace(needs, cpu_history=seconds, memory_history=seconds)


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A container: what it requests, and what it should; `why` says why nothing is recommended, or that a kill counted."""

    workload: str
    container: str
    pods: int
    request: Amounts
    recommended: RecommendedResources | None
    why: str = ""


def options(by: str, history: timedelta | None, sizes: str) -> ResourceOptions:
    """As a command's flags say. Raises BadInput."""
    try:
        return ResourceOptions(Estimators(by), history, fleet_recommendations.sizes_of(sizes))
    except ValueError as error:
        raise BadInput(f"--sizes: {error}") from error


def run(settings: Settings, namespaces: Sequence[str], form: OutputForm, how: ResourceOptions) -> None:
    """Print the rows. Raises BadInput for a cluster that no source has named."""

    def rows(context: LogContext, fleet: Fleet, now: datetime) -> list[Row]:
        return [_shown(row) for row in resource_rows(context, fleet, now, how) if is_of(row.workload, namespaces)]

    print_rows(settings, form, _COLUMNS, rows)


def resource_rows(context: LogContext, fleet: Fleet, now: datetime, how: ResourceOptions) -> list[ResourceRow]:
    """A row for each container of each workload that has pods, by key."""
    containers = {
        (workload, container.name): (len(pods), container.requests)
        for workload, pods in fleet.by_workload().items()
        for container in newest(pods).containers
    }
    rows = {key: row for row, key in enumerate(containers)}
    cpu, memory = _estimates(context, rows, now, how.needs)
    kills = _kills(context, containers, now)
    result = []
    for key, (pods, request) in sorted(containers.items(), key=itemgetter(0)):
        estimates, killed = (cpu[rows[key]], memory[rows[key]]), kills.get(key)
        recommended = fleet_recommendations.recommend(estimates, request, killed, how.needs, how.sizes)
        why = (
            f"killed for want of memory at a request of {event_descriptions.amount(memory=killed)}" if killed is not None else ""
        )
        result.append(ResourceRow(*key, pods, request, recommended, why if recommended else "not enough usage is known"))
    return result


class _Samples:
    """A resource's histograms, one for each container over all its pods. A container without a sample has no estimate."""

    def __init__(self, rows: Mapping[_Key, int], since: datetime, settings: PercentileSettings) -> None:
        self.since, self._rows = since, rows
        self._percentiles = Percentiles("samples", settings)
        for workload, container in rows:
            self._percentiles.rows.add((workload, container))
        self._counts = np.zeros(len(rows), np.int64)

    def add(self, event: MetricsScraped, column: Sequence[float]) -> None:
        """The containers of one scrape."""
        if event.at < self.since:
            return
        keys = zip(event.workloads, event.containers, column, strict=True)
        # a container without a sample of this resource is NaN in a scrape, and one infinite value would spoil a histogram
        samples = [(self._rows[w, c], float(value)) for w, c, value in keys if (w, c) in self._rows and math.isfinite(value)]
        if samples:
            rows, values = np.array([row for row, _ in samples]), np.array([value for _, value in samples])
            self._percentiles.add(rows, values, event.at.timestamp())
            np.add.at(self._counts, rows, 1)

    def estimates(self) -> list[float]:
        """By row; NaN where nothing was seen."""
        estimates = self._percentiles.estimates(np.arange(len(self._rows)))
        # an empty histogram's percentile is its first bucket, which is no estimate
        return [float(value) if count else math.nan for value, count in zip(estimates, self._counts, strict=True)]


def _estimates(
    context: LogContext, rows: Mapping[_Key, int], now: datetime, needs: ResourceNeeds
) -> tuple[list[float], list[float]]:
    """Estimates of CPU in cores and memory in bytes, by row, of each sample of the histories that are asked for."""
    reach = {name: now - timedelta(seconds=span) for name, span in (("cpu", needs.cpu_history), ("memory", needs.memory_history))}
    cpu, memory = _Samples(rows, reach["cpu"], needs.cpu), _Samples(rows, reach["memory"], needs.memory)
    for event in _events(context, "pod-metrics", min(reach.values())):
        if isinstance(event, MetricsScraped):
            cpu.add(event, event.cores)
            memory.add(event, event.memory)
    return cpu.estimates(), memory.estimates()


def _kills(context: LogContext, containers: Mapping[_Key, object], now: datetime) -> dict[_Key, Bytes]:
    """The largest request at which a container was OOM-killed in the last seven days."""
    since, kills = now - timedelta(seconds=fleet_recommendations.OOM_REACH), dict[_Key, Bytes]()
    for event in _events(context, "oom-events", since):
        if isinstance(event, ContainerOOMKilled) and event.at >= since and event.memory_request is not None:
            key = event.workload.key, event.container
            if key in containers:
                kills[key] = max(event.memory_request, kills.get(key, event.memory_request))
    return kills


def _events(context: LogContext, topic: str, since: datetime) -> Iterator[object]:
    for stretch in reverse_log_reader.since(context.log, context.topics.wire(topic), since):
        for record in stretch:
            yield context.codec.decode_or_none(record)


def _shown(row: ResourceRow) -> Row:
    target = Amounts() if row.recommended is None else row.recommended.target
    action = "" if row.recommended is None else "Patch" if row.recommended.changes else "None"
    return {
        "workload": row.workload.partition("/")[2],
        "container": row.container,
        "pods": row.pods,
        "cpu now → target": f"{_amount(cpu=row.request.cpu)} → {_amount(cpu=target.cpu)}",
        "memory now → target": f"{_amount(memory=row.request.memory)} → {_amount(memory=target.memory)}",
        "action": action,
        "why": row.why,
    }
