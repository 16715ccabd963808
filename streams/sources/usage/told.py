"""What usage was told already: of each container, when the newest window ended.

Metrics servers measure less often than they are asked, so most answers hold what was said before. After a restart the log's
newest stretch says what was told.
"""

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from schemas.facts import MetricsScraped
from streams import replay
from streams.codec import Codec, tick_number
from streams.errors import BadRecord
from streams.log import Log
from streams.sources.usage.readings import Readings
from streams.topics import Topics

BACK = timedelta(minutes=5)
"""How far back to read after a restart: a server that has had nothing new for longer is told of once more, which does no harm."""
_NEVER = float("-inf")
Container = tuple[str, str, str]


class Told:
    """Of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._ends: dict[Container, float] = {}

    def news(self, readings: Readings) -> Any:
        """Which rows are news, as an array of booleans; from now on they are not."""
        before = self._ends
        names = list(zip(readings.namespaces, readings.pods, readings.containers, strict=True))
        known = np.fromiter((before.get(name, _NEVER) for name in names), np.float64, len(names))
        news = readings.ends > known
        self._ends = dict(zip(names, np.maximum(readings.ends, known).tolist(), strict=True))
        return news

    def read_back(self, log: Log, topics: Topics, codec: Codec, at: datetime) -> None:
        """Learn from the log's newest stretch. Raises LogUnavailable."""
        for record in replay.stretch(log, [topics.wire("pod-metrics")], since=at - BACK):
            if tick_number(record) is not None:
                continue
            try:
                event = codec.decode(record)
            except BadRecord:
                continue
            if isinstance(event, MetricsScraped) and event.cluster == self._cluster and not event.history:
                self._learn(event)

    def _learn(self, event: MetricsScraped) -> None:
        ends = event.at.timestamp() - (np.asarray(event.ages, np.float64) if len(event.ages) else np.zeros(len(event.pods)))
        for workload, pod, container, end in zip(event.workloads, event.pods, event.containers, ends.tolist(), strict=True):
            name = workload.split("/")[1], pod, container
            self._ends[name] = max(end, self._ends.get(name, _NEVER))
