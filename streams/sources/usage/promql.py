"""Usage from a Prometheus server, for clusters whose kubelets are scraped anyway: the PromQL queries, and their results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from schemas.units import Seconds
from streams.answer_bounds import number
from streams.clients.prometheus import Prometheus, Series, duration
from streams.sources.usage.readings import ContainerId, Floats, Readings, no_readings, whole_amounts

_SHOWN = 5
OWN_LABELS = ("cpu", "id", "image", "name")
"""Labels of cAdvisor by which series of one container differ in one job of one server: its CPUs, and its runs."""
CLUSTER_LABELS = ("cluster", "cluster_id", "cluster_name", "k8s_cluster", "k8s_cluster_name", "kubernetes_cluster")
"""Labels by which servers that hold several clusters usually tell them apart."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The names of metrics and labels on this server. An empty `job` means any, and no `namespaces` means all of them.

    `labels`, as `name=value`, distinguish the cluster from others on the same server.
    """

    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    job: str = "kubernetes-cadvisor"
    namespaces: tuple[str, ...] = ()
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    container_label: str = "container"
    labels: tuple[str, ...] = ()

    def cpu(self, window: Seconds) -> str:
        """The query for cores, on average over the window that ends at the moment of the query."""
        # A container that was restarted, or whose CPUs are counted one by one, has several series in one job of one server: these
        # are added up. Where two servers or two jobs scrape its kubelet it is there several times, and the largest counts.
        own = ", ".join(label for label in OWN_LABELS if label not in self._names)
        return f"max by ({self._by}) (sum without ({own}) (rate({self.cpu_metric}{self._selector}[{duration(window)}])))"

    def memory(self) -> str:
        """The query for bytes."""
        return f"max by ({self._by}) ({self.memory_metric}{self._selector})"

    def memory_peak(self, window: Seconds) -> str:
        """The query for the most bytes in the window that ends at the moment of the query."""
        return f"max by ({self._by}) (max_over_time({self.memory_metric}{self._selector}[{duration(window)}]))"

    def ends(self) -> str:
        """The query for the time of each container's newest sample."""
        selector = self._selector
        newest = f"timestamp({self.cpu_metric}{selector}) or timestamp({self.memory_metric}{selector})"
        return f"max by ({self._by}) ({newest})"

    def count(self) -> str:
        """The query for the number of containers."""
        return f"count({self.memory()})"

    def clusters(self) -> str:
        """The query for the number of containers of each cluster, as far as labels tell clusters apart."""
        return f"count by ({', '.join(CLUSTER_LABELS)}) ({self.memory_metric}{self._selector})"

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the queries select a series with these labels, among those of their metrics."""
        namespace, pod, container = (labels.get(name, "") for name in self._names)
        if not pod or container in ("", "POD") or (self.namespaces and namespace not in self.namespaces):
            return False
        wanted = [label.partition("=") for label in self.labels] + ([("job", "=", self.job)] if self.job else [])
        return all(labels.get(name, "") == value for name, _, value in wanted)

    def container(self, series: Series) -> ContainerId:
        """The container that a series is about."""
        labels = series.metric
        return labels.get(self.namespace_label, ""), labels.get(self.pod_label, ""), labels.get(self.container_label, "")

    def values(self, result: Iterable[Series]) -> dict[ContainerId, float]:
        """The value of each container, from the result of a query about one moment."""
        return {self.container(series): number(series.value[1]) for series in result if series.value is not None}

    @property
    def _names(self) -> tuple[str, str, str]:
        return self.namespace_label, self.pod_label, self.container_label

    @property
    def _by(self) -> str:
        return ", ".join(self._names)

    @property
    def _selector(self) -> str:
        job = f"job={json.dumps(self.job)}, " if self.job else ""
        namespace = f", {self.namespace_label}=~{json.dumps('|'.join(self.namespaces))}" if self.namespaces else ""
        # Without pause containers and totals of whole pods, as in the VPA recommender's queries.
        containers = f'{self.pod_label}=~".+", {self.container_label}!="POD", {self.container_label}!=""'
        more = "".join(f", {matcher}" for matcher in matchers(self.labels))
        return "{" + job + containers + namespace + more + "}"


def matchers(labels: Iterable[str]) -> list[str]:
    """The matchers that select series with these labels, given as `name=value`."""
    return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, _, value in (label.partition("=") for label in labels)]


def selector(wanted: Sequence[str]) -> str:
    """Matchers behind the name of a metric; nothing where there are none."""
    return "{" + ", ".join(wanted) + "}" if wanted else ""


def several_clusters(result: Iterable[Series]) -> str | None:
    """What is wrong where the answer to `clusters` has several, as a sentence that names the label and what selects one."""
    series = list(result)
    for label in CLUSTER_LABELS:
        values = sorted({container.metric.get(label, "") for container in series})
        if len(values) > 1:
            some = ", ".join(f"'{value}'" for value in values[:_SHOWN]) + (" ..." if len(values) > _SHOWN else "")
            chosen = next(value for value in values if value)
            return (
                f"the server has containers of {len(values)} clusters, told apart by the label '{label}' ({some}), and they are "
                f"taken for one: choose with prometheus.labels, as {label}={chosen}"
            )
    return None


def oom_restarts(window: Seconds, labels: Iterable[str] = ()) -> str:
    """The query for how often a container started in the window, if it was out of memory when it last ended.

    Kube-state-metrics counts starts and says why a container last ended, by labels of its own.
    """
    more = matchers(labels)
    by, started = "namespace, pod, container", "kube_pod_container_status_restarts_total" + selector(more)
    killed = "kube_pod_container_status_last_terminated_reason" + selector(['reason="OOMKilled"', *more])
    # Two counts are compared, because PromQL's functions over a window miss a start between the last sample before it and the
    # first in it.
    times = f"max by ({by}) ({started}) - max by ({by}) ({started} offset {duration(window)})"
    return f"clamp_min({times}, 0) * on ({by}) max by ({by}) ({killed})"


_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class PrometheusUsage:
    """One cluster as one server sees it. CPU is averaged over `window`; four times the server's scrape interval is good."""

    client: Prometheus
    names: MetricNames
    window: Seconds = Seconds(300.0)

    def read(self, at: datetime) -> Readings:
        """What is used now. Raises TryAgain and GiveUp."""
        ends, cores, memory = (
            self.names.values(self.client.query(query, at))
            for query in (self.names.ends(), self.names.cpu(self.window), self.names.memory())
        )
        if not ends:
            return no_readings()
        # A container without a current sample is gone and has no row, though its rate may linger. A row's window ends with its
        # newest sample, not with the query, so a kubelet that is no longer scraped adds no rows.
        keys = sorted(ends)
        namespaces, pods, containers = zip(*keys, strict=True)
        return Readings(
            namespaces,
            pods,
            containers,
            *whole_amounts(_column(keys, cores), _column(keys, memory)),
            _column(keys, ends),
            self.window,
        )


def _column(keys: list[ContainerId], values: dict[ContainerId, float]) -> Floats:
    return np.array([values.get(key, _NAN) for key in keys], np.float64)
