"""How the kube source's facts become records: which topic, which key, which partitions."""

from collections.abc import Sequence

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.names import Workload
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.codec.event_codec import Codec
from streams.log.port import NewRecord
from streams.topics import Topics

Named = VpaChanged | VpaRemoved | LimitRangeChanged | LimitRangeRemoved
Cluster = NodeChanged | NodeRemoved | SourceReported
ByWorkload = PodChanged | PodDeleted | ContainerOOMKilled | CheckpointSeen


class Pen:
    """Writes for one cluster. What was written is taken with `take`, in order."""

    def __init__(self, cluster: str, topics: Topics, codec: Codec) -> None:
        self.cluster, self._topics, self._codec = cluster, topics, codec
        self._source = "/ullage/source/kube"
        self._written: list[NewRecord] = []

    def take(self) -> Sequence[NewRecord]:
        """What was written since the last time."""
        written, self._written = self._written, []
        return written

    def pod(self, fact: PodChanged | PodDeleted) -> None:
        """To its workload, and to the cluster."""
        self._one("pod-changes", fact, fact.workload.key)
        self._one("pod-changes-by-cluster", fact, self.cluster)

    def left(self, fact: PodDeleted) -> None:
        """To its workload alone: the pod is there still, and another's."""
        self._one("pod-changes", fact, fact.workload.key)

    def kill(self, fact: ContainerOOMKilled) -> None:
        """To its workload."""
        self._one("oom-events", fact, fact.workload.key)

    def seed(self, fact: CheckpointSeen) -> None:
        """To the workload that is seeded."""
        self._one("pod-changes", fact, fact.workload.key)

    def policy(self, fact: Named) -> None:
        """To everybody, under its own key."""
        self._all("policies", fact, fact.key)

    def about_cluster(self, fact: Cluster) -> None:
        """To everybody."""
        self._all("cluster-changes", fact, self.cluster)

    def workload(self, namespace: str, kind: str, name: str) -> Workload:
        """A workload of this cluster."""
        return Workload(self.cluster, namespace, kind, name)

    def _one(self, topic: str, fact: ByWorkload, key: str) -> None:
        partition = self._topics.partition_of(key)
        self._written.append(self._codec.encode(fact, topic=topic, key=key, partition=partition, source=self._source))

    def _all(self, topic: str, fact: Named | Cluster, key: str) -> None:
        self._written += self._codec.encode_for_all(fact, topic=topic, key=key, source=self._source)
