"""Which workload a pod of the past was of: as the log says, else by its labels and the VPAs that match them.

A metrics store knows pods by name, and by labels where somebody exports those. A pod that was gone before the first source of
pods began is matched as upstream matches it, by the selectors of VPAs in its namespace; the oldest of several has it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.names import Workload
from schemas.policies.selectors import Requirement
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams import log_range
from streams.clients.prometheus import Prometheus, Series, duration
from streams.codec.event_codec import Codec
from streams.log.port import Log
from streams.sources.usage.pod_workloads import Name, Pods
from streams.topics import Topics

_ODD = re.compile(r"[^a-zA-Z0-9_]")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The metric that carries pods' labels, and what its own labels are called. An empty `metric` is not asked for.

    `metric` may be a selector with a range, as upstream has it; then it is asked for as it stands.
    """

    metric: str = "kube_pod_labels"
    prefix: str = "label_"
    namespace_label: str = "namespace"
    pod_label: str = "pod"

    def ask(self, server: Prometheus, at: datetime, length: Seconds, step: Seconds) -> dict[Name, Labels]:
        """The labels of each pod in the time before `at`, those that it had last. Raises TryAgain and GiveUp."""
        if not self.metric:
            return {}
        whole = self.metric.rstrip().endswith("]")
        query = self.metric if whole else f"max_over_time(timestamp({self.metric})[{duration(length)}:{duration(step)}])"
        newest: dict[Name, tuple[float, Labels]] = {}
        for series in server.instant(query, at):
            name = series.metric.get(self.namespace_label, ""), series.metric.get(self.pod_label, "")
            last = _last(series)
            if last >= newest.get(name, (last, {}))[0]:
                newest[name] = last, self._labels(series)
        return {name: labels for name, (_, labels) in newest.items()}

    def _labels(self, series: Series) -> Labels:
        return {key.removeprefix(self.prefix): value for key, value in series.metric.items() if key.startswith(self.prefix)}


class Owners:
    """The workloads of one cluster's pods, living and gone."""

    def __init__(self, pods: Pods, vpas: Iterable[VpaChanged], labels: Mapping[Name, Labels]) -> None:
        self._pods, self._labels = pods, labels
        self._vpas: dict[str, list[VpaChanged]] = {}
        for vpa in sorted(vpas, key=lambda vpa: (vpa.created, vpa.name)):
            self._vpas.setdefault(vpa.namespace, []).append(vpa)
        self._found: dict[Name, str | None] = {}

    def workload(self, namespace: str, pod: str) -> str | None:
        """The key of the workload; None when nothing tells."""
        name = namespace, pod
        if name not in self._found:
            said = self._pods.workload(*name) or self._pods.former(*name)
            self._found[name] = said or self._by_labels(*name)
        return self._found[name]

    def _by_labels(self, namespace: str, pod: str) -> str | None:
        labels = self._labels.get((namespace, pod))
        if labels is None:
            return None
        return next((_target(vpa) for vpa in self._vpas.get(namespace, ()) if _matches(vpa, labels)), None)


def vpas(log: Log, topics: Topics, codec: Codec, cluster: str) -> list[VpaChanged]:
    """The VPAs of a cluster that have a target and a selector, as the log has them. Raises LogUnavailable."""
    found: dict[str, VpaChanged] = {}
    wire = topics.wire("policies")
    elsewhere = {(wire, partition): log.end(wire, partition) for partition in range(1, topics.partitions)}
    for record in log_range.read_range(log, [wire], since=elsewhere):
        event = codec.decode_or_none(record)
        if isinstance(event, VpaChanged) and event.cluster == cluster:
            found[event.key] = event
        elif isinstance(event, VpaRemoved):
            found.pop(event.key, None)
    return list(_served(found.values()))


def _served(vpas: Iterable[VpaChanged]) -> Iterator[VpaChanged]:
    return (vpa for vpa in vpas if vpa.selector is not None and vpa.target_ref is not None and not vpa.unsupported)


def _target(vpa: VpaChanged) -> str | None:
    ref = vpa.target_ref
    return None if ref is None else Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name).key


def _matches(vpa: VpaChanged, labels: Labels) -> bool:
    return vpa.selector is not None and all(_holds(requirement, labels) for requirement in vpa.selector)


def _holds(requirement: Requirement, labels: Labels) -> bool:
    """The names of labels are spelled as a metrics store spells them."""
    return requirement.holds(labels.get(requirement.key, labels.get(_ODD.sub("_", requirement.key))))


def _last(series: Series) -> float:
    """When the newest sample was taken: the value of the question about that, or the last of the samples."""
    if series.value is not None:
        return float(series.value[1])
    return max((at for at, _ in series.values), default=0.0)
