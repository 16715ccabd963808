"""The questions about usage in PromQL, and their answers by container.

Of a container that has several series (it was restarted, or its CPUs are counted one by one) the CPU is the sum and the memory
the largest. The pause container of a pod and the totals of whole pods are left out, as in the VPA recommender's queries.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.units import Seconds
from streams.clients.prometheus import Series, duration

Container = tuple[str, str, str]
"""Namespace, pod and container."""


@dataclass(frozen=True, slots=True)
class Words:
    """What things are called on this server. An empty `job` is not asked for; no `namespaces` means all of them."""

    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    job: str = "kubernetes-cadvisor"
    namespaces: tuple[str, ...] = ()
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    container_label: str = "container"

    def cpu(self, window: Seconds) -> str:
        """Cores, over the window that ends at the moment asked for."""
        return f"sum by ({self._by}) (rate({self.cpu_metric}{self._selector}[{duration(window)}]))"

    def memory(self) -> str:
        """Bytes."""
        return f"max by ({self._by}) ({self.memory_metric}{self._selector})"

    def ends(self) -> str:
        """When the newest sample of a container was taken."""
        selector = self._selector
        newest = f"timestamp({self.cpu_metric}{selector}) or timestamp({self.memory_metric}{selector})"
        return f"max by ({self._by}) ({newest})"

    def count(self) -> str:
        """How many containers there are."""
        return f"count({self.memory()})"

    def container(self, series: Series) -> Container:
        """Which container a series is of."""
        labels = series.metric
        return labels.get(self.namespace_label, ""), labels.get(self.pod_label, ""), labels.get(self.container_label, "")

    def values(self, answer: Iterable[Series]) -> dict[Container, float]:
        """The value of each container, for an answer about one moment."""
        return {self.container(series): float(series.value[1]) for series in answer if series.value is not None}

    @property
    def _by(self) -> str:
        return f"{self.namespace_label}, {self.pod_label}, {self.container_label}"

    @property
    def _selector(self) -> str:
        job = f"job={json.dumps(self.job)}, " if self.job else ""
        namespace = f", {self.namespace_label}=~{json.dumps('|'.join(self.namespaces))}" if self.namespaces else ""
        ours = f'{self.pod_label}=~".+", {self.container_label}!="POD", {self.container_label}!=""'
        return "{" + job + ours + namespace + "}"
