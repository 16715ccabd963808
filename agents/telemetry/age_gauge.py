"""Gauges of real seconds since something last happened, computed when they are read."""

import time

from prometheus_client import CollectorRegistry, Gauge


class AgeGauge:
    """One gauge of ages, by labels. A label set without an event yet is not shown."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        """The arguments are those of prometheus_client's own metrics."""
        self._gauge = Gauge(name, text, labels, registry=registry)
        self._since: dict[tuple[str, ...], float] = {}

    def happened(self, *labels: str) -> None:
        """Count from now on."""
        new = labels not in self._since
        self._since[labels] = time.monotonic()
        if new:
            gauge = self._gauge.labels(*labels) if labels else self._gauge
            # A function, so that the age is that of the scrape, also when nothing happens any more.
            gauge.set_function(lambda: time.monotonic() - self._since.get(labels, time.monotonic()))

    def forget(self, *labels: str) -> None:
        """Stop showing this label set."""
        self._gauge.remove(*labels)
        self._since.pop(labels, None)
