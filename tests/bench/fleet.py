"""A fleet of containers and its scrapes, cut by partition into records of about a thousand rows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import numpy as np

from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import PodName, Workload
from schemas.units import Bytes
from streams.codec import usage_columns
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics

PODS = 5
"""Pods a workload."""
ROWS = usage_columns.ROWS
"""As the sources cut them."""
NOISE = (0.1, 0.015)
"""How far CPU and memory move from scrape to scrape. Memory hardly does: in google2019-borg the median maximum of a five-minute
window is 1.2 % above its average."""


class Fleet:
    """`containers` containers, one to a pod, five pods to a workload; each has a level of its own, and noise around it."""

    def __init__(self, topics: Topics, containers: int, seed: int = 1) -> None:
        self.topics, self.codec, self.containers = topics, Codec(topics), containers
        self.random = np.random.default_rng(seed)
        self.workloads = [Workload("bench", f"ns{i % 50}", "Deployment", f"app-{i}") for i in range(containers // PODS)]
        self.chunks = list(self._chunks())
        self.levels = np.column_stack(
            [self.random.lognormal(-1.5, 0.8, containers), self.random.lognormal(19.0, 0.6, containers)]
        )

    def _chunks(self) -> Iterator[tuple[int, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]]:
        rows: dict[int, list[tuple[str, str, str]]] = {}
        for w in self.workloads:
            partition = self.topics.partition_of(w.key)
            rows.setdefault(partition, []).extend((w.key, f"{w.name}-7d9f8b6c5-{p:05d}", "main") for p in range(PODS))
        for partition, all_rows in sorted(rows.items()):
            rest = iter(all_rows)
            while part := list(islice(rest, ROWS)):
                workloads, pods, containers = zip(*part, strict=True)
                yield partition, (workloads, pods, containers)

    def scrape(self, at_ms: int) -> Iterator[NewRecord]:
        """One scrape of everything."""
        start = 0
        for partition, (workloads, pods, containers) in self.chunks:
            noise = [self.random.lognormal(0.0, sigma, len(pods)) for sigma in NOISE]
            levels = self.levels[start : start + len(pods)]
            start += len(pods)
            cores, memory = np.round(levels[:, 0] * noise[0], 3), np.round(levels[:, 1] * noise[1])
            at = datetime.fromtimestamp(at_ms / 1000, UTC)
            event = MetricsScraped(at, "bench", workloads, pods, containers, cores, memory)
            yield self.codec.encode(
                event, topic="pod-metrics", key=workloads[0], partition=partition, source="/ullage/source/bench"
            )

    def oom(self, i: int, at_ms: int) -> NewRecord:
        """An OOM kill in workload `i`."""
        w = self.workloads[i]
        at, pod = datetime.fromtimestamp(at_ms / 1000, UTC), PodName(w.namespace, f"{w.name}-7d9f8b6c5-00000", f"u{i}")
        event = ContainerOOMKilled(at, w, pod, "main", 1, Bytes(1 << 28), Bytes(1 << 28))
        to = self.topics.partition_of(w.key)
        return self.codec.encode(event, topic="oom-events", key=w.key, partition=to, source="/ullage/source/bench")
