"""What a source, consumer or driver needs to read and write the log: the log, its topics and a codec.

It is one value because these three always belong together. It holds no state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from schemas.catalogue import CATALOGUE, parse_wire_name
from streams.codec.event_codec import Codec
from streams.codec.headers import header
from streams.errors import BadInput
from streams.log.file_log import FileLog
from streams.log.log_port import Log
from streams.topics import RULES, TOPICS, KeySpace, Topics


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
        """A context with a codec of its own. Raises BadInput for a file that this program cannot read."""
        codec = Codec(topics)
        if isinstance(log, FileLog):  # in a log at a broker, a worker compares the rules with its own before all else
            _refuse_other_versions(log, topics)
        return cls(log, topics, codec, cluster)

    def reopened(self) -> Self:
        """The same context on a connection of its own, if possible, for reads before each act."""
        # A Kafka reader that switches to other partitions waits a tenth of a second for its previous fetch.
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


def _refuse_other_versions(log: FileLog, topics: Topics) -> None:
    """Raises BadInput for a log of a program before 0.1.0, or of a newer one, as the first record of a partition tells."""
    present = [wire for topic in TOPICS if (wire := topics.wire(topic.name)) in log.topics()]
    if topics.wire("recommendations") in present and topics.wire(RULES) not in present:
        raise BadInput(f"the log file '{log.path}' has no rules: a program before 0.1.0 wrote it, and this one reads none so old")
    firsts = {(wire, partition): 0 for wire in present for partition in range(log.partitions(wire))}
    for record in log.poll(firsts, limit=len(firsts)):
        name, version = parse_wire_name(header(record, "ce_type") or "") or ("", 0)
        kind = CATALOGUE.named(name)
        if kind is not None and version > kind.version:
            raise BadInput(
                f"the log file '{log.path}' holds {record.place}, a {name} of version {version}, and this program reads version "
                f"{kind.version}: a newer program wrote it, or one before 0.1.0"
            )
