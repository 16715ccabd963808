"""The Prometheus expression that gives a metric's history for a whole workload.

These are upstream's defaults, or better ones where upstream's read too much.
"""

import re
from collections.abc import Sequence

from agents.logic.replicas.ehpa_manifest import Ehpa
from agents.logic.replicas.hpa_metrics import HpaMetric

_PODS = {
    "Deployment": "[a-z0-9]+-[a-z0-9]{5}$",
    "ReplicaSet": "[a-z0-9]+$",
    "DaemonSet": "[a-z0-9]{5}$",
    "StatefulSet": "[0-9]+$",
}
_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_ONCE = "max by (namespace, pod, container)"
"""Each container once, however many servers and jobs scrape its kubelet, and whatever labels they add."""


def query(ehpa: Ehpa, metric: HpaMetric, *, as_upstream: bool = False, more: Sequence[str] = ()) -> str | None:
    """The query of a metric: the one from an annotation, or the default; None if there is neither.

    `as_upstream` gives Crane v0.11.0's text. `more`: matchers to add to every default.
    Source: `pkg/controller/ehpa/predict.go` and `pkg/utils/expression_prom_default.go` of Crane.
    """
    if as_upstream and metric.kind == "ContainerResource":
        # Crane v0.11.0 does not forecast the metric of one container.
        return None
    # What somebody wrote for this metric wins over every guess.
    return ehpa.queries.get(metric.identifier) or _default(ehpa, metric, more, as_upstream=as_upstream)


def _default(ehpa: Ehpa, metric: HpaMetric, more: Sequence[str], *, as_upstream: bool) -> str | None:
    where = [f'namespace="{ehpa.namespace}"', f'pod=~"{pods(ehpa, as_upstream=as_upstream)}"']
    if metric.kind in ("Resource", "ContainerResource"):
        # A series without a container is the sum of a whole pod, which would count everything twice.
        container = 'container!=""' if metric.kind == "Resource" else f'container="{escaped(metric.container)}"'
        selected = "{" + ",".join([*where, container, *more]) + "}"
        if metric.name == "cpu":
            rate = f"irate({_CPU}{selected}[3m])"
            # Upstream sums all series up, so that a pair of servers doubles the load.
            return f"sum({rate})" if as_upstream else f"sum({_ONCE} (sum without (cpu, id, image, name) ({rate})))"
        of_each = f"{_MEMORY}{selected}" if as_upstream else f"{_ONCE} ({_MEMORY}{selected})"
        return f"sum({of_each})" if metric.name == "memory" else None
    if metric.kind not in ("Pods", "External"):
        return None
    labels = [f'{key}="{value if as_upstream else escaped(value)}"' for key, value in metric.selector]
    # Upstream's query for a Pods metric covers every workload that has the metric.
    limits = where if metric.kind == "Pods" and not as_upstream else []
    return f"sum({metric.name}{{{','.join([*labels, *limits, *more])}}})"


def pods(ehpa: Ehpa, *, as_upstream: bool = False) -> str:
    """A regular expression for the names of the target's pods, escaped for a query."""
    name = ehpa.target.name if as_upstream else re.escape(ehpa.target.name).replace("\\-", "-").replace("\\", "\\\\")
    return f"^{name}-{_PODS.get(ehpa.target.kind, '.*')}"


def escaped(value: str) -> str:
    """A label's value, escaped for a query."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
