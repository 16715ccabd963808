"""A real Apache Kafka on this machine, started by us: one node, loopback only, no Docker and no Java to install.

`with Broker(BrokerSettings()) as broker:` gives `broker.bootstrap` when Kafka answers. It is for demos, tests and one-machine
use; it refuses to listen beyond 127.0.0.1. Everything that can go wrong comes back as LogUnavailable or BadInput, in a
sentence that says what to do.
"""

from streams.broker.jars import JarsUnavailable
from streams.broker.server import Broker
from streams.broker.settings import BrokerSettings

__all__ = ["Broker", "BrokerSettings", "JarsUnavailable"]
