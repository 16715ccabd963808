"""Three Kafka processes on this machine, one cluster: topics may have copies, and a broker may go away and come back."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest import mock

from streams.broker import Broker, BrokerSettings, broker_settings

SETTINGS = BrokerSettings(heap_mb=256, quick=True, start_timeout=120.0)
_COPIES = {"default.replication.factor": "3", "offsets.topic.replication.factor": "3"}
"""Each broker has a copy of what nobody says otherwise of, so that groups go on when one is away."""


class SteadyBroker(Broker):
    """The one that is also the controller; it keeps that port when it starts again, because the others know it."""

    def _choose_ports(self) -> None:
        before = _properties(self._properties) if self._properties.exists() else {}
        super()._choose_ports()
        kept = {name: before[name] for name in ("listeners", "controller.quorum.voters") if before}
        _write(self._properties, _properties(self._properties) | _COPIES | kept)


class JoiningBroker(Broker):
    """A broker, not a controller, in the cluster of `first`, which must run at the first start."""

    def __init__(self, settings: BrokerSettings, first: Broker, node: int) -> None:
        super().__init__(settings)
        self._first, self._node = first, node

    def start(self) -> Self:
        """Start with the cluster's id, without which each would be a cluster of one."""
        cluster = _properties(self._first.data / "log" / "meta.properties")["cluster.id"]
        with mock.patch.object(broker_settings, "cluster_id", return_value=cluster):
            return super().start()

    def _choose_ports(self) -> None:
        super()._choose_ports()
        own, firsts = _properties(self._properties), _properties(self._first.data / "server.properties")
        own |= _COPIES | {
            "process.roles": "broker",
            "node.id": str(self._node),
            "listeners": own["advertised.listeners"],
            "controller.quorum.voters": firsts["controller.quorum.voters"],
        }
        _write(self._properties, own)


class ThreeBrokers:
    """Brokers 1 to 3; 1 is also the controller."""

    def __init__(self) -> None:
        first = SteadyBroker(SETTINGS)
        self.nodes: dict[int, Broker] = {1: first, **{node: JoiningBroker(SETTINGS, first, node) for node in (2, 3)}}
        self._running = ExitStack()

    @property
    def bootstrap(self) -> str:
        """All three addresses, so that clients begin with any of them."""
        return ",".join(broker.bootstrap for broker in self.nodes.values())

    def __enter__(self) -> Self:
        """Start all."""
        with ExitStack() as starting:
            for broker in self.nodes.values():
                starting.enter_context(broker)
            self._running = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close all."""
        self._running.close()


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines}


def _write(file: Path, properties: dict[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
