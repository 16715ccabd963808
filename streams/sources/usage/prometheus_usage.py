"""Usage as a Prometheus server has it: an alternative to the metrics API, for clusters whose kubelets are scraped anyway.

CPU is the rate over a window, memory the newest value. A row is stamped with the time at which its newest sample was taken, not
with that of the question, so that a kubelet that is not scraped any more gives no news. A container of which there is no current
sample is gone and has no row, though its rate may linger.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.sources.usage.promql import Container, Words
from streams.sources.usage.readings import Floats, Readings, nothing

_NAN = float("nan")
_DUST = 1e-6


@dataclass(frozen=True, slots=True)
class PrometheusUsage:
    """One server's view of one cluster. `window`: what CPU is averaged over; four times the server's own interval is good."""

    client: Prometheus
    words: Words
    window: Seconds = Seconds(300.0)

    def read(self, at: datetime) -> Readings:
        """What is used now. Raises TryAgain and GiveUp."""
        ends, cores, memory = (
            self.words.values(self.client.instant(query, at))
            for query in (self.words.ends(), self.words.cpu(self.window), self.words.memory())
        )
        if not ends:
            return nothing()
        keys = sorted(ends)
        namespaces, pods, containers = zip(*keys, strict=True)
        return Readings(
            namespaces,
            pods,
            containers,
            np.ceil(_column(keys, cores) * 1000 - _DUST) / 1000,
            np.ceil(_column(keys, memory)),
            _column(keys, ends),
            self.window,
        )


def _column(keys: list[Container], values: dict[Container, float]) -> Floats:
    return np.array([values.get(key, _NAN) for key in keys], np.float64)
