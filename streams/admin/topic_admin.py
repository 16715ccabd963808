"""`ullage topics plan` and `apply`: bring the topics of a Kafka cluster into the form that `streams.topics` wants.

Repeating it changes nothing. It refuses what could lose records or break keys, before it changes anything, unless the caller
names the change. It deletes no topic and undoes nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

from streams.admin.topic_plan import NEW, PARTITIONS, ExistingTopic, TopicChange, TopicPlan, compare
from streams.errors import BadInput, LogUnavailable
from streams.log.connection_check import refuse_at_once
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_errors import granted_operations, translated_errors
from streams.topics import TopicSpec

__all__ = ["ExistingTopic", "TopicChange", "TopicPlan", "apply", "compare", "connect", "plan", "survey"]

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
    rooms = [folder["usable_bytes"] / folder["total_bytes"] for folder in folders if folder.get("total_bytes", 0) > 0]
    return DiskUse(kept, min(rooms, default=None))
