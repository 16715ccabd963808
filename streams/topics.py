"""The topics as data: what each carries, how it is keyed, and how long it keeps its records.

A topic that a stage reads must keep every record that may be replayed. Nothing here talks to a broker.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from streams.errors import BadInput

DAY_MS = 86_400_000
REACH_MS = 14 * DAY_MS  # the longest outage, and what `replay --verify` must reach
CLOCK = "clock"
RULES = "rules"  # of its own, because sources write policies, and no source may command
"""The topic of what people decide."""


class KeySpace(StrEnum):
    """What a record's key is, and so where it goes."""

    WORKLOAD = "workload"
    CLUSTER = "cluster"
    OBJECT = "object"
    """An API object, as `cluster/namespace/name`."""
    BROADCAST = "broadcast"
    """A copy of each record goes to every partition: every reader of any partition needs it."""
    LATEST = "latest"
    """As the record that it copies. Only the newest of each key counts, so compaction need not wait."""
    TASK = "task"
    """A partition of a stage, as `stage/partition`."""
    SOURCE = "source"
    """As the record it is about."""
    CLOCK = "clock"
    """One partition, whatever the others have: the ticks, in one order for everybody."""


@dataclass(frozen=True, slots=True)
class Need:
    """How long records are kept (-1: for ever), and who reads so far back."""

    retention_ms: int
    readers: str


IN_FORCE = Need(-1, "the newest of each key is in force, whoever starts")
REPLAYED = Need(REACH_MS + DAY_MS, "turns are taken again for 14 days; consumers start to read a day before that")
SHOWN = Need(
    90 * DAY_MS, "`history`, `why`, `timeline` and reports: a quarter; a decision holds its own sum, so inputs go sooner"
)
LOOKED_INTO = Need(30 * DAY_MS, "whoever looks for the cause; `status` counts a day")
REPUBLISHED = Need(2 * DAY_MS, "the webhook; sources publish what stands every few hours")
# The clock says where the turns end, so it keeps its records as long as any topic that it speaks of.
ORDERED = Need(SHOWN.retention_ms, "`--at`, incidents and replays, of every topic: the longest of all needs")


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: short name, key space, what it carries, cleanup, and for whom it keeps its records."""

    name: str
    keyed: KeySpace
    carries: str
    cleanup: str
    need: Need

    @property
    def kept_ms(self) -> int:
        """How long every record is kept for certain. Compaction leaves the newest of each key for longer."""
        if "compact" not in self.cleanup:
            return self.need.retention_ms
        return 0 if self.keyed is KeySpace.LATEST else REACH_MS

    def configs(self) -> Mapping[str, str]:
        """Broker settings of this topic, as Kafka spells them."""
        configs = {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.need.retention_ms),
            "max.message.bytes": str(8 << 20),
            "message.timestamp.type": "LogAppendTime",
        }
        if "compact" in self.cleanup:
            # Compaction waits, or turns that are taken again would lack records.
            configs["min.compaction.lag.ms"] = "0" if self.keyed is KeySpace.LATEST else str(REACH_MS)
        return configs


TOPICS: tuple[Topic, ...] = (
    Topic(CLOCK, KeySpace.CLOCK, "ticks: time, and how far each partition had got", "delete", ORDERED),
    Topic(RULES, KeySpace.BROADCAST, "rules of stages, policies and reverts of operators", "compact", IN_FORCE),
    Topic("policies", KeySpace.BROADCAST, "policies that sources mirror", "compact", IN_FORCE),
    Topic("control", KeySpace.BROADCAST, "mode, pause and budget", "compact", IN_FORCE),
    Topic("rules-latest", KeySpace.LATEST, "the rules in force, one record a key", "compact", IN_FORCE),
    Topic("policies-latest", KeySpace.LATEST, "the policies in force, one record a key", "compact", IN_FORCE),
    Topic("control-latest", KeySpace.LATEST, "the control in force, one record a key", "compact", IN_FORCE),
    Topic("pod-changes", KeySpace.WORKLOAD, "facts about pods and how they are scaled", "delete", REPLAYED),
    Topic("pod-changes-by-cluster", KeySpace.CLUSTER, "the same facts, by cluster", "delete", REPLAYED),
    Topic("quota-changes", KeySpace.OBJECT, "how full the quotas of namespaces are", "delete", REPUBLISHED),
    Topic("cluster-changes", KeySpace.BROADCAST, "facts about nodes, and which sources are at work", "delete", REPLAYED),
    Topic("scheduling-changes", KeySpace.CLUSTER, "facts that decide which node takes which pod", "delete", REPLAYED),
    Topic("node-group-changes", KeySpace.CLUSTER, "facts about the groups that nodes come from", "delete", REPLAYED),
    Topic("oom-events", KeySpace.WORKLOAD, "facts about OOM kills", "delete", REPLAYED),
    Topic("pod-metrics", KeySpace.WORKLOAD, "scrapes, as columns", "delete", REPLAYED),
    Topic("load-metrics", KeySpace.WORKLOAD, "the load of workloads, as columns", "delete", REPLAYED),
    Topic("recommendations", KeySpace.WORKLOAD, "decisions about requests", "compact,delete", SHOWN),
    Topic("recommendations-by-cluster", KeySpace.CLUSTER, "the same decisions, by cluster", "delete", REPLAYED),
    Topic("shadow-recommendations", KeySpace.WORKLOAD, "what a policy in shadow would recommend", "delete", SHOWN),
    Topic("shadow-differences", KeySpace.WORKLOAD, "a policy in shadow against the one in force", "delete", SHOWN),
    Topic("memory-leaks", KeySpace.WORKLOAD, "decisions which containers leak memory", "delete", SHOWN),
    Topic("pod-updates", KeySpace.CLUSTER, "decisions to resize, evict or leave alone", "delete", SHOWN),
    Topic(
        "vpa-conditions",
        KeySpace.OBJECT,
        "what the status of VPA objects says, or of workloads without one",
        "compact,delete",
        SHOWN,
    ),
    Topic("node-updates", KeySpace.CLUSTER, "decisions to add nodes, remove one, or do neither", "delete", SHOWN),
    Topic("load-forecasts", KeySpace.OBJECT, "decisions what the load will be", "compact,delete", SHOWN),
    Topic("replica-plans", KeySpace.WORKLOAD, "decisions how many replicas there should be", "delete", SHOWN),
    Topic("replica-plans-by-cluster", KeySpace.CLUSTER, "the same decisions, by cluster", "delete", REPLAYED),
    Topic("plan-attestations", KeySpace.TASK, "which plans a turn made, so that no other is acted on", "delete", REPLAYED),
    Topic("outcomes", KeySpace.CLUSTER, "what consumers did", "delete", SHOWN),
    Topic("dead-letters", KeySpace.SOURCE, "what could not be read, and why", "delete", LOOKED_INTO),
)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as a broker should have it. `replication` -1 leaves the number of copies to the broker's own default."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    replication: int = -1


def changelog_topic(app_id: str, stage: str) -> str:
    """The changelog that Faust keeps for the table `<stage>-state` of an app."""
    return f"{app_id}-{stage}-state-changelog"


def changelog_specs(app_id: str, stages: Iterable[str], partitions: int, replication: int = -1) -> tuple[TopicSpec, ...]:
    """The changelogs of the stages' checkpoints."""
    # Compacted soon: chunks that a new mark no longer names are garbage, and a restart reads everything that is left. Kafka never
    # compacts the segment it writes to, so segments are small.
    configs = {
        "cleanup.policy": "compact",
        "retention.ms": "-1",
        "max.message.bytes": str(8 << 20),
        "segment.bytes": str(32 << 20),
        "segment.ms": str(10 * 60_000),
        "min.cleanable.dirty.ratio": "0.2",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": str(DAY_MS),
    }
    return tuple(_spec(changelog_topic(app_id, stage), partitions, configs, replication) for stage in stages)


