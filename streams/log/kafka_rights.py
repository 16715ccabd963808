"""Checks before a process begins whether its user has the rights that it will need.

Kafka refuses a missing right at the moment of use, and a library that retries in between may turn that into silence.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    for_code,
)

from streams.log.kafka_connection import KafkaConnection

COORDINATOR_WAIT = 20.0  # seconds in which a new cluster makes the topic that groups need


@dataclass(frozen=True, slots=True)
class Needs:
    """Rights by object, as Kafka's documentation spells them: `{"t": {"Read", "Write"}}`."""

    topics: Mapping[str, Collection[str]]
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)


def missing(where: KafkaConnection, needs: Needs) -> list[str]:
    """A sentence for each right that is missing. Topics that do not exist are not judged. Raises KafkaError."""
    with closing(KafkaAdminClient(**where.options())) as admin:
        return [*_topics(where, admin, needs.topics), *_groups(where, admin, needs.groups)]


def lacking(where: KafkaConnection | None, right: str, what: str) -> str:
    """The sentence for one right that we do not have."""
    name = "" if where is None else where.sasl_username or "ANONYMOUS"
    user = f"user '{name}'" if name else "our user"
    return f"{user} lacks the right {right} on {what}" if right else f"{user} lacks a right on {what}"


def granted_operations(described: Mapping[str, Any]) -> set[str] | None:
    """The operations on a topic or group that its description allows, as `DescribeConfigs`; None when it does not report them."""
    operations = described.get("authorized_operations")
    return None if not isinstance(operations, list) else {"".join(map(str.capitalize, name.split("_"))) for name in operations}


def _topics(where: KafkaConnection, admin: KafkaAdminClient, needs: Mapping[str, Collection[str]]) -> Iterator[str]:
    described: Sequence[Mapping[str, Any]] = admin.describe_topics(list(needs))
    for topic in described:
        refused = for_code(topic["error_code"]) is TopicAuthorizationFailedError
        operations: set[str] | None = set() if refused else granted_operations(topic)
        # A broker that does not report rights (an old one, or another product) is assumed to allow everything.
        if operations is not None and not (topic["error_code"] and not refused):
            yield from _lacking(where, needs[topic["name"]], operations, f"topic '{topic['name']}'")


def _groups(where: KafkaConnection, admin: KafkaAdminClient, needs: Mapping[str, Collection[str]]) -> Iterator[str]:
    for group, wanted in needs.items():
        try:
            operations = _operations_of_group(admin, group)
        except GroupAuthorizationFailedError:
            operations = set()
        if operations is not None:
            yield from _lacking(where, wanted, operations, f"group '{group}'")


def _operations_of_group(admin: KafkaAdminClient, group: str) -> set[str] | None:
    """Retries while there is no coordinator, which a new cluster takes a moment to choose."""
    until = monotonic() + COORDINATOR_WAIT
    while True:
        try:
            return granted_operations(admin.describe_groups([group], include_authorized_operations=True)[group])
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
            if monotonic() > until:
                raise
            sleep(0.2)


def _lacking(where: KafkaConnection, wanted: Collection[str], operations: set[str], what: str) -> Iterator[str]:
    missing = sorted(set(wanted) - operations)
    if missing and "All" not in operations:
        yield lacking(where, " and ".join(missing), what)
