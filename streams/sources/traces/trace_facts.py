"""The scrapes of a trace as the facts that a source would have published while watching the cluster, and as records.

A pod appears with its first sample, changes when its requests or limits do, and is gone one step after its last sample. OOM kills
come only from a column that counts them; they are never guessed from falling memory. Recommendations change nothing in a trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from schemas import times
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.codec.event_codec import Codec
from streams.codec.usage_columns import ROWS
from streams.log.log_port import NewRecord
from streams.sources.traces.trace_columns import REQUESTS
from streams.sources.traces.trace_table import Trace, TraceScrape
from streams.topics import Topics

SOURCE = "/ullage/source/traces"
_COLUMNS_KEPT = 4096

Columns = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class TracePod:
    """One pod of the trace: its containers, as indexes into the trace's names, and the second at which the last of them ends."""

    workload: Workload
    name: PodName
    who: list[int]
    last: float
    created: datetime | None = None


class TraceFacts:
    """The facts of one pass through a trace. `shift` seconds are added to its times; `life` tells its pods from other passes'."""

    def __init__(self, trace: Trace, *, cluster: str, shift: float = 0.0, life: int = 0) -> None:
        self._trace, self._cluster, self._shift = trace, cluster, shift
        self._pods = _pods(trace, cluster, life)
        self._pod_of = {who: pod for pod in self._pods for who in pod.who}
        # reversed, so that the next to go is taken from the end
        self._ends = sorted(self._pods, key=lambda pod: (pod.last, pod.name.uid), reverse=True)
        self._requests = [(column, name) for column, name in enumerate(REQUESTS) if trace.has(name)]
        self._amounts = np.full((len(trace.names), len(REQUESTS)), np.nan)
        self._there = np.zeros(len(trace.names), np.bool_)
        self._restarts = np.zeros(len(trace.names), dtype=np.int64)

    def at(self, second: float) -> datetime:
        """Event time of a second of the trace."""
        # whole milliseconds, as ticks have them: a float's last digits must not decide which comes first
        return times.from_ms(round((second + self._shift) * 1000))

    def about_pods(self, scrape: TraceScrape) -> Iterator[PodDeleted | PodChanged | ContainerOOMKilled]:
        """What happened to pods up to this scrape: first those that are gone, then new and changed ones, then OOM kills."""
        yield from self.gone(scrape.at)
        who = scrape.who
        changed = ~self._there[who]
        for column, name in self._requests:
            now, before = scrape.numbers[name], self._amounts[who, column]
            other = now != before
            if other.any():
                # NaN differs from itself, and absent before and now is no change
                changed |= other & ~(np.isnan(now) & np.isnan(before))
                self._amounts[who, column] = now
        if changed.any():
            self._there[who] = True
            # a pod once, though several of its containers may have changed
            pods = {id(pod): pod for pod in (self._pod_of[i] for i in who[changed].tolist())}
            yield from (self._changed(pod, self.at(scrape.at)) for pod in pods.values())
        if self._trace.has("oom_kills"):
            yield from self._killed(scrape)

    def gone(self, second: float) -> Iterator[PodDeleted]:
        """The pods whose last sample is a step or more before `second`."""
        while self._ends and self._ends[-1].last + self._trace.step <= second:
            pod = self._ends.pop()
            yield PodDeleted(self.at(pod.last + self._trace.step), pod.workload, pod.name)

    def _changed(self, pod: TracePod, at: datetime) -> PodChanged:
        # a trace does not say when a pod was created, so its first sample stands for it
        pod.created = pod.created or at
        there = [i for i in pod.who if self._there[i]]
        containers = tuple(
            ContainerSeen(
                self._trace.names[i].container, *_amounts(self._amounts[i]), restarts=int(self._restarts[i]), ready=True
            )
            for i in there
        )
        return PodChanged(at, pod.workload, pod.name, PodPhase.RUNNING, pod.created, containers, started=pod.created)

    def _killed(self, scrape: TraceScrape) -> Iterator[ContainerOOMKilled]:
        kills = scrape.numbers["oom_kills"]
        for row in np.flatnonzero(kills > 0):
            i = int(scrape.who[row])
            pod, (request, limit) = self._pod_of[i], _amounts(self._amounts[i])
            at, name = self.at(scrape.at), self._trace.names[i].container
            # an event for each kill, as the API shows them, so that counts of restarts go up by one
            for _ in range(int(kills[row])):
                self._restarts[i] += 1
                restarts = int(self._restarts[i])
                yield ContainerOOMKilled(at, pod.workload, pod.name, name, restarts, request.memory, limit.memory)


