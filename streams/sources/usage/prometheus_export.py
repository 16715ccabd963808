"""Writes what a metrics store has of a period as a usage trace: the Parquet file that backtests and scans read.

Usage and its peaks come from cAdvisor's metrics; owners, requests, limits and OOM kills from kube-state-metrics. Requests and
limits are the last ones of each container, because only those are queried. A kill counts if its container started again; one that
ended its pod does not show. It is for clusters of which only the metrics server can be reached; an API server knows more: here a
controller of an unknown kind counts as the topmost one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from schemas.bounds import MOST_NUMBER
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.answer_bounds import number
from streams.clients.prometheus import Prometheus, Series, duration
from streams.errors import BadInput
from streams.sources.usage.history_source import HistoryPeriod, UsageHistory, UsageMatrix
from streams.sources.usage.pod_workloads import PodKey
from streams.sources.usage.promql import MetricNames, matchers, oom_restarts, selector
from streams.sources.usage.readings import ContainerId

_ABOVE: Mapping[str, str] = {"ReplicaSet": "replicaset", "Job": "job_name"}
"""Controllers that may have one above them, and the label of their own name in the metric about it."""
_KINDS = ("requests", "limits")


@dataclass(frozen=True, slots=True)
class ExportedPod:
    """A pod of the past or of now. `alive`: whether it exists now."""

    event: PodChanged
    alive: bool


@dataclass(frozen=True, slots=True)
class ExportedPods:
    """The pods of one cluster in one server, from `length` before `at` on; `labels` distinguish it from other clusters there."""

    server: Prometheus
    cluster: str
    at: datetime
    length: Seconds
    labels: tuple[str, ...] = ()

    def read(self) -> list[ExportedPod]:
        """All pods, by name. Raises TryAgain, GiveUp, and BadInput for a server without metrics of kube-state-metrics."""
        above = {kind: self._owners(f"kube_{kind.lower()}_owner", label) for kind, label in _ABOVE.items()}
        owners = self._owners("kube_pod_owner", "pod")
        if not owners:
            raise BadInput(
                f"'{self.server.url}' has no 'kube_pod_owner' of the last {duration(self.length)}, so nobody scrapes "
                "kube-state-metrics; name the cluster instead (--kubeconfig, --context), and its API server is asked for pods"
            )
        amounts = {what: self._amounts(f"kube_pod_container_resource_{what}") for what in _KINDS}
        labels = {_pod(series): _labels(series) for series in self._ask("kube_pod_labels", "pod")}
        alive = {_pod(series) for series in self.server.query(f"kube_pod_owner{self._selector}", self.at)}
        pods = []
        for name, (kind, owner) in sorted(owners.items()):
            workload = self._topmost(name, kind, owner, above)
            containers = tuple(self._containers(name, amounts))
            # cAdvisor's metrics have no uid, and in a trace the name will do.
            pod = PodName(*name, f"{name[0]}/{name[1]}")
            event = PodChanged(self.at, workload, pod, PodPhase.RUNNING, self.at, containers, labels=labels.get(name, {}))
            pods.append(ExportedPod(event, name in alive))
        return pods

    def _ask(self, metric: str, *names: str) -> list[Series]:
        """The present series of each object; the last value of each series of an object that has none now.

        `names` are the labels that name an object in its namespace.
        """
        # Each start of kube-state-metrics may begin new series, by labels that the server adds: where there is a present one, the
        # old ones say what no longer holds.
        now = f"{metric}{self._selector}"
        past = f"last_over_time({now}[{duration(self.length)}])"
        return self.server.query(f"{now} or on ({', '.join(('namespace', *names))}) {past}", self.at)

    @property
    def _selector(self) -> str:
        return selector(matchers(self.labels))

    def _owners(self, metric: str, label: str) -> dict[PodKey, tuple[str, str]]:
        """Kind and name of the owner of each object, by its namespace and name; empty for one without an owner."""
        return {
            (series.metric.get("namespace", ""), series.metric.get(label, "")): _owner(series.metric)
            for series in self._ask(metric, label)
        }

    def _topmost(self, pod: PodKey, kind: str, owner: str, above: Mapping[str, Mapping[PodKey, tuple[str, str]]]) -> Workload:
        if not kind:
            return Workload(self.cluster, pod[0], "Pod", pod[1])
        higher, name = above.get(kind, {}).get((pod[0], owner), ("", ""))
        return Workload(self.cluster, pod[0], higher or kind, name or owner)

    def _amounts(self, metric: str) -> dict[PodKey, dict[str, dict[str, float]]]:
        """By pod, container and resource."""
        amounts: dict[PodKey, dict[str, dict[str, float]]] = {}
        for series in self._ask(metric, "pod", "container", "resource"):
            resource, value = series.metric.get("resource", ""), _number(series)
            if resource in {"cpu", "memory"} and value is not None:
                amounts.setdefault(_pod(series), {}).setdefault(series.metric.get("container", ""), {})[resource] = value
        return amounts

    def _containers(
        self, pod: PodKey, amounts: Mapping[str, Mapping[PodKey, dict[str, dict[str, float]]]]
    ) -> Iterator[ContainerSeen]:
        requests, limits = (amounts[what].get(pod, {}) for what in _KINDS)
        for name in sorted(requests.keys() | limits.keys()):
            yield ContainerSeen(name, _as_amounts(requests.get(name, {})), _as_amounts(limits.get(name, {})))


def _as_amounts(amounts: Mapping[str, float]) -> Amounts:
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(int(memory)))


def _owner(labels: Mapping[str, str]) -> tuple[str, str]:
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    # Kube-state-metrics writes `<none>` where there is no owner.
    return ("", "") if kind in {"", "<none>"} or not name else (kind, name)


def _pod(series: Series) -> PodKey:
    return series.metric.get("namespace", ""), series.metric.get("pod", "")


def _labels(series: Series) -> dict[str, str]:
    return {name.removeprefix("label_"): value for name, value in series.metric.items() if name.startswith("label_")}


def _number(series: Series) -> float | None:
    value = float("nan") if series.value is None else number(series.value[1])
    return value if 0 <= value <= MOST_NUMBER else None


_ROWS = "who integer, timestamp_s double, cpu_cores double, memory_bytes double, memory_bytes_max double, oom_kills double"
_NAMES = (
    "who integer, namespace varchar, workload varchar, workload_kind varchar, pod varchar, container varchar, "
    "cpu_request_cores double, memory_request_bytes double, cpu_limit_cores double, memory_limit_bytes double"
)

_AMOUNTS = ("cpu_request_cores", "memory_request_bytes", "cpu_limit_cores", "memory_limit_bytes")
_NAMED = ", ".join(
    ["who", "namespace", "workload", "workload_kind", "pod", "container", *(f"nullif({name}, 'nan')" for name in _AMOUNTS)]
)


class StoredTrace:
    """The usage of one period in one server. `names` say what metrics are called there."""

    def __init__(self, server: Prometheus, names: MetricNames, period: HistoryPeriod) -> None:
        """Asks nothing yet."""
        self._names, self._period = names, period
        self._history, self._kills = UsageHistory(server, names, period.step), UsageHistory(server, MetricNames(), period.step)
        self._exported = ExportedPods(server, "stored", period.end, Seconds(period.length + period.step), names.labels)

    def write(self, to: Path) -> Iterator[int]:
        """Write the file; yields again and again how many rows there are by then.

        Raises TryAgain and GiveUp, and BadInput for a server that has nothing of the period or no metrics of kube-state-metrics,
        and for a file that cannot be written.
        """
        # Only where it is used, so that other commands need not load it.
        import duckdb

        pods = {(pod.event.pod.namespace, pod.event.pod.name): pod.event for pod in self._exported.read()}
        numbers: dict[ContainerId, int] = {}
        rows = 0
        with TemporaryDirectory(prefix="ullage-stored-") as folder, duckdb.connect(f"{folder}/rows.duckdb") as db:
            db.execute(f"create table rows ({_ROWS}); create table names ({_NAMES})")
            for matrix in self._history.matrices(self._period.start.timestamp(), self._period.end.timestamp()):
                columns = self._columns(matrix, numbers)
                db.register("columns", columns)
                db.execute("insert into rows select * from columns")
                rows += len(columns["who"])
                yield rows
            if not rows:
                stretch = f"the {duration(self._period.length)} before {self._period.end:%Y-%m-%d %H:%M} UTC"
                raise BadInput(f"'{self._history.server.url}' has no usage of containers in {stretch}")
            db.register("named", _named(numbers, pods))
            db.execute(f"insert into names select {_NAMED} from named")  # noqa: S608  # columns that are named above
            try:
                db.sql("select * exclude (who) from names join rows using (who) order by timestamp_s, who").write_parquet(str(to))
            except duckdb.IOException as error:
                raise BadInput(f"the trace '{to}' cannot be written: {str(error).splitlines()[0]}") from error

    def _columns(self, matrix: UsageMatrix, numbers: dict[ContainerId, int]) -> dict[str, Any]:
        """The rows in which something was seen, by column. A container without a number gets the next."""
        there = ~(np.isnan(matrix.cores) & np.isnan(matrix.memory))
        container, moment = np.nonzero(there)
        who = np.array([numbers.setdefault(name, len(numbers)) for name in matrix.containers], dtype=np.int32)
        peaks = self._history.aligned(self._names.memory_peak(self._period.step), matrix.containers, matrix.moments)
        kills = self._kills.aligned(oom_restarts(self._period.step, self._names.labels), matrix.containers, matrix.moments)
        # Cut to whole millicores and bytes, as the history source cuts them: a scan of the file says what one of the server says.
        return {
            "who": who[container],
            "timestamp_s": np.array(matrix.moments)[moment],
            "cpu_cores": np.trunc(matrix.cores[there] * 1000) / 1000,
            "memory_bytes": np.trunc(matrix.memory[there]),
            "memory_bytes_max": peaks[there],
            "oom_kills": kills[there],
        }


def _named(numbers: Mapping[ContainerId, int], pods: Mapping[PodKey, PodChanged]) -> dict[str, Any]:
    """The names and amounts of all containers, by column; an amount that nobody set is NaN."""
    whos, *texts, cpu, memory, most_cpu, most_memory = zip(*(_row(name, who, pods) for name, who in numbers.items()), strict=True)
    amounts = dict(zip(_AMOUNTS, (cpu, memory, most_cpu, most_memory), strict=True))
    words = dict(zip(("namespace", "workload", "workload_kind", "pod", "container"), texts, strict=True))
    return {
        "who": np.array(whos, dtype=np.int32),
        **{name: np.array(column, dtype=object) for name, column in words.items()},
        **{name: np.array(column, dtype=np.float64) for name, column in amounts.items()},
    }


def _row(name: ContainerId, who: int, pods: Mapping[PodKey, PodChanged]) -> tuple[str | float | None, ...]:
    """A container's names and what it requested. A pod that was not exported is a workload of its own."""
    namespace, pod, container = name
    seen = pods.get((namespace, pod))
    kind, workload = ("Pod", pod) if seen is None else (seen.workload.kind, seen.workload.name)
    spec = None if seen is None else next((spec for spec in seen.containers if spec.name == container), None)
    amounts = (None,) * 4 if spec is None else (spec.requests.cpu, spec.requests.memory, spec.limits.cpu, spec.limits.memory)
    return (who, namespace, workload, kind, pod, container, *amounts)
