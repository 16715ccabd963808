"""Runs `ullage recommendations --of replicas` and `--of nodes`: both from pods, usage and forecasts in the log.

Pods and nodes are published again every three hours, so the last hours of the log have all of them. Usage is added up by workload
and scrape over the requested time, together with the newest forecast of a workload.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from agents.logic.replicas import fleet_recommendations
from agents.logic.replicas.fleet_recommendations import RecommendedReplicas, ReplicaNeeds
from agents.settings import log_factory, setting_texts
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import OutputForm, Row
from agents.why import event_descriptions
from schemas.decisions.replica_plans import LoadForecast
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodDeleted
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts
from streams import reverse_log_reader, truncated_topics
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog

_REACH = timedelta(hours=8)
"""How far before the newest tick pods and nodes are looked for."""
_FIXED = ("CronJob", "DaemonSet", "Job", "Node", "Pod")
"""Kinds that nobody scales: nothing has so many replicas as are asked for."""
_Usage = dict[tuple[str, str, str], float]
"""By workload, pod and container."""
NEEDS = ReplicaNeeds()
_SPARE = ("memory p95", "cpu p95", "pods", "action", "why")
_COLUMNS = {
    "nodes": ("node", "pods", "why"),
    "replicas": ("workload", "pods", "recommended", "by", "cpu p95", "memory p95", "why"),
}


@dataclass(slots=True)
class Fleet:
    """The pods of a cluster by uid, and its nodes by name, as they are now."""

    pods: dict[str, PodChanged] = field(default_factory=dict)
    nodes: dict[str, NodeChanged] = field(default_factory=dict)

    def by_workload(self) -> Mapping[str, list[PodChanged]]:
        """The pods that have not ended, by the key of their workload."""
        workloads: dict[str, list[PodChanged]] = {}
        for pod in self.pods.values():
            if pod.phase not in ENDED_PHASES:
                workloads.setdefault(pod.workload.key, []).append(pod)
        return workloads


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A workload: pods now, the requests of one, and how many there should be; `why` says why nothing is recommended."""

    workload: str
    pods: int
    request: Amounts
    recommended: RecommendedReplicas | None
    why: str = ""


def run(settings: Settings, of: str, namespaces: Sequence[str], form: OutputForm, since: timedelta) -> None:
    """Print the rows. Raises BadInput for a cluster that no source has named."""

    def rows(context: LogContext, fleet: Fleet, now: datetime) -> list[Row]:
        if of == "nodes":
            whys = "it has no pod", "all of them belong to DaemonSets"
            return [{"node": name, "pods": count, "why": whys[count > 0]} for name, count in idle_nodes(fleet)]
        return [_shown(row) for row in replica_rows(context, fleet, now, since) if is_of(row.workload, namespaces)]

    print_rows(settings, form, _COLUMNS[of], rows)


def print_rows(
    settings: Settings, form: OutputForm, columns: Sequence[str], rows: Callable[[LogContext, Fleet, datetime], list[Row]]
) -> None:
    """Print the rows of what a cluster has at the newest tick. Raises BadInput for a cluster that no source has named."""
    with log_factory.context_to_read(settings) as (context, _):
        source_reports.require_cluster(context, context.cluster)
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            note("the log has no time yet: no clock has ticked")
            return
        printed = rows(context, read_fleet(context, tick.at), tick.at)
        lost = truncated_topics.sentence(
            truncated_topics.late_starts(context.log, context.topics, ("pod-changes", "cluster-changes"), before=tick.at - _REACH)
        )

    if not printed:
        note(f"nothing is recommended for cluster '{settings.cluster.name}' at {tick.at:%Y-%m-%d %H:%M:%S} UTC")
    if lost:
        note(f"rows may be missing; {lost}")
    for line in output_table.lines(form, printed, printed, columns, _SPARE):
        data(line)


def is_of(workload: str, namespaces: Sequence[str]) -> bool:
    """Whether a workload, by its key, is in one of these namespaces; in any, where none is given."""
    return setting_texts.is_of_namespaces(namespaces, workload.split("/")[1])


def read_fleet(context: LogContext, now: datetime) -> Fleet:
    """The pods and nodes of the context's cluster."""
    # the first record of a pod or a node is what counts, whether it says that it is there or gone
    pods, nodes = dict[str, PodChanged | PodDeleted](), dict[str, NodeChanged | NodeRemoved]()
    for _, event in newest_first(context, "pod-changes", now - _REACH):
        if isinstance(event, PodChanged | PodDeleted) and event.workload.cluster == context.cluster:
            pods.setdefault(event.pod.uid, event)
    for _, event in newest_first(context, "cluster-changes", now - _REACH):
        if isinstance(event, NodeChanged | NodeRemoved) and event.cluster == context.cluster:
            nodes.setdefault(event.node, event)
    return Fleet(
        {uid: pod for uid, pod in pods.items() if isinstance(pod, PodChanged)},
        {name: node for name, node in nodes.items() if isinstance(node, NodeChanged)},
    )


def newest_first(context: LogContext, topic: str, since: datetime) -> Iterator[tuple[Record, object]]:
    """The records of a topic and their events, from the newest back to a moment."""
    for stretch in reverse_log_reader.since(context.log, context.topics.wire(topic), since):
        for record in reversed(stretch):
            yield record, context.codec.decode_or_none(record)