@dataclass(frozen=True, slots=True)
class RoutedFact:
    """A fact and where it goes: topic (short name), key and partition."""

    fact: PodDeleted | PodChanged | ContainerOOMKilled | MetricsScraped
    topic: str
    key: str
    partition: int

    def record(self, codec: Codec) -> NewRecord:
        """The record that carries it."""
        return codec.encode(self.fact, topic=self.topic, key=self.key, partition=self.partition, source=SOURCE)


class FactRouter:
    """Routes facts: pod facts to two topics (by workload and by cluster), scrapes to each partition that has rows."""

    def __init__(self, trace: Trace, topics: Topics, cluster: str) -> None:
        self._trace, self._topics, self._cluster = trace, topics, cluster
        # names never change within a trace, so keys and partitions are computed once and not for each row
        self._keys = [Workload(cluster, n.namespace, n.kind, n.workload).key for n in trace.names]
        self._partitions = np.array([topics.partition_of(key) for key in self._keys])
        self._columns: dict[bytes, Columns] = {}
        self._columns_there = [name for name in ("cores", "memory", "cores_max", "memory_max") if trace.has(name)]

    def pods(self, facts: Iterator[PodDeleted | PodChanged | ContainerOOMKilled]) -> Iterator[RoutedFact]:
        """Facts about pods."""
        for fact in facts:
            key = fact.workload.key
            if isinstance(fact, ContainerOOMKilled):
                yield RoutedFact(fact, "oom-events", key, self._topics.partition_of(key))
            else:
                yield RoutedFact(fact, "pod-changes", key, self._topics.partition_of(key))
                by_cluster = self._topics.partition_of(self._cluster)
                yield RoutedFact(fact, "pod-changes-by-cluster", self._cluster, by_cluster)

    def metrics(self, scrape: TraceScrape, at: datetime) -> Iterator[RoutedFact]:
        """One scrape for each partition that has rows, more where one would be too long for a record."""
        partitions = self._partitions[scrape.who]
        for partition, rows in _parts(partitions):
            names = self._names(scrape.who[rows])
            numbers = {name: scrape.numbers[name][rows] for name in self._columns_there}
            ages = () if scrape.ages is None else scrape.ages[rows]
            fact = MetricsScraped(at, self._cluster, *names, **numbers, window=Seconds(self._trace.step), ages=ages)
            yield RoutedFact(fact, "pod-metrics", self._cluster, partition)

    def _names(self, who: Any) -> Columns:
        """The same tuples for the same containers, so that the codec recognises them."""
        # the bytes of the indexes are a cheap key; a tuple of thousands of texts is not
        mark = who.tobytes()
        names = self._columns.get(mark)
        if names is None:
            if len(self._columns) >= _COLUMNS_KEPT:
                self._columns.clear()
            rows = who.tolist()
            all_names = self._trace.names
            names = (
                tuple(self._keys[i] for i in rows),
                tuple(all_names[i].pod for i in rows),
                tuple(all_names[i].container for i in rows),
            )
            self._columns[mark] = names
        return names


def _parts(partitions: Any) -> Iterator[tuple[int, Any]]:
    """Each partition with the indexes of its rows, at most ROWS at a time."""
    # always so where a topic has one partition, as in a backtest; a slice copies nothing
    if len(partitions) and (partitions == partitions[0]).all():
        yield from ((int(partitions[0]), slice(first, first + ROWS)) for first in range(0, len(partitions), ROWS))
        return
    for partition in np.unique(partitions):
        rows = np.flatnonzero(partitions == partition)
        for first in range(0, len(rows), ROWS):
            yield int(partition), rows[first : first + ROWS]


def _pods(trace: Trace, cluster: str, life: int) -> list[TracePod]:
    """Containers with the same namespace, workload and pod name make one pod."""
    pods: dict[tuple[str, str, str], TracePod] = {}
    for i, name in enumerate(trace.names):
        key = (name.namespace, name.workload, name.pod)
        # names come again in later loops, and a pod of another loop is another pod
        uid = f"{name.namespace}.{name.workload}.{name.pod}.{life}"
        pod = pods.setdefault(
            key,
            TracePod(
                Workload(cluster, name.namespace, name.kind, name.workload),
                PodName(name.namespace, name.pod, uid),
                [],
                trace.first,
            ),
        )
        pod.who.append(i)
        pod.last = max(pod.last, trace.scrape_of(name.last))
    return list(pods.values())


def _amounts(row: Any) -> tuple[Amounts, Amounts]:
    """Requests and limits."""
    cpu, memory, cpu_limit, memory_limit = (None if np.isnan(value) else float(value) for value in row)
    limits = _amount(cpu_limit, memory_limit)
    # a container with a limit alone requests it: Kubernetes' pkg/apis/core/v1/defaults.go
    return _amount(cpu_limit if cpu is None else cpu, memory_limit if memory is None else memory), limits


def _amount(cpu: float | None, memory: float | None) -> Amounts:
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(round(memory)))
