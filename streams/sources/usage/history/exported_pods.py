"""Pods as kube-state-metrics exported them to a metrics store: owners, requests and limits, also of pods that are gone.

It is for clusters of which only the metrics server can be reached. An API server knows more: here a controller of an unknown kind
counts as the topmost one, and a pod without an owner is a workload of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.bounds import MOST_NUMBER
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.answer_bounds import number
from streams.clients.prometheus import Prometheus, Series, duration
from streams.errors import BadInput
from streams.sources.usage.pod_workloads import PodKey
from streams.sources.usage.promql import matchers, selector

_ABOVE: Mapping[str, str] = {"ReplicaSet": "replicaset", "Job": "job_name"}
"""Controllers that may have one above them, and the label of their own name in the metric about it."""
_AMOUNTS = ("requests", "limits")


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
        amounts = {what: self._amounts(f"kube_pod_container_resource_{what}") for what in _AMOUNTS}
        labels = {_pod(series): _labels(series) for series in self._ask("kube_pod_labels", "pod")}
        alive = {_pod(series) for series in self.server.query(f"kube_pod_owner{self._selector}", self.at)}
        pods = []
        for name, (kind, owner) in sorted(owners.items()):
            workload = self._topmost(name, kind, owner, above)
            containers = tuple(self._containers(name, amounts))
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
        requests, limits = (amounts[what].get(pod, {}) for what in _AMOUNTS)
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
