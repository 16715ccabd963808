"""How safe the topic of the clock is: who may write it, and how many copies it has.

Whoever may write it can stop every turn, and while it has no leader no turn is taken.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import SecurityDisabledError

from streams.admin import topic_admin
from streams.log.kafka_connection import KafkaConnection

# Copies of the topic where there are as many brokers, and those that must have a tick before it counts as written: with one
# broker away ticks still come, and none that was written is lost.
COPIES, IN_SYNC = 3, 2


@dataclass(frozen=True, slots=True)
class ClockTopic:
    """`writers` are the principals to whom Kafka's rules give the right; None where this Kafka has no rules."""

    brokers: int
    copies: int
    in_sync: int
    writers: Collection[str] | None


def ask(where: KafkaConnection, wire: str) -> ClockTopic:
    """How the topic of this wire name is. Raises LogUnavailable, also without the right to Describe the cluster."""
    with topic_admin.connect(where, right="Describe on the cluster, and DescribeConfigs on the topic") as client:
        topic = topic_admin.survey(client, [wire])[wire]
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
