"""Messages for errors of Kafka: what was being done, where, what was missing, and what to do.

A missing right names its object and the right. The same rules serve kafka-python and aiokafka, whose errors have the same names.
A process checks before it begins which rights it lacks: a library that retries may turn a missing one into silence.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient, errors
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    for_code,
)

from streams.errors import LogUnavailable
from streams.log.connection_check import find_fault, refuse_at_once
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import MAX_RECORD_BYTES

COORDINATOR_WAIT = 20.0  # seconds in which a new cluster makes the topic that groups need


@dataclass(frozen=True, slots=True)
class Needs:
    """Rights by object, as Kafka's documentation spells them: `{"t": {"Read", "Write"}}`."""

    topics: Mapping[str, Collection[str]]
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)


def missing(where: KafkaConnection, needs: Needs) -> list[str]:
    """A sentence for each right that is missing. Topics that do not exist are not judged. Raises KafkaError."""
    with closing(KafkaAdminClient(**where.options())) as admin:
        return [*_about_topics(where, admin, needs.topics), *_about_groups(where, admin, needs.groups)]


def lacking(where: KafkaConnection | None, right: str, what: str) -> str:
    """The sentence for one right that we do not have."""
    name = "" if where is None else where.sasl_username or "ANONYMOUS"
    user = f"user '{name}'" if name else "our user"
    return f"{user} lacks the right {right} on {what}" if right else f"{user} lacks a right on {what}"


def granted_operations(described: Mapping[str, Any]) -> set[str] | None:
    """The operations on a topic or group that its description allows, as `DescribeConfigs`; None when it does not report them."""
    operations = described.get("authorized_operations")
    return None if not isinstance(operations, list) else {"".join(map(str.capitalize, name.split("_"))) for name in operations}


def _about_topics(where: KafkaConnection, admin: KafkaAdminClient, needs: Mapping[str, Collection[str]]) -> Iterator[str]:
    described: Sequence[Mapping[str, Any]] = admin.describe_topics(list(needs))
    for topic in described:
        refused = for_code(topic["error_code"]) is TopicAuthorizationFailedError
        operations: set[str] | None = set() if refused else granted_operations(topic)
        # A broker that does not report rights (an old one, or another product) is assumed to allow everything.
        if operations is not None and not (topic["error_code"] and not refused):
            yield from _lacking(where, needs[topic["name"]], operations, f"topic '{topic['name']}'")


def _about_groups(where: KafkaConnection, admin: KafkaAdminClient, needs: Mapping[str, Collection[str]]) -> Iterator[str]:
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


RIGHTS = "docs/security.md lists the rights of each process"
_OBJECTS = {
    "TopicAuthorizationFailedError": "topic",
    "GroupAuthorizationFailedError": "group",
    "TransactionalIdAuthorizationFailedError": "transactional id",
}
_CLUSTER = "ClusterAuthorizationFailedError"
_NO_CONNECTION: tuple[type[BaseException], ...] = (
    errors.KafkaTimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.SaslAuthenticationFailedError,
    errors.IllegalSaslStateError,
    OSError,
)
_ADVICE: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        f"a record may have {MAX_RECORD_BYTES} bytes; run `ullage topics apply`, which sets max.message.bytes",
    ),
    ((errors.UnknownTopicOrPartitionError, errors.InvalidTopicError), "make the topics with `ullage topics apply`"),
    (
        (errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError),
        "too few replicas are in sync; look at the brokers",
    ),
    (
        (errors.RetriableError, errors.UnknownBrokerIdError, OSError),
        "are the brokers at work? They may be starting, stopping or overloaded",
    ),
)


@contextmanager
def translated_errors(
    where: KafkaConnection, doing: str, *, right: str = "Describe", topics: Collection[str] = ()
) -> Iterator[None]:
    """Turn any error of the client into LogUnavailable with a sentence.

    `right` is the right that the work inside needs, `topics` its objects, for errors that do not name them.
    """
    try:
        yield
    except (errors.KafkaError, OSError) as error:
        reason = explain(where, error, right=right, topics=topics)
        raise LogUnavailable(f"{doing} at Kafka '{where.brokers}' did not work: {reason}") from error


def require(where: KafkaConnection, needs: Needs) -> None:
    """Raises LogUnavailable that names each missing right, or says why we cannot connect at all."""
    with translated_errors(where, "asking for our rights"):
        refuse_at_once(where)
        refusals = missing(where, needs)
    if refusals:
        raise LogUnavailable(f"Kafka '{where.brokers}' allows too little: {'; '.join(refusals)}; {RIGHTS}")


def explain(where: KafkaConnection, error: Exception, *, right: str = "", topics: Collection[str] = ()) -> str:
    """Why an error of kafka-python or aiokafka came about, and what to do, in one sentence."""
    refused = missing_right(where, error, right=right, topics=topics)
    if not refused and isinstance(error, _NO_CONNECTION):
        fault = find_fault(where)  # Kafka's clients only report a time-out, so the connection is made once more, step by step
        if fault is not None:
            return fault.sentence
        refused = "; ".join(_unsaid(where, right, topics))
    return f"{refused}; {RIGHTS}" if refused else _other(error)


def _unsaid(where: KafkaConnection, right: str, topics: Collection[str]) -> Sequence[str]:
    """The missing rights behind a client that connected and then timed out: a refusal may show as mere silence."""
    try:
        return missing(where, Needs({topic: {right} for topic in topics})) if right and topics else ()
    except errors.KafkaError:
        return ()


def missing_right(where: KafkaConnection | None, error: BaseException, *, right: str = "", topics: Collection[str] = ()) -> str:
    """The sentence for an error about a right that we do not have; empty for another error."""
    name = type(error).__name__
    if name == _CLUSTER or _CLUSTER in str(error):  # for a producer that may write to no topic
        return lacking(where, right, _topics(topics) if topics else "the cluster")
    if name not in _OBJECTS:
        return ""
    named = ", ".join(f"'{name_of}'" for name_of in sorted(_named(error) or topics))
    return lacking(where, right, f"{_OBJECTS[name]} {named}".rstrip())


def _topics(names: Collection[str]) -> str:
    return "topic " + ", ".join(f"'{name}'" for name in sorted(names))


def _named(error: BaseException) -> Collection[str]:
    """The objects that the error carries: topics, or the name of a group. A message of several words is ignored."""
    for named in error.args:
        if isinstance(named, set | frozenset | list | tuple | Mapping):
            return [str(item) for item in named]
        if isinstance(named, str) and named and " " not in named:
            return [named]
    return ()


def _other(error: Exception) -> str:
    answer = " ".join(f"{type(error).__name__}: {error}".split())
    advice = next((advice for kinds, advice in _ADVICE if isinstance(error, kinds)), "look at the brokers' own log")
    return f"{answer}; {advice}"
