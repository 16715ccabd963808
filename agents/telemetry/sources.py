"""A source's metrics: what it appended, what it had to drop, what did not work."""

from prometheus_client import CollectorRegistry, Counter

from agents.telemetry.ages import Age
from streams.errors import EdgeError


class SourceMetrics:
    """What the sources of one process tell. `source` is a source's name, `topic` the short name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One object a process."""
        self._records = Counter("ullage_source_records", "Records appended", ("source", "topic"), registry=registry)
        self._dropped = Counter("ullage_source_dropped", "Facts dropped as the buffer was full", ("source",), registry=registry)
        self._failures = Counter("ullage_source_failures", "Failures to see the world", ("source", "kind"), registry=registry)
        self._age = Age("ullage_source_age_seconds", "Real time since the last append", ("source",), registry)

    def appended(self, source: str, topic: str, records: int) -> None:
        """Records are durable."""
        self._records.labels(source, topic).inc(records)
        self._age.happened(source)

    def dropped(self, source: str, facts: int) -> None:
        """The log could not be reached for longer than the buffer lasts."""
        self._dropped.labels(source).inc(facts)

    def failed(self, source: str, error: EdgeError) -> None:
        """The world did not answer, or nonsense. `kind` is the error's name: TryAgain or GiveUp."""
        self._failures.labels(source, type(error).__name__).inc()
