"""The cluster source: polls a cluster and publishes changes and usage.

Each look publishes a PodChanged for each pod that differs from its newest record, a PodDeleted for each that is gone, a
ContainerOOMKilled for each kill that was not published yet, and a MetricsScraped for each partition; each minute a
SourceReported. Pod facts go to both pod topics. Everything is sorted, so that the same cluster gives the same records. The source
judges nothing and reads no clock: `at` is event time. After a restart it publishes every pod again, which is harmless.

A second poller publishes what decides which pod runs where.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.units import Seconds
from streams import typed_json
from streams.clients.cluster_port import ClusterClient, OOMKill, Pod, PodUsage, oom_killed, pod_changed
from streams.clients.kube.json_objects import ObjectChanges
from streams.clients.kube.scheduling_objects import DetailedNodeObject, DisruptionBudgetObject, ScheduledPodObject
from streams.clients.kube.watched_objects import ControllerObject, KubeObject
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState, read_pods
from streams.publishing.scrape_batches import ScrapeBatcher, ScrapeContext, UsageColumns
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.publish.scheduling_publisher import STORAGE, TOPIC, SchedulingPublisher
from streams.sources.kube.watch.notifications import ObjectGone

_NAN = float("nan")
NAME = "cluster"
SEES = ("oom-events", "pod-changes", "pod-metrics")
REPORT_PERIOD = Seconds(60.0)
"""Event time between two reports that this source is at work, at least."""
_Row = tuple[str, str, str, float, float]


class SimulatedClusterPoller:
    """One cluster into one log. The context's cluster is the client's."""

    def __init__(
        self, client: ClusterClient, context: LogContext, *, outbox: Outbox | None = None, apart: timedelta = timedelta()
    ) -> None:
        """`outbox` is another one in tests of its bound. Two scrapes of usage are at least `apart`, however often we look."""
        self._client, self._context = client, context
        self._outbox = Outbox(context) if outbox is None else outbox
        self._source = f"/ullage/source/{context.cluster}"
        self._batcher = ScrapeBatcher(context, self._source)
        self._published: PublishedState | None = None
        self._current: dict[str, PodChanged] = {}
        """By uid: the fact that this process published last. Empty after a restart, unlike the published state."""
        self._looked: dict[str, Pod] = {}
        """By uid: the pod at the last look. Most pods are the same object at the next one, and need no comparison."""
        self._usage_at: dict[tuple[str, str], datetime] = {}
        self._reported: datetime | None = None
        self._apart, self._scraped = apart, datetime.min.replace(tzinfo=UTC)

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def scrape(self, at: datetime) -> bool:
        """Look at the cluster once and publish. False when the log is away and the facts wait. Raises TryAgain and GiveUp.

        The first scrape needs the log, to know what was published before. It raises LogUnavailable without it.
        """
        if self._published is None:  # so that it notices pods that were deleted meanwhile, and repeats no kill
            self._published = read_pods(self._context)
        pods, usage = self._client.pods(), self._usage(at)  # both before anything is noted as published, for each may fail
        kills = list(self._kills(pods, self._published))  # first, because they look at what was published last
        facts = [*self._changes(pods, at), *self._gone(pods, at, self._published), *kills]
        self._outbox.publish(facts=facts, scrapes=[*self._report(at), *self._scrapes(pods, usage, at)])
        flushed = self._outbox.flush()
        if flushed and self._outbox.report_losses():
            self._start_over()
        return flushed

    def _usage(self, at: datetime) -> Sequence[PodUsage]:
        """None while the last scrape is not yet `apart` ago."""
        if at - self._scraped < self._apart:
            return []
        usage = self._client.usage()
        self._scraped = at
        return usage

    def _report(self, at: datetime) -> Iterable[NewRecord]:
        """Report regularly, in every partition, that this source is running."""
        if self._reported is not None and (at - self._reported).total_seconds() < REPORT_PERIOD:
            return []
        self._reported = at
        cluster = self._context.cluster
        event = SourceReported(at, cluster, NAME, SEES, REPORT_PERIOD)
        return self._context.codec.encode_for_all(event, topic="cluster-changes", key=cluster, source=self._source)

    def _start_over(self) -> None:
        """Facts were dropped, so the log does not hold what we believe to have published. Begin as after a restart."""
        self._published = None
        self._current.clear()

    def _changes(self, pods: Sequence[Pod], at: datetime) -> Iterable[NewRecord]:
        for pod in pods:
            before = self._current.get(pod.pod.uid)
            same, self._looked[pod.pod.uid] = pod is self._looked.get(pod.pod.uid), pod
            # An unchanged pod is published again after hours, so that a quiet cluster does not look like a dead source.
            if before is None or at - before.at >= REPUBLISH_AFTER or (not same and pod_changed(pod, before.at) != before):
                changed = self._current[pod.pod.uid] = pod_changed(pod, at)
                yield from self._pod_records(changed)

    def _gone(self, pods: Sequence[Pod], at: datetime, published: PublishedState) -> Iterable[NewRecord]:
        here = {pod.pod.uid for pod in pods}
        gone = [published_pod for uid, published_pod in published.pods.items() if uid not in here]
        for workload, pod in sorted(gone, key=lambda gone_pod: (gone_pod[0].key, gone_pod[1].name, gone_pod[1].uid)):
            self._current.pop(pod.uid, None)
            self._looked.pop(pod.uid, None)
            published.forget_pod(pod.uid)
            yield from self._pod_records(PodDeleted(at, workload, pod))
        published.pods.update({pod.pod.uid: (pod.workload, pod.pod) for pod in pods})

    def _kills(self, pods: Sequence[Pod], published: PublishedState) -> Iterable[NewRecord]:
        for pod in pods:
            for kill in sorted(pod.ooms, key=lambda kill: kill.container):
                if published.record_kill(pod.pod.uid, kill.container, kill.restarts):
                    yield self._workload_record("oom-events", oom_killed(pod, kill, self._killed(pod, kill)))

    def _killed(self, pod: Pod, kill: OOMKill) -> ContainerSeen:
        """The container as it was when the run began that was killed: what was seen before, if that is newer than the run."""
        before = self._current.get(pod.pod.uid)
        seen = before.containers if before is not None and kill.started is not None and kill.started <= before.at else ()
        return next(container for container in (*seen, *pod.containers) if container.name == kill.container)

    def _scrapes(self, pods: Sequence[Pod], usage: Sequence[PodUsage], at: datetime) -> list[NewRecord]:
        """The usage that was not published before."""
        if not usage:
            return []
        workloads = {(pod.pod.namespace, pod.pod.name): pod.workload.key for pod in pods}
        # Metrics servers measure less often than we poll: what was published before is no new sample.
        before, self._usage_at = self._usage_at, {(used.namespace, used.pod): used.at for used in usage}
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
        return self._batcher.records(UsageColumns(keys, names, containers, *numbers), ScrapeContext(at, window))

    def _pod_records(self, fact: PodChanged | PodDeleted) -> Iterable[NewRecord]:
        yield self._workload_record("pod-changes", fact)
        cluster = self._context.cluster
        partition = self._context.topics.partition_of(cluster)
        topic = "pod-changes-by-cluster"
        yield self._context.codec.encode(fact, topic=topic, key=cluster, partition=partition, source=self._source)

    def _workload_record(self, topic: str, fact: PodChanged | PodDeleted | ContainerOOMKilled) -> NewRecord:
        key = fact.workload.key
        partition = self._context.topics.partition_of(key)
        return self._context.codec.encode(fact, topic=topic, key=key, partition=partition, source=self._source)


def _rows(workload: str, used: PodUsage) -> list[_Row]:
    return [(workload, used.pod, name, *_numbers(amounts)) for name, amounts in used.containers.items()]


def _numbers(amounts: Amounts) -> tuple[float, float]:
    return _NAN if amounts.cpu is None else amounts.cpu, _NAN if amounts.memory is None else float(amounts.memory)


SCHEDULING = "scheduling"
_AGAIN = timedelta(minutes=10)
"""How often to look for facts that are old enough to be published again."""
_TYPES: Mapping[str, type[KubeObject]] = {
    "nodes": DetailedNodeObject,
    "replicasets": ControllerObject,
    "pods": ScheduledPodObject,
    "poddisruptionbudgets": DisruptionBudgetObject,
}
_KINDS = (*STORAGE, *_TYPES)


class SimulatedSchedulingPoller:
    """One cluster into one log. `look` returns the changes since its last call; at first everything."""

    def __init__(self, context: LogContext, look: Callable[[], ObjectChanges]) -> None:
        self._context, self._look = context, look
        self._publisher = Publisher(context)
        self._facts = SchedulingPublisher(self._publisher, context)
        self._outbox = Outbox(context)
        self._restored = False
        self._reported: datetime | None = None
        self._republished: datetime | None = None

    def poll(self, at: datetime) -> bool:
        """Look once and publish. False when the log is away and the facts wait; the first look needs it."""
        if not self._restored:
            # It reads the log itself and needs nothing of what other publishers share.
            self._facts.restore(PublishedState(), at)
        changes = self._look()
        for kind, item in changes.seen:
            self._facts.seen(kind, typed_json.convert(item, _TYPES[kind]), at)
        for gone in changes.gone:
            self._facts.gone(ObjectGone(gone.kind, gone.namespace, gone.name, gone.uid), at)
        if not self._restored:
            self._restored, self._republished = True, at
            # The first look has shown everything, so what was published and was not seen is gone.
            for kind in _KINDS:
                self._facts.synced(kind, controllers=True, at=at)
        self._publish_again(at)
        self._outbox.publish(facts=self._publisher.drain(), scrapes=())
        return self._outbox.flush()

    def _publish_again(self, at: datetime) -> None:
        """Report regularly that this source is running, and publish old facts again."""
        if self._reported is None or (at - self._reported).total_seconds() >= REPORT_PERIOD:
            self._reported = at
            self._publisher.publish(SourceReported(at, self._context.cluster, SCHEDULING, (TOPIC,), REPORT_PERIOD))
        if self._republished is not None and at - self._republished >= _AGAIN:
            self._republished = at
            self._facts.republish(at, REPUBLISH_AFTER)
