"""Which workload a pod of the past belonged to: from the log, else by its labels and the VPAs that select them.

A metrics store knows pods by name, and by labels if those are exported. A pod that was deleted before the first source of pods
began is matched as upstream matches it, by the selectors of the VPAs in its namespace.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.names import Workload
from schemas.policies.vpa import Requirement, VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams import compacted_copy
from streams.answer_bounds import number
from streams.clients.prometheus import Prometheus, Series, duration
from streams.log_context import LogContext
from streams.sources.usage.pod_workloads import PodKey, PodWorkloads
from streams.sources.usage.promql import matchers, selector

_ODD = re.compile(r"[^a-zA-Z0-9_]")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodLabelQuery:
    """The metric that has pods' labels, and the names of its own labels. An empty `metric` means that there is none.

    `metric` may be a range selector, as upstream has it. Then the query is that selector. Otherwise `labels` tell the cluster
    from others on the same server.
    """

    metric: str = "kube_pod_labels"
    prefix: str = "label_"
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    labels: tuple[str, ...] = ()

    def ask(self, server: Prometheus, at: datetime, length: Seconds, step: Seconds) -> dict[PodKey, Labels]:
        """The labels that each pod had last in the `length` before `at`. Raises TryAgain and GiveUp."""
        if not self.metric:
            return {}
        is_range = self.metric.rstrip().endswith("]")
        chosen = self.metric if "{" in self.metric else self.metric + selector(matchers(self.labels))
        query = self.metric if is_range else f"max_over_time(timestamp({chosen})[{duration(length)}:{duration(step)}])"
        newest: dict[PodKey, tuple[float, Labels]] = {}
        for series in server.query(query, at):
            name = series.metric.get(self.namespace_label, ""), series.metric.get(self.pod_label, "")
            last = _last(series)
            if last >= newest.get(name, (last, {}))[0]:
                newest[name] = last, self._labels(series)
        return {name: labels for name, (_, labels) in newest.items()}

    def _labels(self, series: Series) -> Labels:
        return {key.removeprefix(self.prefix): value for key, value in series.metric.items() if key.startswith(self.prefix)}


class PastWorkloads:
    """The workloads of one cluster's pods, existing and deleted."""

    def __init__(self, pods: PodWorkloads, served_vpas: Iterable[VpaChanged], labels: Mapping[PodKey, Labels]) -> None:
        self._pods, self._labels = pods, labels
        self._vpas: dict[str, list[VpaChanged]] = {}  # by age: of several that select a pod, the oldest gets it
        for vpa in sorted(served_vpas, key=lambda vpa: (vpa.created, vpa.name)):
            self._vpas.setdefault(vpa.namespace, []).append(vpa)
        self._workload_of: dict[PodKey, str | None] = {}

    def workload(self, namespace: str, pod: str) -> str | None:
        """The key of a pod's workload; None if neither the log nor a VPA shows it."""
        name = namespace, pod
        if name not in self._workload_of:
            logged = self._pods.workload(*name) or self._pods.former_workload(*name)
            self._workload_of[name] = logged or self._by_labels(*name)
        return self._workload_of[name]

    def _by_labels(self, namespace: str, pod: str) -> str | None:
        labels = self._labels.get((namespace, pod))
        if labels is None:
            return None
        return next((_target(vpa) for vpa in self._vpas.get(namespace, ()) if _matches(vpa, labels)), None)


def served_vpas(context: LogContext) -> list[VpaChanged]:
    """The VPAs of the context's cluster that have a target and a selector. Raises LogUnavailable."""
    vpas: dict[str, VpaChanged] = {}
    for record in compacted_copy.read_present(context.log, context.topics, "policies"):
        event = context.codec.decode_or_none(record)
        if isinstance(event, VpaChanged) and event.cluster == context.cluster:
            vpas[event.key] = event
        elif isinstance(event, VpaRemoved):
            vpas.pop(event.key, None)
    return list(_served(vpas.values()))


def _served(served_vpas: Iterable[VpaChanged]) -> Iterator[VpaChanged]:
    return (vpa for vpa in served_vpas if vpa.selector is not None and vpa.target_ref is not None and not vpa.unsupported)


def _target(vpa: VpaChanged) -> str | None:
    ref = vpa.target_ref
    return None if ref is None else Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name).key


def _matches(vpa: VpaChanged, labels: Labels) -> bool:
    return vpa.selector is not None and all(_holds(requirement, labels) for requirement in vpa.selector)


def _holds(requirement: Requirement, labels: Labels) -> bool:
    # A metrics store changes the name of a label: what no label of a series may have becomes an underscore.
    return requirement.holds(labels.get(requirement.key, labels.get(_ODD.sub("_", requirement.key))))


def _last(series: Series) -> float:
    """When the newest sample was taken: the value, where the query asked for that, else the time of the last sample."""
    if series.value is not None:
        return number(series.value[1])
    return max((at for at, _ in series.values), default=0.0)
