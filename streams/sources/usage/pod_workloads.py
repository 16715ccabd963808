"""Which workload a pod is of, as the log tells it: so what is said of usage and of pods has the same keys.

Follows the pod facts of one cluster, from a few hours back on: sources tell each pod again at least every three hours. A pod
that is gone is remembered for a while as gone, because metrics servers speak of it for a minute longer.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from schemas.facts.pods import PodChanged, PodDeleted
from streams import log_range
from streams.codec.event_codec import Codec, tick_number
from streams.log.port import Log, Record
from streams.topics import Topics

BACK = timedelta(hours=4)
"""How far back to begin: what sources need to tell every pod again, and an hour for one that was away."""
GONE = timedelta(hours=1)
"""How long a pod is remembered as gone."""
Name = tuple[str, str]
"""Namespace and pod."""
Known = dict[Name, tuple[str, str]]
"""Uid and workload key by name."""


class Pods:
    """The pods of one cluster."""

    def __init__(self, log: Log, topics: Topics, codec: Codec, *, cluster: str, gone_for: timedelta = GONE) -> None:
        """`gone_for`: how long a pod is remembered after its end."""
        self._log, self._codec, self._cluster, self._gone_for = log, codec, cluster, gone_for
        self._place = topics.wire("pod-changes-by-cluster"), topics.partition_of(cluster)
        self._next: int | None = None
        self._known: Known = {}
        self._gone: dict[Name, tuple[datetime, str]] = {}

    def follow(self, at: datetime, *, back: timedelta = BACK) -> None:
        """Take in what the log says by now. Raises LogUnavailable."""
        if self._next is None:
            self._next = log_range.offset_at(self._log, *self._place, at - back)
        end = self._log.end(*self._place)
        while self._next < end:
            records = self._log.poll({self._place: self._next}, wait=5.0)
            if not records:
                break
            for record in records:
                if tick_number(record) is None:
                    self._take(record)
            self._next = records[-1].offset + 1
        self._gone = {name: gone for name, gone in self._gone.items() if gone[0] > at - self._gone_for}

    def workload(self, namespace: str, pod: str) -> str | None:
        """The key of the workload; None for a pod that no source told of, and for one that is gone."""
        known = self._known.get((namespace, pod))
        return None if known is None else known[1]

    def workloads(self, namespaces: Sequence[str], pods: Sequence[str]) -> Iterator[str | None]:
        """`workload`, row by row."""
        known = self._known
        return ((found[1] if (found := known.get(name)) is not None else None) for name in zip(namespaces, pods, strict=True))

    def is_gone(self, namespace: str, pod: str, *, since: float) -> bool:
        """Whether what this pod did since then (in seconds since the epoch) was done by one that is no more.

        What began after its end is of a successor that has its name, of which no source has told yet.
        """
        gone = self._gone.get((namespace, pod))
        return gone is not None and since < gone[0].timestamp()

    def former(self, namespace: str, pod: str) -> str | None:
        """The workload key of a pod that is gone; None for one that is not remembered."""
        gone = self._gone.get((namespace, pod))
        return None if gone is None else gone[1]

    def _take(self, record: Record) -> None:
        """A record that cannot be read is left to the stages, which set it aside."""
        event = self._codec.decode_or_none(record)
        if not isinstance(event, (PodChanged, PodDeleted)) or event.workload.cluster != self._cluster:
            return
        name = event.pod.namespace, event.pod.name
        if isinstance(event, PodChanged):
            self._known[name] = event.pod.uid, event.workload.key
            self._gone.pop(name, None)
        elif self._known.get(name, (event.pod.uid, ""))[0] == event.pod.uid:
            self._known.pop(name, None)
            self._gone[name] = event.at, event.workload.key
