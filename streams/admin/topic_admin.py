"""`ullage topics plan` and `apply`: bring the topics of a Kafka cluster into the form that `streams.topics` wants.

Repeating it changes nothing. It refuses what could lose records or break keys, before it changes anything, unless the caller
names the change. It deletes no topic and undoes nothing, and settings that we do not name stay as they are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import (
    SecurityDisabledError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from schemas.units import Seconds
from streams.errors import BadInput, LogUnavailable
from streams.log.connection_check import refuse_at_once
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_errors import granted_operations, translated_errors
from streams.log.leader_questions import LeaderQuestions
from streams.topics import TopicSpec

FOREVER = -1
NEW = "topic"
PARTITIONS = "partitions"
_LEADER_SECONDS = Seconds(60.0)
"""For how long new partitions are waited for until their leaders answer."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the broker has it: effective values, defaults included."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One difference. `what` is "topic" (it is missing), "partitions" or a setting; `danger` is empty when it is safe."""

    topic: str
    what: str
    before: str | None
    after: str
    danger: str = ""
    possible: bool = True

    @property
    def name(self) -> str:
        """How `force` names it."""
        return f"{self.topic}:{self.what}"

    @property
    def destructive(self) -> bool:
        """Whether it is refused unless forced."""
        return bool(self.danger)

    def __str__(self) -> str:
        """One line for people."""
        line = f"{self.topic}: {self.what} {self.before or 'missing'} -> {self.after}"
        return f"{line} [{self.danger}]" if self.danger else line


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """All changes, in the order of the wanted topics, and notes on differences that stay as they are."""

    wanted: tuple[TopicSpec, ...]
    changes: tuple[TopicChange, ...]
    notes: tuple[str, ...] = ()

    def refused(self, force: Collection[str] = ()) -> tuple[TopicChange, ...]:
        """The changes that stand in the way: dangerous ones that `force` does not name, and those Kafka cannot do at all."""
        return tuple(c for c in self.changes if not c.possible or (c.destructive and not {c.name, c.topic} & set(force)))


def compare(wanted: Iterable[TopicSpec], existing: Mapping[str, ExistingTopic]) -> TopicPlan:
    """The plan that turns `existing` into `wanted`; it is empty when there is nothing to do."""
    specs = tuple(wanted)
    changes: list[TopicChange] = []
    notes: list[str] = []
    for spec in specs:
        topic = existing.get(spec.name)
        if topic is None:
            changes.append(TopicChange(spec.name, NEW, None, f"{spec.partitions} partitions"))
            continue
        changes += _partitions(spec, topic)
        changes += _configs(spec, topic)
        # -1 leaves the number to the brokers.
        if spec.replication not in (-1, topic.replication):
            notes.append(
                f"{spec.name} has {topic.replication} copies, not {spec.replication}; moving them is a job for Kafka's own tools"
            )
    return TopicPlan(specs, tuple(changes), tuple(notes))


def _partitions(spec: TopicSpec, topic: ExistingTopic) -> Iterator[TopicChange]:
    if spec.partitions < topic.partitions:
        danger = "Kafka cannot take partitions away; delete the topic or take another prefix"
        yield TopicChange(spec.name, PARTITIONS, str(topic.partitions), str(spec.partitions), danger, possible=False)
    elif spec.partitions > topic.partitions:
        danger = "keys would move to other partitions, away from their state and their history"
        yield TopicChange(spec.name, PARTITIONS, str(topic.partitions), str(spec.partitions), danger)


def _configs(spec: TopicSpec, topic: ExistingTopic) -> Iterator[TopicChange]:
    for name, after in spec.configs.items():
        before = topic.configs.get(name)
        if before is None or not _same(name, before, after):
            yield TopicChange(spec.name, name, before, after, _danger(name, before, after))


def _same(name: str, before: str, after: str) -> bool:
    if name == "cleanup.policy":
        return _policies(before) == _policies(after)
    try:
        # One number may be spelled in several ways.
        return float(before) == float(after)
    except ValueError:
        return before == after


def _policies(text: str) -> set[str]:
    return {part.strip() for part in text.split(",") if part.strip()}


def _danger(name: str, before: str | None, after: str) -> str:
    """Why a setting must not change by itself; empty when it may."""
    if before is None:
        return ""
    if name == "cleanup.policy":
        return _cleanup_danger(_policies(before), _policies(after))
    if name == "retention.ms" and _length(after) < _length(before):
        return "records older than that would be deleted"
    if name == "min.compaction.lag.ms" and int(after) < int(before):
        return "compaction would eat records and ticks that replay needs"
    if name == "max.message.bytes" and int(after) < int(before):
        return "larger records would be refused"
    return ""


def _length(milliseconds: str) -> float:
    return float("inf") if int(milliseconds) == FOREVER else int(milliseconds)


def _cleanup_danger(before: set[str], after: set[str]) -> str:
    if "compact" in after - before:
        return "compaction would eat all but the newest record of each key"
    if "delete" in after - before:
        return "records older than retention.ms would be deleted"
    if "compact" in before - after:
        return "without compaction the newest record of a key is no longer kept"
    return ""


SURVEY = "Describe and DescribeConfigs"
"""What it takes to see how topics are."""
CHANGE = f"{SURVEY}, or Create, Alter and AlterConfigs"


@contextmanager
def connect(where: KafkaConnection, *, right: str = SURVEY) -> Iterator[KafkaAdminClient]:
    """An admin client. Errors of the client inside the block become LogUnavailable with what to do.

    `right` is what the block needs, in words.
    """
    with translated_errors(where, "working on topics", right=right):
        if where.secured:
            refuse_at_once(where)
        client = KafkaAdminClient(**where.options())
        try:
            yield client
        finally:
            client.close()


def plan(client: KafkaAdminClient, wanted: Iterable[TopicSpec]) -> TopicPlan:
    """The changes that would be necessary."""
    specs = tuple(wanted)
    return compare(specs, survey(client, [spec.name for spec in specs]))


def survey(client: KafkaAdminClient, names: Sequence[str]) -> Mapping[str, ExistingTopic]:
    """The topics of these names that exist."""
    described = {topic["name"]: topic for topic in client.describe_topics(list(names)) if _is_there(topic)}
    if not described:
        return {}
    _require_configs(described)
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in described]
    configs = client.describe_configs(resources, config_filter="all")["topic"]
    return {
        name: ExistingTopic(
            len(topic["partitions"]),
            # The least: a topic is as safe as its weakest partition.
            min((len(p["replica_nodes"]) for p in topic["partitions"]), default=0),
            {key: entry["value"] for key, entry in configs[name].items() if entry["value"] is not None},
        )
        for name, topic in described.items()
    }


def _require_configs(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises TopicAuthorizationFailedError where we may not read settings."""
    # They would look empty, and the plan would set all of them.
    granted = {name: granted_operations(topic) for name, topic in described.items()}
    hidden = [name for name, operations in granted.items() if operations is not None and "DescribeConfigs" not in operations]
    if hidden:
        raise TopicAuthorizationFailedError(hidden)


