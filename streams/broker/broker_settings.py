"""What can be chosen about the embedded broker, with defaults for one small machine, and the server.properties that follow.

One node is broker and controller, on loopback only. With security every client connection is SASL_SSL, and the controller's port,
which clients never use, demands a certificate of the same authority. Access rules (ACLs) are made later, through the admin user;
without a rule nothing is allowed.
"""

import base64
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schemas.units import Seconds
from streams.errors import BadInput

MECHANISM = "SCRAM-SHA-512"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """Who the broker is, and who may talk to it.

    `keystore` is one PEM file with the broker's key (PKCS #8, no pass phrase) and its certificate, `authority` the PEM file
    of the certificate that signed it, `subject` the certificate's distinguished name, for instance `CN=broker`. `users` maps
    names to passwords; `admin` is the one of them that may do everything.
    """

    keystore: Path
    authority: Path
    subject: str
    admin: str
    users: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Raises BadInput for an admin without a password, and for characters that are special in Kafka's files."""
        if self.admin not in self.users:
            raise BadInput(f"the broker's admin '{self.admin}' is not among its users")
        for name, password in self.users.items():
            if not _NAME.fullmatch(name) or not _PASSWORD.fullmatch(password):
                raise BadInput(f"name or password of the broker's user '{name}' have other characters than A-Z a-z 0-9 . _ -")

    def properties(self) -> dict[str, str]:
        """The security settings for server.properties, with the admin's password, which the broker itself logs in with."""
        login = f'username="{self.admin}" password="{self.users[self.admin]}"'
        jaas = f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};"
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": jaas,
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keystore.as_posix(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.as_posix(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{self.admin};User:{self.subject}",
        }

    def format_arguments(self) -> list[str]:
        """Arguments for the format tool, so that the users exist from the first start on."""
        users = (f"{MECHANISM}=[name={name},password={password}]" for name, password in self.users.items())
        return [argument for user in users for argument in ("--add-scram", user)]


SMALLEST_HEAP_MB = 128


def user_cache() -> Path:
    """Where fetched jars are kept: $ULLAGE_CACHE, else ullage in $XDG_CACHE_HOME, else ~/.cache/ullage."""
    own = os.environ.get("ULLAGE_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ullage"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`data` None means a temporary folder that is deleted at the end; `port` 0 means any free one.

    `quick` starts faster and runs slower (only the first-level compiler of Java), which suits tests. Without `security` every
    program on this machine may do everything.
    """

    data: Path | None = None
    port: int = 0
    heap_mb: int = 512
    quick: bool = False
    cache: Path = field(default_factory=user_cache)
    min_free_mb: int = 1024
    start_timeout: Seconds = Seconds(90.0)
    security: BrokerSecurity | None = None

    def __post_init__(self) -> None:
        """Raises BadInput for a value no broker could start with."""
        if not 0 <= self.port <= 65535:  # noqa: PLR2004  # stated in the sentence below
            msg = f"port {self.port} is none: a port is between 0 (any free one) and 65535"
            raise BadInput(msg)
        if self.heap_mb < SMALLEST_HEAP_MB:
            msg = f"a heap of {self.heap_mb} MB is too small: Kafka needs at least {SMALLEST_HEAP_MB}"
            raise BadInput(msg)


HOST = "127.0.0.1"


def server_properties(*, port: int, controller: int, logs: Path, security: BrokerSecurity | None = None) -> str:
    """The text of server.properties. Topics are never made by accident; one replica of everything."""
    settings = _settings(port, controller, logs) | ({} if security is None else security.properties())
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _settings(port: int, controller: int, logs: Path) -> dict[str, str]:
    clients, raft = f"CLIENTS://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"{clients},{raft}",
        "advertised.listeners": clients,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "log.dirs": logs.as_posix(),
        "auto.create.topics.enable": "false",
        **_ONE_REPLICA,
        **_SMALL,
        **_RETURN,
        **_GROUPS,
    }


_ONE_REPLICA = {
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}

_SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    "log.cleaner.backoff.ms": "1000",  # the default of 15 s lets a changelog outgrow its state before it is first looked at
    "log.segment.bytes": str(64 << 20),
    "log.index.size.max.bytes": str(1 << 20),
    "message.max.bytes": str(8 << 20),
}

_RETURN = {
    # after kill -9 the controller accepts the broker again only when the dead one's session is over (9 s by default)
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
}

_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # below Faust's advised 6 s, so that tests need not wait for the dead
}


def cluster_id() -> str:
    """A random cluster id."""
    while True:  # 1 in 64 begins with '-', which the format tool would take for an option
        name = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not name.startswith("-"):
            return name
