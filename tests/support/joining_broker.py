"""A second Kafka process that joins an embedded broker, so that topics can have two copies."""

from pathlib import Path
from typing import Self
from unittest import mock

from streams.broker import Broker, BrokerSettings, server_properties


class JoiningBroker(Broker):
    """A broker, not a controller, in the cluster of `first`, which must run."""

    def __init__(self, settings: BrokerSettings, first: Broker) -> None:
        """Nothing happens until `start`."""
        super().__init__(settings)
        self._first = first

    def start(self) -> Self:
        """Start with the cluster's id, without which the two would be clusters of one node each."""
        cluster = _properties(self._first.data / "log" / "meta.properties")["cluster.id"]
        with mock.patch.object(server_properties, "cluster_id", return_value=cluster):
            return super().start()

    def _choose_ports(self) -> None:
        super()._choose_ports()
        own, firsts = _properties(self._properties), _properties(self._first.data / "server.properties")
        own |= {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": own["advertised.listeners"],
            "controller.quorum.voters": firsts["controller.quorum.voters"],
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in own.items()))


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines}