def newest(pods: Sequence[PodChanged]) -> PodChanged:
    """The pod that began last."""
    return max(pods, key=lambda pod: (pod.created, pod.pod.uid))


def idle_nodes(fleet: Fleet) -> Iterator[tuple[str, int]]:
    """The nodes that may go, by name, and how many pods of DaemonSets each has."""
    owners: dict[str, list[str]] = {name: [] for name in fleet.nodes}
    for pod in fleet.pods.values():
        if pod.node in owners and pod.phase not in ENDED_PHASES:
            owners[pod.node].append(pod.controller.partition("/")[0] or pod.workload.kind)
    return ((name, len(kinds)) for name, kinds in sorted(owners.items()) if fleet_recommendations.idle(kinds))


def replica_rows(context: LogContext, fleet: Fleet, now: datetime, since: timedelta) -> list[ReplicaRow]:
    """A row for each workload that can be scaled and has pods, by key."""
    # all pods of a workload have its kind
    workloads = {key: pods for key, pods in fleet.by_workload().items() if pods[0].workload.kind not in _FIXED}
    cpu, memory = _usage(context, workloads, now - since)
    forecasts = _forecasts(context, workloads, now)
    return [_row(key, pods, [*cpu[key], *forecasts.get(key, ())], memory[key]) for key, pods in sorted(workloads.items())]


def _row(key: str, pods: Sequence[PodChanged], cpu: Sequence[float], memory: Sequence[float]) -> ReplicaRow:
    request = _sum([container.requests for container in newest(pods).containers])
    ready = sum(all(container.ready for container in pod.containers) for pod in pods)
    if len(pods) < NEEDS.least or ready < NEEDS.ready * len(pods):
        return ReplicaRow(key, len(pods), request, None, f"only {ready} of {len(pods)} pods are ready")
    recommended = fleet_recommendations.replicas(np.array(cpu), np.array(memory), request, NEEDS)
    return ReplicaRow(key, len(pods), request, recommended, "" if recommended else "no usage is known, or a pod requests nothing")


def _usage(
    context: LogContext, workloads: Mapping[str, object], since: datetime
) -> tuple[Mapping[str, list[float]], Mapping[str, list[float]]]:
    """Totals of each workload, one for each minute: a scrape may come in several records, and a container in several scrapes."""
    cpu: dict[str, list[float]] = {key: [] for key in workloads}
    memory: dict[str, list[float]] = {key: [] for key in workloads}
    minutes: dict[int, tuple[_Usage, _Usage]] = {}
    for stretch in reverse_log_reader.since(context.log, context.topics.wire("pod-metrics"), since):
        oldest: dict[int, int] = {}
        for record in reversed(stretch):
            event = context.codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.at >= since:
                oldest[record.partition] = minute = int(event.at.timestamp() // 60)
                for usage, column in zip(minutes.setdefault(minute, ({}, {})), (event.cores, event.memory), strict=True):
                    for workload, pod, container, value in zip(
                        event.workloads, event.pods, event.containers, column, strict=True
                    ):
                        if workload in workloads and not math.isnan(value):
                            # records are read from the newest on, so the first row of a minute is the one that counts
                            usage.setdefault((workload, pod, container), float(value))
        for minute in [minute for minute in minutes if oldest and minute > max(oldest.values())]:
            # no older record can belong to such a minute, and a day of single rows would not fit in memory
            _add_up(minutes.pop(minute), (cpu, memory))
    for usages in minutes.values():
        _add_up(usages, (cpu, memory))
    return cpu, memory


def _add_up(minute: tuple[_Usage, _Usage], totals: tuple[dict[str, list[float]], dict[str, list[float]]]) -> None:
    for usage, total_by_workload in zip(minute, totals, strict=True):
        summed = Counter[str]()
        for (workload, _, _), value in usage.items():
            summed[workload] += value  # type: ignore[assignment]  # a sum of floats
        for workload, total in summed.items():
            total_by_workload[workload].append(float(total))


def _forecasts(context: LogContext, workloads: Mapping[str, object], now: datetime) -> Mapping[str, Sequence[float]]:
    """The CPU that is forecast for workloads."""
    forecasts: dict[str, Sequence[float]] = {}
    for _, event in newest_first(context, "load-forecasts", now - _REACH):
        if isinstance(event, LoadForecast) and event.workload.key in workloads and event.workload.key not in forecasts:
            # without the margin, where the model has one
            values = [m.expected or m.values for m in event.metrics if m.identifier == "resource.cpu"]
            forecasts[event.workload.key] = values[0] if values and not event.withdrawn else ()
    return forecasts


def _sum(amounts: Sequence[Amounts]) -> Amounts:
    cpu, memory = sum(amount.cpu or 0.0 for amount in amounts), sum(amount.memory or 0 for amount in amounts)
    return Amounts(cpu or None, memory or None)  # type: ignore[arg-type]  # sums of units


def _shown(row: ReplicaRow) -> Row:
    recommended = row.recommended
    return {
        "workload": row.workload.partition("/")[2],
        "pods": row.pods,
        "recommended": None if recommended is None else recommended.replicas,
        "by": "" if recommended is None else recommended.by,
        "cpu p95": "" if recommended is None else event_descriptions.amount(cpu=recommended.cpu),
        "memory p95": "" if recommended is None else event_descriptions.amount(memory=int(recommended.memory)),
        "why": row.why,
    }
