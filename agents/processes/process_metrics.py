"""Metrics, health and log lines of a source's or consumers' process, from the settings: on the address of `metrics`, if any."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from agents.settings.tree import Settings
from agents.telemetry import HealthServer, told
from agents.telemetry.health_server import Reasons, all_well


@contextmanager
def telling(component: str, settings: Settings, ready: Reasons = all_well) -> Iterator[CollectorRegistry]:
    """Tell of this process while the block runs; the registry is for the component's own metrics, `ready` for /readyz."""
    registry = CollectorRegistry()
    about = {
        "log.kind": settings.log.kind,
        "log.brokers": settings.log.brokers,
        "topics.prefix": settings.topics.prefix,
        "topics.partitions": settings.topics.partitions,
        "cluster.name": settings.cluster.name,
    }
    listen = (settings.metrics.host, settings.metrics.port)
    with told(component, HealthServer(registry, ready=ready), settings=about, listen=listen):
        yield registry
