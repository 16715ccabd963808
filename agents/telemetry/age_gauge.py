"""Gauges of real seconds since something last happened, computed when they are read."""

import time

from prometheus_client import CollectorRegistry, Gauge


class AgeGauge:
    """One gauge of ages, by labels. A label set of which nothing has happened yet is not shown."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        """The arguments are those of prometheus_client's own metrics."""
        self._gauge = Gauge(name, text, labels, registry=registry)

    def happened(self, *labels: str) -> None:
        """Count from now on."""
        at = time.monotonic()
        gauge = self._gauge.labels(*labels) if labels else self._gauge
        gauge.set_function(lambda: time.monotonic() - at)

    def forget(self, *labels: str) -> None:
        """Stop showing this label set."""
        self._gauge.remove(*labels)
