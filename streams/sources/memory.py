"""What the log says that a cluster source said before: pods not said to be gone, and OOM kills told.

Read back once at the start, at most `MOST` of the newest records of each partition: a pod that was last spoken of before these
and deleted while the source was down is not noticed. Ticks of half a second fill so many records in 27 hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.facts import ContainerOOMKilled, PodChanged, PodDeleted
from schemas.names import PodName, Workload
from streams.codec import Codec, tick_number
from streams.errors import BadRecord
from streams.log import Log, Record
from streams.topics import Topics

MOST = 200_000
"""Records of one partition to read back."""


@dataclass(slots=True)
class Memory:
    """By uid: the pods believed to exist, and for each container the restart count of the last kill told."""

    pods: dict[str, tuple[Workload, PodName]] = field(default_factory=dict)
    kills: dict[str, dict[str, int]] = field(default_factory=dict)

    def tell(self, uid: str, container: str, restarts: int) -> bool:
        """Whether this kill is news; from now on it is not."""
        told = self.kills.setdefault(uid, {})
        news = restarts > told.get(container, -1)
        if news:
            told[container] = restarts
        return news

    def forget(self, uid: str) -> None:
        """The pod is gone; its uid never comes back."""
        self.pods.pop(uid, None)
        self.kills.pop(uid, None)


def remember(log: Log, topics: Topics, codec: Codec, *, cluster: str) -> Memory:
    """What the log tells. Raises LogUnavailable."""
    memory = Memory()
    places = [(topics.wire("oom-events"), partition) for partition in range(topics.partitions)]
    places.append((topics.wire("pod-changes-by-cluster"), topics.partition_of(cluster)))
    for place in places:
        for record in _newest(log, *place):
            _take(memory, record, codec, cluster)
    return memory


def _take(memory: Memory, record: Record, codec: Codec, cluster: str) -> None:
    """A record that cannot be read is left to the stages, which set it aside."""
    if tick_number(record) is not None:
        return
    try:
        event = codec.decode(record)
    except BadRecord:
        return
    if not isinstance(event, (PodChanged, PodDeleted, ContainerOOMKilled)) or event.workload.cluster != cluster:
        return
    if isinstance(event, PodChanged):
        memory.pods[event.pod.uid] = event.workload, event.pod
    elif isinstance(event, PodDeleted):
        memory.forget(event.pod.uid)
    else:
        memory.tell(event.pod.uid, event.container, event.restarts)


def _newest(log: Log, topic: str, partition: int) -> Iterator[Record]:
    end = log.end(topic, partition)
    position = max(log.begin(topic, partition), end - MOST)
    while position < end:
        records = log.poll({(topic, partition): position}, wait=5.0)
        if not records:
            return
        yield from records
        position = records[-1].offset + 1
