"""What a source, a consumer or a driver needs to read and write the log: the log, its topics and a codec.

It is passed around as one value so that nobody has to name three things that always belong together. It holds no state.
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

    A codec serves one thread, and so does the context: each thread makes its own. `another` opens the same log again, where that
    can be done; who made the context closes what it opens.
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
        """The same on an opening of its own, if there can be one: for what is read before each act.

        A reader of Kafka that turns from some partitions to others waits for what it asked for before, a tenth of a second.
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
