"""Gauges that grow by themselves: real seconds since something last happened, computed when they are read."""

import time

from prometheus_client import CollectorRegistry, Gauge


class AgeGauge:
    """One gauge of ages, by labels. A label set that never happened is not shown."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        """As prometheus_client's own metrics."""
        self._gauge = Gauge(name, text, labels, registry=registry)

    def happened(self, *labels: str) -> None:
        """Now."""
        at = time.monotonic()
        gauge = self._gauge.labels(*labels) if labels else self._gauge
        gauge.set_function(lambda: time.monotonic() - at)

    def forget(self, *labels: str) -> None:
        """Show it no more."""
        self._gauge.remove(*labels)