def _is_there(topic: Mapping[str, int]) -> bool:
    error = for_code(topic["error_code"])
    if error is UnknownTopicOrPartitionError:
        return False
    if topic["error_code"]:
        raise error([topic["name"]])
    return True


def apply(client: KafkaAdminClient, wanted: TopicPlan, *, force: Collection[str] = ()) -> None:
    """Make the changes. `force` names topics, or `topic:what` for one change.

    Raises BadInput, having changed nothing, when the plan holds a destructive change that is not forced or one that is
    impossible, and LogUnavailable when the broker refuses.
    """
    refused = wanted.refused(force)
    if refused:
        raise BadInput("\n".join(["these changes are refused:", *(f"  {change}" for change in refused), _way_out(refused)]))
    # What is refused was found before anything is changed, because nothing is undone.
    _create(client, [spec for spec in wanted.wanted if _wants(wanted, spec, NEW)])
    _grow(client, [spec for spec in wanted.wanted if _wants(wanted, spec, PARTITIONS)])
    _configure(client, [change for change in wanted.changes if change.what not in (NEW, PARTITIONS)])


def _way_out(refused: Collection[TopicChange]) -> str:
    names = " ".join(f"--force {change.name}" for change in refused if change.possible)
    return f"nothing was changed; to do them all the same: {names}" if names else "nothing was changed"


