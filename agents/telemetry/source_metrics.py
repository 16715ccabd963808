"""A source's metrics, read off its log: what it appended, and when the log did not take it."""

from collections import Counter as Count
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter

from agents.telemetry.age_gauge import AgeGauge
from streams.errors import LogUnavailable
from streams.log.port import NewRecord, Record
from streams.topics import Topics


class SourceMetrics:
    """Watches the log of one source."""

    def __init__(self, registry: CollectorRegistry, topics: Topics, source: str) -> None:
        """`source` is its name."""
        self._topics, self._source = topics, source
        self._records = Counter("ullage_source_records", "Records appended", ("source", "topic"), registry=registry)
        self._failures = Counter("ullage_source_failures", "Appends the log did not take", ("source",), registry=registry)
        self._dropped = Counter("ullage_source_dropped", "Records over the bound", ("source", "topic"), registry=registry)
        self._told: Count[str] = Count()
        self._age = AgeGauge("ullage_source_age_seconds", "Real time since the last append", ("source",), registry)

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count them by topic."""
        for topic, count in Count(record.topic for record in records).items():
            self._records.labels(self._source, self._topics.short(topic)).inc(count)
        self._age.happened(self._source)

    def read(self, records: Sequence[Record]) -> None:
        """What a source reads is not counted."""

    def failed(self, _error: LogUnavailable) -> None:
        """The source will try again, and drops what is over its bound."""
        self._failures.labels(self._source).inc()

    def dropped(self, counts: Mapping[str, int]) -> None:
        """What the source has dropped since its start, by topic (wire name), as it counts itself."""
        for topic, count in counts.items():
            self._dropped.labels(self._source, self._topics.short(topic)).inc(count - self._told[topic])
            self._told[topic] = count
