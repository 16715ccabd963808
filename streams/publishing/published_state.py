"""What the log says that a cluster source said before: what is not said to be gone, and OOM kills told.

Read back once at the start, at most `MOST` of the newest records of each partition: a pod or node that was last spoken of before
these and deleted while the source was down is not noticed, and a kill told before these is not known. Ticks of half a second
fill so many records in 27 hours. Policies are
told once and never again, so theirs is read from its beginning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import PodName, Workload
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.codec.event_codec import Codec
from streams.log.port import Log, Record
from streams.topics import Topics

MOST = 200_000
"""Records of one partition to read back."""


@dataclass(slots=True)
class Memory:
    """By uid: the pods believed to exist, what was said of them last, and for each container the restart count of the last kill.

    By name or key: nodes, VPAs and limit ranges as they were told last.
    """

    pods: dict[str, tuple[Workload, PodName]] = field(default_factory=dict)
    said: dict[str, PodChanged] = field(default_factory=dict)
    kills: dict[str, dict[str, int]] = field(default_factory=dict)
    nodes: dict[str, NodeChanged] = field(default_factory=dict)
    vpas: dict[str, VpaChanged] = field(default_factory=dict)
    limits: dict[str, LimitRangeChanged] = field(default_factory=dict)

    def say(self, fact: PodChanged) -> None:
        """This was said of a pod."""
        self.pods[fact.pod.uid] = fact.workload, fact.pod
        self.said[fact.pod.uid] = fact

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
        self.said.pop(uid, None)
        self.kills.pop(uid, None)


def remember(log: Log, topics: Topics, codec: Codec, *, cluster: str) -> Memory:
    """What the log tells. Raises LogUnavailable."""
    memory = Memory()
    places = [(topics.wire("oom-events"), partition) for partition in range(topics.partitions)]
    places.append((topics.wire("pod-changes-by-cluster"), topics.partition_of(cluster)))
    for place in places:
        for record in _newest(log, *place, MOST):
            _take(memory, record, codec, cluster)
    return memory


def remember_all(log: Log, topics: Topics, codec: Codec, *, cluster: str) -> Memory:
    """As `remember`, with nodes, VPAs and limit ranges. Each partition has all of these. Raises LogUnavailable."""
    memory = remember(log, topics, codec, cluster=cluster)
    for name, most in (("cluster-changes", MOST), ("policies", None)):
        for record in _newest(log, topics.wire(name), 0, most):
            _take_other(memory, record, codec, cluster)
    return memory


def _take_other(memory: Memory, record: Record, codec: Codec, cluster: str) -> None:
    event = codec.decode_or_none(record)
    match event:
        case NodeChanged() if event.cluster == cluster:
            memory.nodes[event.node] = event
        case NodeRemoved() if event.cluster == cluster:
            memory.nodes.pop(event.node, None)
        case VpaChanged() if event.cluster == cluster:
            memory.vpas[event.key] = event
        case VpaRemoved():
            memory.vpas.pop(event.key, None)
        case LimitRangeChanged() if event.cluster == cluster:
            memory.limits[event.key] = event
        case LimitRangeRemoved():
            memory.limits.pop(event.key, None)
        case _:
            pass


def _take(memory: Memory, record: Record, codec: Codec, cluster: str) -> None:
    """A record that cannot be read is left to the stages, which set it aside."""
    event = codec.decode_or_none(record)
    if not isinstance(event, (PodChanged, PodDeleted, ContainerOOMKilled)) or event.workload.cluster != cluster:
        return
    if isinstance(event, PodChanged):
        memory.say(event)
    elif isinstance(event, PodDeleted):
        memory.forget(event.pod.uid)
    else:
        memory.tell(event.pod.uid, event.container, event.restarts)


def _newest(log: Log, topic: str, partition: int, most: int | None) -> Iterator[Record]:
    end = log.end(topic, partition)
    position = max(log.begin(topic, partition), 0 if most is None else end - most)
    while position < end:
        records = log.poll({(topic, partition): position}, wait=5.0)
        if not records:
            return
        yield from records
        position = records[-1].offset + 1