def _wants(wanted: TopicPlan, spec: TopicSpec, what: str) -> bool:
    return any(change.topic == spec.name and change.what == what for change in wanted.changes)


def _create(client: KafkaAdminClient, specs: Sequence[TopicSpec]) -> None:
    if not specs:
        return
    topics = {
        s.name: {"num_partitions": s.partitions, "replication_factor": s.replication, "configs": dict(s.configs)} for s in specs
    }
    answer = client.create_topics(topics, raise_errors=False)
    for topic in answer["topics"]:
        error = for_code(topic["error_code"])
        if topic["error_code"] and error is not TopicAlreadyExistsError:  # somebody else just made it, which is as good
            if error is TopicAuthorizationFailedError:
                raise error([topic["name"]])
            raise error(f"creating topic '{topic['name']}': {topic.get('error_message')}")
    client.wait_for_topics([spec.name for spec in specs])
    places = [(spec.name, partition) for spec in specs for partition in range(spec.partitions)]
    LeaderQuestions(client).await_leaders(places, _LEADER_SECONDS)


def _grow(client: KafkaAdminClient, specs: Sequence[TopicSpec]) -> None:
    if specs:
        client.create_partitions({spec.name: spec.partitions for spec in specs})


def _configure(client: KafkaAdminClient, changes: Sequence[TopicChange]) -> None:
    configs: dict[str, dict[str, str]] = {}
    for change in changes:
        configs.setdefault(change.topic, {})[change.what] = change.after
    if not configs:
        return
    answer = client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, values) for name, values in configs.items()])
    failed = [f"'{name}': {result}" for name, result in answer["topic"].items() if result != "OK"]
    if failed:
        raise LogUnavailable(f"changing the settings of topics did not work: {'; '.join(failed)}; look at the brokers' own log")


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes that are kept of the topics, copies included; and what share of the fullest disk is free, if the brokers say."""

    kept: int
    room: float | None


def disk_use(where: KafkaConnection, topics: Collection[str]) -> DiskUse:
    """What these topics take. Raises LogUnavailable, also without the right to Describe the cluster."""
    with connect(where, right="Describe on the cluster") as client:
        folders = [folder for node in client.describe_log_dirs() for folder in node["log_dirs"]]
    kept = sum(
        partition["partition_size"]
        for folder in folders
        for topic in folder["topics"]
        if topic["name"] in topics
        for partition in topic["partitions"]
    )
    # Older brokers do not say, or say -1.
    rooms = [folder["usable_bytes"] / folder["total_bytes"] for folder in folders if folder.get("total_bytes", 0) > 0]
    return DiskUse(kept, min(rooms, default=None))


# Of the clock's topic, without whose leader no turn is taken. Copies where there are as many brokers, and those that must have a
# tick before it counts as written: with one broker away ticks still come, and none that was written is lost.
COPIES, IN_SYNC = 3, 2


@dataclass(frozen=True, slots=True)
class ClockTopic:
    """How safe the clock's topic is. `writers`: who may stop every turn by it; None where this Kafka has no rules."""

    brokers: int
    copies: int
    in_sync: int
    writers: Collection[str] | None


def clock_topic(where: KafkaConnection, wire: str) -> ClockTopic:
    """How the topic of this wire name is. Raises LogUnavailable, also without the right to Describe the cluster."""
    with connect(where, right="Describe on the cluster, and DescribeConfigs on the topic") as client:
        topic = survey(client, [wire])[wire]
        brokers = len(client.describe_cluster()["brokers"])
        return ClockTopic(brokers, topic.replication, int(topic.configs.get("min.insync.replicas", "1")), _writers(client, wire))


def _writers(client: KafkaAdminClient, wire: str) -> Collection[str] | None:
    pattern = ResourcePatternFilter(ResourceType.TOPIC, wire, ACLResourcePatternType.MATCH)
    try:
        rules, _ = client.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ALLOW, pattern))
    except SecurityDisabledError:
        return None
    return may_write(rules)


def may_write(rules: Iterable[ACL]) -> Collection[str]:
    """The principals to whom these rules for a topic give the right to write."""
    return sorted({rule.principal for rule in rules if rule.operation in (ACLOperation.WRITE, ACLOperation.ALL)})
