"""What usage was told already: of each container, when the newest window ended.

Metrics servers measure less often than they are asked, so most answers hold what was said before. After a restart the log's
newest stretch says what was told.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from schemas.facts.usage import MetricsScraped
from streams import log_range
from streams.codec.event_codec import Codec
from streams.log.port import Log
from streams.sources.usage.readings import BEHIND, Floats, Readings
from streams.topics import Topics

BACK = timedelta(minutes=5)
"""How far back to read after a restart: a server that has had nothing new for longer is told of once more, which does no harm."""
_NEVER = float("-inf")
Container = tuple[str, str, str]
Names = tuple[Sequence[str], Sequence[str], Sequence[str]]


class Told:
    """Of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._names: Names = ((), (), ())
        self._ends: Floats = np.empty(0)
        self._absent: dict[Container, float] = {}
        """Those that the last answer left out. What is older than any news can be is forgotten."""

    def news(self, readings: Readings) -> Any:
        """Which rows are news, as an array of booleans; from now on they are not."""
        names = (readings.namespaces, readings.pods, readings.containers)
        known = self._ends if names == self._names else self._known(names)
        self._names, self._ends = names, np.maximum(readings.ends, known)
        return readings.ends > known

    def read_back(self, log: Log, topics: Topics, codec: Codec, at: datetime) -> None:
        """Learn from the log's newest stretch. Raises LogUnavailable."""
        ends: dict[Container, float] = {}
        for record in log_range.read_range(log, [topics.wire("pod-metrics")], since=at - BACK):
            event = codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.cluster == self._cluster and not event.history:
                self._learn(ends, event)
        if ends:
            namespaces, pods, containers = zip(*ends, strict=True)
            self._names, self._ends = (namespaces, pods, containers), np.array(list(ends.values()))

    def _known(self, names: Names) -> Floats:
        """When the newest window of each of these containers ended. The others are absent from now on."""
        ends = self._absent | dict(zip(zip(*self._names, strict=True), self._ends.tolist(), strict=True))
        keys = list(zip(*names, strict=True))
        known = np.fromiter((ends.get(key, _NEVER) for key in keys), np.float64, len(keys))
        oldest = max(ends.values(), default=_NEVER) - BEHIND
        here = set(keys)
        self._absent = {key: end for key, end in ends.items() if end > oldest and key not in here}
        return known

    def _learn(self, ends: dict[Container, float], event: MetricsScraped) -> None:
        at = event.at.timestamp() - (np.asarray(event.ages, np.float64) if len(event.ages) else np.zeros(len(event.pods)))
        for workload, pod, container, end in zip(event.workloads, event.pods, event.containers, at.tolist(), strict=True):
            name = workload.split("/")[1], pod, container
            ends[name] = max(end, ends.get(name, _NEVER))
