"""A real Apache Kafka on this machine, started by us: one node, loopback only, no Docker and no Java to install.

`with Broker(BrokerSettings()) as broker:` starts Kafka and waits until it answers. It is for demos, tests and
one-machine use; it refuses to listen beyond 127.0.0.1. Everything that can go wrong comes back as LogUnavailable or
BadInput, in a sentence that says what to do.
"""

from streams.broker.broker_process import Broker
from streams.broker.broker_settings import BrokerSettings
from streams.broker.jars import JarsUnavailable

__all__ = ["Broker", "BrokerSettings", "JarsUnavailable"]
