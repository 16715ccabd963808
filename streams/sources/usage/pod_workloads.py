"""Which workload a pod belongs to, from the log, so that facts about usage and facts about pods have the same keys.

This read model follows the pod facts of one cluster, beginning a few hours back, because sources publish each pod again at least
every three hours.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from schemas import times
from schemas.facts.pods import PodChanged, PodDeleted
from streams import log_range
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import Record
from streams.log_context import LogContext

READ_BACK = timedelta(hours=4)
"""Where to begin: three hours, in which sources publish every pod again, and one more for a source that was away."""
REMEMBER_DELETED = timedelta(hours=1)
"""How long a deleted pod is remembered, because metrics servers report it for a minute longer."""
PodKey = tuple[str, str]
"""Namespace and pod."""


class PodWorkloads:
    """The pods of the context's cluster."""

    def __init__(self, context: LogContext, *, remember_deleted: timedelta = REMEMBER_DELETED) -> None:
        """`remember_deleted`: how long a pod is remembered after its end."""
        self._context, self._remember_deleted = context, remember_deleted
        self._partition = context.cluster_partition("pod-changes-by-cluster")
        self._next: int | None = None
        self._pods: dict[PodKey, tuple[str, str]] = {}
        """Uid and workload key of each pod that exists."""
        self._deleted: dict[PodKey, tuple[datetime, str]] = {}
        """End and workload key of each pod that was deleted lately."""

    def catch_up(self, at: datetime, *, read_back: timedelta = READ_BACK) -> None:
        """Read to the end of the log, the first time from `read_back` before `at`. Raises LogUnavailable."""
        log = self._context.log
        if self._next is None:
            before_end = log_range.offset_before_end(log, *self._partition, read_back)
            self._next = min(before_end, log_range.offset_at(log, *self._partition, at - read_back))
        end = log.end(*self._partition)
        while self._next < end:
            records = log.poll({self._partition: self._next})
            if not records:
                break
            for record in records:
                if not is_of_a_clock(record):
                    self._apply(record)
            self._next = records[-1].offset + 1
        self._deleted = {name: gone for name, gone in self._deleted.items() if gone[0] > at - self._remember_deleted}

    def workload(self, namespace: str, pod: str) -> str | None:
        """The key of the pod's workload; None for a pod that no source published, and for one that was deleted."""
        published = self._pods.get((namespace, pod))
        return None if published is None else published[1]

    def workloads(self, namespaces: Sequence[str], pods: Sequence[str]) -> Iterator[str | None]:
        """As `workload`, row by row."""
        published = (self._pods.get(name) for name in zip(namespaces, pods, strict=True))
        return (None if pod is None else pod[1] for pod in published)

    def is_gone(self, namespace: str, pod: str, *, since: float) -> bool:
        """Whether usage since that time (in seconds since the epoch) belongs to a pod of this name that is deleted by now."""
        gone = self._deleted.get((namespace, pod))
        # What began after that pod's end is a successor's, which has the same name and which no source has published yet.
        return gone is not None and since < times.to_seconds(gone[0])

    def former_workload(self, namespace: str, pod: str) -> str | None:
        """The key of a deleted pod's workload; None for a pod that is not remembered."""
        gone = self._deleted.get((namespace, pod))
        return None if gone is None else gone[1]

    def _apply(self, record: Record) -> None:
        event = self._context.codec.decode_or_none(record)  # one that cannot be read is passed over; the stages set it aside
        if not isinstance(event, (PodChanged, PodDeleted)) or event.workload.cluster != self._context.cluster:
            return
        name = event.pod.namespace, event.pod.name
        if isinstance(event, PodChanged):
            self._pods[name] = event.pod.uid, event.workload.key
            self._deleted.pop(name, None)
        # The end of an older pod of the same name says nothing about the one that is there.
        elif self._pods.get(name, (event.pod.uid, ""))[0] == event.pod.uid:
            self._pods.pop(name, None)
            self._deleted[name] = event.at, event.workload.key
