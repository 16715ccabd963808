"""The cluster source: looks at a cluster and appends what changed and what was used.

On each scrape: a PodChanged for each pod that differs from what was last said of it, a PodDeleted for each that is gone, a
ContainerOOMKilled for each kill not told yet, and a MetricsScraped for each partition; each minute a SourceReported. A pod that
stays as it is is told again now and then, so that a quiet cluster does not look like a source that is gone. Pod facts go to both
topics. In sorted order, so the same cluster gives the same records. It judges nothing and reads no clock: `at` is event time.

After a restart every pod is announced again (harmless) and what the log tells of the past is read back within a bound, so that
pods deleted meanwhile are said to be gone and kills are not told twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.units import Seconds
from streams.clients.cluster_port import ClusterClient, Pod, PodUsage
from streams.codec.event_codec import Codec
from streams.log.port import Log, NewRecord
from streams.publishing.outbox import Outbox
from streams.publishing.pod_facts import oom_killed, pod_changed
from streams.publishing.published_state import Memory, remember
from streams.publishing.scrape_batches import Rows, Scraped, Scrapes
from streams.topics import Topics

_NAN = float("nan")
NAME = "cluster"
SEES = ("oom-events", "pod-changes", "pod-metrics")
PERIOD = Seconds(60.0)
"""Event time between two reports that this source is at work, at least."""
TELL_AGAIN = timedelta(hours=3)
"""How long, in event time, nothing may be said of a pod that is there."""
Row = tuple[str, str, str, float, float]


class ClusterSource:
    """One cluster into one log."""

    def __init__(self, client: ClusterClient, log: Log, *, topics: Topics, codec: Codec, outbox: Outbox | None = None) -> None:
        """`outbox` is another one in tests of its bound."""
        self._client, self._log, self._topics, self._codec = client, log, topics, codec
        self._outbox = Outbox(log) if outbox is None else outbox
        self._source = f"/ullage/source/{client.cluster}"
        self._rows = Scrapes(topics, codec, client.cluster, self._source)
        self._memory: Memory | None = None
        self._said: dict[str, PodChanged] = {}
        self._used: dict[tuple[str, str], datetime] = {}
        self._reported: datetime | None = None

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def scrape(self, at: datetime) -> bool:
        """Look once and append; False when the log is away and the facts wait. Raises TryAgain and GiveUp of the client.

        The first scrape needs the log, to know what was said before: it raises LogUnavailable without it.
        """
        if self._memory is None:
            self._memory = remember(self._log, self._topics, self._codec, cluster=self._client.cluster)
        pods, usage = self._client.pods(), self._client.usage()
        facts = [*self._changes(pods, at), *self._gone(pods, at, self._memory), *self._kills(pods, self._memory)]
        self._outbox.put(facts=facts, scrapes=[*self._report(at), *self._scrapes(pods, usage, at)])
        flushed = self._outbox.flush()
        if flushed and self._outbox.forget_losses():
            self._start_over()
        return flushed

    def _report(self, at: datetime) -> Iterable[NewRecord]:
        """That this source is at work, now and then, in every partition."""
        if self._reported is not None and (at - self._reported).total_seconds() < PERIOD:
            return []
        self._reported = at
        event = SourceReported(at, self._client.cluster, NAME, SEES, PERIOD)
        return self._codec.encode_for_all(event, topic="cluster-changes", key=self._client.cluster, source=self._source)

    def _start_over(self) -> None:
        """Facts were dropped, so what this source believes to have said is not what the log holds: as after a restart."""
        self._memory = None
        self._said.clear()

    def _changes(self, pods: Sequence[Pod], at: datetime) -> Iterable[NewRecord]:
        for pod in pods:
            changed = pod_changed(pod, at)
            before = self._said.get(pod.pod.uid)
            if before is None or at - before.at >= TELL_AGAIN or replace(before, at=at) != changed:
                self._said[pod.pod.uid] = changed
                yield from self._twice(changed)

    def _gone(self, pods: Sequence[Pod], at: datetime, memory: Memory) -> Iterable[NewRecord]:
        here = {pod.pod.uid for pod in pods}
        gone = [known for uid, known in memory.pods.items() if uid not in here]
        for workload, pod in sorted(gone, key=lambda known: (known[0].key, known[1].name, known[1].uid)):
            self._said.pop(pod.uid, None)
            memory.forget(pod.uid)
            yield from self._twice(PodDeleted(at, workload, pod))
        memory.pods.update({pod.pod.uid: (pod.workload, pod.pod) for pod in pods})

    def _kills(self, pods: Sequence[Pod], memory: Memory) -> Iterable[NewRecord]:
        for pod in pods:
            for kill in sorted(pod.ooms, key=lambda kill: kill.container):
                if memory.tell(pod.pod.uid, kill.container, kill.restarts):
                    container = next(c for c in pod.containers if c.name == kill.container)
                    yield self._by_workload("oom-events", oom_killed(pod, kill, container))

    def _scrapes(self, pods: Sequence[Pod], usage: Sequence[PodUsage], at: datetime) -> list[NewRecord]:
        """A usage that was told already is no second sample: metrics servers measure less often than they are asked."""
        workloads = {(pod.pod.namespace, pod.pod.name): pod.workload.key for pod in pods}
        before, self._used = self._used, {(used.namespace, used.pod): used.at for used in usage}
        rows = [
            row
            for used in usage
            if (key := workloads.get((used.namespace, used.pod))) and before.get((used.namespace, used.pod)) != used.at
            for row in _rows(key, used)
        ]
        if not rows:
            return []
        keys, names, containers, cores, memory = zip(*rows, strict=True)
        window = max((used.window for used in usage), default=Seconds(60.0))
        numbers = np.array(cores, np.float64), np.array(memory, np.float64)
        return self._rows.records(Rows(keys, names, containers, *numbers), Scraped(at, window))

    def _twice(self, fact: PodChanged | PodDeleted) -> Iterable[NewRecord]:
        yield self._by_workload("pod-changes", fact)
        cluster = self._client.cluster
        partition = self._topics.partition_of(cluster)
        yield self._codec.encode(fact, topic="pod-changes-by-cluster", key=cluster, partition=partition, source=self._source)

    def _by_workload(self, topic: str, fact: PodChanged | PodDeleted | ContainerOOMKilled) -> NewRecord:
        key = fact.workload.key
        return self._codec.encode(fact, topic=topic, key=key, partition=self._topics.partition_of(key), source=self._source)


def _rows(workload: str, used: PodUsage) -> list[Row]:
    return [(workload, used.pod, name, *_numbers(amounts)) for name, amounts in used.containers.items()]


def _numbers(amounts: Amounts) -> tuple[float, float]:
    return _NAN if amounts.cpu is None else amounts.cpu, _NAN if amounts.memory is None else float(amounts.memory)
