"""What a source, consumer or driver needs to read and write the log: the log, its topics and a codec.

It is one value because these three always belong together. It holds no state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from streams.codec.event_codec import Codec
from streams.log.log_port import Log
from streams.topics import KeySpace, Topics


@dataclass(frozen=True, slots=True)
class LogContext:
    """One log with its topics and a codec. `cluster` is the cluster it is used for; empty when that is every cluster in the log.

    A codec serves one thread, and so does the context: each thread makes its own. `another` opens the same log again, if
    possible; the creator of the context closes what it opens.
    """

    log: Log
    topics: Topics
    codec: Codec
    cluster: str = ""
    another: Callable[[], Log] | None = None

    @classmethod
    def of(cls, log: Log, topics: Topics, cluster: str = "") -> Self:
        """A context with a codec of its own."""
        return cls(log, topics, Codec(topics), cluster)

    def reopened(self) -> Self:
        """The same context on a connection of its own, if possible, for reads before each act.

        A Kafka reader that switches to other partitions waits a tenth of a second for its previous fetch.
        """
        return self if self.another is None else replace(self, log=self.another())

    def cluster_partition(self, topic: str) -> tuple[str, int]:
        """The wire name of a topic that is given by its short name, and the partition that holds the cluster's records in it."""
        return self.topics.wire(topic), self.topics.partition_of(self.cluster)

    def partitions_with(self, topic: str) -> list[tuple[str, int]]:
        """The partitions that may hold the cluster's records in a topic that is given by its short name."""
        wire, keyed = self.topics.wire(topic), self.topics.topic(self.topics.wire(topic)).keyed
        if keyed in (KeySpace.WORKLOAD, KeySpace.OBJECT):
            return [(wire, partition) for partition in range(self.topics.partitions)]
        return [self.cluster_partition(topic)]
