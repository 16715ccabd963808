"""Usage from a Prometheus server, for clusters whose kubelets are scraped anyway: CPU over a window, memory's newest value."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.sources.usage.promql import MetricNames
from streams.sources.usage.readings import ContainerId, Floats, Readings, no_readings, whole_amounts

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
