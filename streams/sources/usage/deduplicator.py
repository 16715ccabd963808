"""Which usage was published already: the end of each container's newest published window."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from schemas import times
from schemas.facts.usage import MetricsScraped
from streams import log_range
from streams.log_context import LogContext
from streams.publishing.scrape_batches import ScrapeNames
from streams.sources.usage.readings import BEHIND, ContainerId, Floats, Readings

READ_BACK = timedelta(minutes=5)
"""How much of the log to read after a restart. A server without news for longer is published once more, which does no harm."""
_NEVER = float("-inf")


class Deduplicator:
    """The newest window of each container of one cluster."""

    def __init__(self) -> None:
        self._names: ScrapeNames = ((), (), ())
        self._ends: Floats = np.empty(0)
        self._absent: dict[ContainerId, float] = {}
        """Containers that the last answer left out, until nothing as old as their windows could be news any more."""

    def news(self, readings: Readings) -> Any:
        """Which rows are new, as an array of booleans. They then count as published."""
        # Metrics servers measure less often than they are asked, so most answers repeat what was published before.
        names = (readings.namespaces, readings.pods, readings.containers)
        published = self._ends if names == self._names else self._newest(names)
        self._names, self._ends = names, np.maximum(readings.ends, published)
        return readings.ends > published

    def restore(self, context: LogContext, at: datetime) -> None:
        """Read the end of the log. Raises LogUnavailable."""
        ends: dict[ContainerId, float] = {}
        for record in log_range.read_range(context.log, [context.topics.wire("pod-metrics")], since=at - READ_BACK):
            event = context.codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.cluster == context.cluster and not event.history:
                _record_ends(ends, event)
        if ends:
            namespaces, pods, containers = zip(*ends, strict=True)
            self._names, self._ends = (namespaces, pods, containers), np.array(list(ends.values()))

    def _newest(self, names: ScrapeNames) -> Floats:
        """When the newest window of each of these containers ended. The others count as absent from now on."""
        ends = self._absent | dict(zip(zip(*self._names, strict=True), self._ends.tolist(), strict=True))
        keys = list(zip(*names, strict=True))
        newest = np.fromiter((ends.get(key, _NEVER) for key in keys), np.float64, len(keys))
        oldest = max(ends.values(), default=_NEVER) - BEHIND
        here = set(keys)
        self._absent = {key: end for key, end in ends.items() if end > oldest and key not in here}
        return newest


def _record_ends(ends: dict[ContainerId, float], event: MetricsScraped) -> None:
    ages = np.asarray(event.ages, np.float64) if len(event.ages) else np.zeros(len(event.pods))
    moments = (times.to_seconds(event.at) - ages).tolist()
    for workload, pod, container, end in zip(event.workloads, event.pods, event.containers, moments, strict=True):
        name = workload.split("/")[1], pod, container
        ends[name] = max(end, ends.get(name, _NEVER))
