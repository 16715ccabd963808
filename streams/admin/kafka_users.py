"""Kafka's users as a file says: each signs in by SCRAM-SHA-512 with its password, and has exactly the rights of the file.

The Helm chart writes the file for a Kafka of its own. Users whose names have a given beginning and are not in the file lose login
and rights; nobody else is touched. Without logins or rights whoever reaches a Kafka can write into it, and so command.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import ClusterAuthorizationFailedError, NoError, SecurityDisabledError

from streams import typed_json, yaml_reader
from streams.errors import BadInput, LogUnavailable
from streams.log.kafka_connection import KafkaConnection, split_address
from streams.log.kafka_errors import translated_errors

MOST_BYTES = 1 << 20
RIGHT = "Alter on the cluster"
"""What it takes to say who may do what."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Operations as Kafka's documentation spells them (`Read`) on resources of a kind (`topic`, `group`).

    `prefix`: on all whose names begin so.
    """

    kind: str
    names: tuple[str, ...]
    operations: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """How a user signs in, and what it may do."""

    password: str
    rights: tuple[AccessRule, ...]


def read(file: Path) -> Mapping[str, KafkaUser]:
    """The users of a file (JSON) by their names. Raises BadInput."""
    data = yaml_reader.read_bytes(file, f"'{file}'", MOST_BYTES)
    try:
        users = typed_json.decode(data, dict[str, KafkaUser])
        for name, user in users.items():  # so that a bad right is found before anything is changed
            list(_rules(name, user))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"'{file}' says no users: {error}") from error
    except KeyError as error:
        raise BadInput(f"'{file}' has a right on, or an operation of, {error}, which Kafka does not know") from error
    return users


def apply(client: KafkaAdminClient, users: Mapping[str, KafkaUser], *, beginning: str = "") -> list[str]:
    """Make them so, and say in sentences what changed. With a `beginning`, others of that beginning go.

    Raises LogUnavailable where Kafka refuses a part.
    """
    present = client.describe_user_scram_credentials()
    gone = [name for name in present if beginning and name.startswith(beginning) and name not in users]
    wanted = {_key(rule): rule for name, user in users.items() for rule in _rules(name, user)}
    granted = {_key(rule): rule for rule in _granted(client, [*users, *gone])}
    dropped = [rule for key, rule in granted.items() if key not in wanted]
    added = [rule for key, rule in wanted.items() if key not in granted]
    _drop(client, dropped)  # first, so that a failure later leaves nobody with more rights than the file gives
    _alter_logins(client, users, gone)
    _add(client, added)
    return [
        *(f"user '{name}' may sign in" for name in users if name not in present),
        *(f"user '{name}' may no longer sign in" for name in gone),
        *(f"{_sentence(rule)}: taken away" for rule in dropped),
        *(f"{_sentence(rule)}: given" for rule in added),
    ]


def _rules(name: str, user: KafkaUser) -> Iterator[ACL]:
    for right in user.rights:
        pattern = ACLResourcePatternType.PREFIXED if right.prefix else ACLResourcePatternType.LITERAL
        for resource in right.names:
            for operation in right.operations:
                of = ResourcePattern(ResourceType[right.kind.upper()], resource, pattern)
                # From any host: a pod's address changes with each start.
                yield ACL(f"User:{name}", "*", ACLOperation[_spelled(operation)], ACLPermissionType.ALLOW, of)


def _spelled(operation: str) -> str:
    """`DescribeConfigs` as the client has it, DESCRIBE_CONFIGS."""
    return "".join(f"_{c}" if c.isupper() and place else c for place, c in enumerate(operation)).upper()


def _granted(client: KafkaAdminClient, names: Iterable[str]) -> Iterator[ACL]:
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    for name in names:
        rules, _ = client.describe_acls(ACLFilter(f"User:{name}", None, ACLOperation.ANY, ACLPermissionType.ANY, anything))
        yield from rules


def _key(rule: ACL) -> tuple[object, ...]:
    of = rule.resource_pattern
    kind, pattern = of.resource_type, of.pattern_type
    return rule.principal, rule.host, rule.operation, rule.permission_type, kind, of.resource_name, pattern


def _sentence(rule: ACL) -> str:
    of = rule.resource_pattern
    star = "*" if of.pattern_type is ACLResourcePatternType.PREFIXED else ""
    return f"{rule.principal} {rule.operation.name} on {of.resource_type.name.lower()} '{of.resource_name}{star}'"


def _drop(client: KafkaAdminClient, rules: Iterable[ACL]) -> None:
    filters = [
        ACLFilter(rule.principal, rule.host, rule.operation, rule.permission_type, _exactly(rule.resource_pattern))
        for rule in rules
    ]
    for _, _, error in client.delete_acls(filters) if filters else ():
        _require(error is NoError, f"rights are not taken away: {error}")


def _exactly(pattern: ResourcePattern) -> ResourcePatternFilter:
    return ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


def _alter_logins(client: KafkaAdminClient, users: Mapping[str, KafkaUser], gone: Iterable[str]) -> None:
    # Kafka shows no password, so all are set again; nothing changes but their salts.
    mechanism = ScramMechanism.SCRAM_SHA_512
    changes = [
        *(UserScramCredentialUpsertion(name, mechanism, user.password) for name, user in users.items()),
        *(UserScramCredentialDeletion(name, mechanism) for name in gone),
    ]
    for name, error in client.alter_user_scram_credentials(changes).items():
        _require(error is None, f"the login of user '{name}' is not changed: {error}")


def _add(client: KafkaAdminClient, rules: list[ACL]) -> None:
    if rules:
        failed = client.create_acls(rules)["failed"]
        _require(not failed, f"rights are not given: {failed}")


def _require(done: bool, otherwise: str) -> None:
    if not done:
        raise LogUnavailable(otherwise)


def why_open(where: KafkaConnection) -> str | None:
    """Why anybody may write, as a sentence; None when only those with rights may. Raises LogUnavailable and BadInput."""
    # Who is on this machine could do the same without a Kafka that nobody else can reach.
    if all(_is_loopback(split_address(broker)[0]) for broker in where.addresses):
        return None
    if not where.logs_in:
        return f"Kafka '{where.brokers}' lets us in without a login, so whoever reaches it can write what people decide"
    return None if checks_rights(where) else f"Kafka '{where.brokers}' checks no rights, so whoever logs in can write anything"


def checks_rights(where: KafkaConnection) -> bool:
    """Whether this Kafka has an authorizer. Raises LogUnavailable and BadInput."""
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, cluster)
    with translated_errors(where, "asking which rights it checks", right="nothing"):
        client = KafkaAdminClient(**where.options())
        try:
            client.describe_acls(wanted)
        except SecurityDisabledError:
            return False
        except ClusterAuthorizationFailedError:  # to refuse the question is to check rights
            return True
        finally:
            client.close()
    return True


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