def _spec(name: str, partitions: int, configs: Mapping[str, str], replication: int) -> TopicSpec:
    # With three copies an append counts only when two have it; with fewer, one broker down would stop everything.
    safe = {"min.insync.replicas": "2"} if replication >= 3 else {}  # noqa: PLR2004  # the sentence above
    return TopicSpec(name, partitions, {**configs, **safe}, replication)


_PREFIX = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}")


class Topics:
    """The topics under a prefix, with a number of partitions; translates short names to wire names and back."""

    def __init__(self, prefix: str = "ullage", partitions: int = 4) -> None:
        """Raises BadInput for a prefix Kafka would refuse or a partition count outside 1..1000."""
        if not _PREFIX.fullmatch(prefix):
            msg = f"topics.prefix '{prefix}' is not a topic name: letters, digits, '.', '_' and '-' only"
            raise BadInput(msg)
        if not 1 <= partitions <= 1000:  # noqa: PLR2004  # stated in the sentence below
            msg = f"topics.partitions is {partitions}, but must be between 1 and 1000"
            raise BadInput(msg)
        self.prefix, self.partitions = prefix, partitions
        self._by_wire = {self.wire(t.name): t for t in TOPICS}

    def wire(self, name: str) -> str:
        """`ullage.pod-metrics.v1` for `pod-metrics`."""
        return f"{self.prefix}.{name}.v1"

    def topic(self, wire: str) -> Topic:
        """The topic with this wire name. Raises KeyError for a name that is not ours."""
        return self._by_wire[wire]

    def short(self, wire: str) -> str:
        """`pod-metrics` for `ullage.pod-metrics.v1`. Raises KeyError for a name that is not ours."""
        return self._by_wire[wire].name

    def specs(self, replication: int = -1) -> tuple[TopicSpec, ...]:
        """All topics as a broker should have them."""
        return tuple(_spec(self.wire(t.name), self.count(t.name), t.configs(), replication) for t in TOPICS)

    def count(self, name: str) -> int:
        """How many partitions the topic with this short name has."""
        return 1 if name == CLOCK else self.partitions

    def partition_of(self, key: str) -> int:
        """The partition of a workload or cluster key: Kafka's default (murmur2 of the UTF-8 bytes)."""
        return partition_of(key, self.partitions)  # programs of others that write by keys put them there, too


@lru_cache(maxsize=1 << 18)
def partition_of(key: str, partitions: int) -> int:
    """Kafka's default partitioner: murmur2 with the sign bit cleared, modulo the count."""
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bit, seed 0x9747b28c, as org.apache.kafka.common.utils.Utils.murmur2."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
