"""The usage source's own metrics: what became of the rows it read."""

from collections import Counter as Count
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class UsageMetrics:
    """Follows the counts that the source keeps itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One object a process."""
        self._rows = Counter("ullage_usage_rows", "Rows of usage read", ("what",), registry=registry)
        self._held = Gauge("ullage_usage_held_rows", "Rows that wait for the word of their pod", registry=registry)
        self._seconds = Histogram("ullage_usage_scrape_seconds", "Real time of one scrape", registry=registry)
        self._failures = Counter("ullage_usage_failures", "Scrapes that did not work", registry=registry)
        self._seen: Count[str] = Count()

    def scraped(self, seconds: float) -> None:
        """A scrape worked and took so long."""
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """A scrape did not work."""
        self._failures.inc()

    def rows(self, counts: Mapping[str, int], held: int) -> None:
        """What has become of rows since the start, as the source counts."""
        for what, count in counts.items():
            self._rows.labels(what).inc(count - self._seen[what])
            self._seen[what] = count
        self._held.set(held)
