"""A Kafka that asks who its clients are (SASL_SSL with SCRAM-SHA-512) and allows each of them only what it was granted."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, NewTopic, ResourcePattern, ResourceType

from streams.broker import Broker, BrokerSettings
from streams.broker.broker_settings import MECHANISM, BrokerSecurity
from streams.log.kafka_connection import KafkaConnection
from streams.topics import TopicSpec
from tests.support.certificates import Authority

PASSWORD = "made-up"  # noqa: S105  # of every user of a broker that lives as long as the tests
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """One right: an operation as Kafka spells it (`Read`) on a resource (`topic`, `group`, `cluster`) of this name.

    A name that ends in `*` stands for all names with that beginning.
    """

    operation: str
    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """The broker and who may sign for it. `stranger` is an authority that signed nothing."""

    broker: Broker
    authority: Authority
    stranger: Authority

    def connection(self, user: str = ADMIN) -> KafkaConnection:
        """How this user connects."""
        return KafkaConnection(
            self.broker.bootstrap, "SASL_SSL", MECHANISM, user, PASSWORD, ssl_cafile=str(self.authority.file), client_id="test"
        )

    def settings(self) -> dict[str, str]:
        """The same as settings, as `Commands` takes them; the user is the process's own affair."""
        return {
            "LOG__BROKERS": self.broker.bootstrap,
            "LOG__SECURITY__PROTOCOL": "SASL_SSL",
            "LOG__SECURITY__MECHANISM": MECHANISM,
            "LOG__SECURITY__PASSWORD": PASSWORD,
            "LOG__SECURITY__CA": str(self.authority.file),
        }

    def allow(self, rights: Mapping[str, Iterable[Grant]]) -> None:
        """Grant each user its rights, and wait until the broker knows of the last one."""
        with closing(KafkaAdminClient(**self.connection().options())) as admin:
            admin.create_acls([_acl(user, grant) for user, grants in rights.items() for grant in grants])
        user, last = [(user, grant) for user, grants in rights.items() for grant in grants][-1]
        name = last.name.rstrip("*")
        with closing(KafkaAdminClient(**self.connection(user).options())) as theirs:
            until = time.monotonic() + 60
            while last.resource == "topic" and not _is_allowed(theirs, name):
                assert time.monotonic() < until, f"{user} has not got {last}"
                time.sleep(0.1)

    def make_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Make them as the admin."""
        with closing(KafkaAdminClient(**self.connection().options())) as admin:
            admin.create_topics(
                [
                    NewTopic(s.name, num_partitions=s.partitions, replication_factor=1, topic_configs=dict(s.configs))
                    for s in specs
                ],
                wait_for_metadata=True,
            )


@contextmanager
def secured_kafka(folder: Path, users: Iterable[str], *, hosts: Iterable[str] = ("127.0.0.1",)) -> Iterator[SecuredKafka]:
    """Run one until the block ends; its certificate is for these hosts."""
    authority = Authority.make(folder)
    keystore = authority.sign("broker", list(hosts))
    passwords = dict.fromkeys([ADMIN, *users], PASSWORD)
    security = BrokerSecurity(keystore, authority.file, "CN=broker", ADMIN, passwords)
    with Broker(BrokerSettings(heap_mb=256, quick=True, security=security)) as broker:
        yield SecuredKafka(broker, authority, Authority.make(folder, "stranger"))


def _is_allowed(client: KafkaAdminClient, beginning: str) -> bool:
    """Whether the client sees a topic that begins so."""
    return any(topic.startswith(beginning) for topic in client.list_topics())


def changed(connection: KafkaConnection, **changes: object) -> KafkaConnection:
    """The same connection with something wrong about it."""
    return replace(connection, **changes)  # type: ignore[arg-type]  # names and types are the caller's, and wrong on purpose


def _acl(user: str, grant: Grant) -> ACL:
    kind = ACLResourcePatternType.PREFIXED if grant.name.endswith("*") else ACLResourcePatternType.LITERAL
    name = "kafka-cluster" if grant.resource == "cluster" else grant.name.rstrip("*")
    pattern = ResourcePattern(ResourceType[grant.resource.upper()], name, kind)
    operation = ACLOperation["".join(f"_{c}" if c.isupper() and n else c for n, c in enumerate(grant.operation)).upper()]
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
