"""The broker's server.properties: one node that is broker and controller, loopback only, sized for a small machine."""

import base64
import secrets
from pathlib import Path

from streams.broker.broker_security import BrokerSecurity

HOST = "127.0.0.1"


def server(*, port: int, controller: int, logs: Path, security: BrokerSecurity | None = None) -> str:
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
