"""The consumers' metrics, as their log observes them: every outcome, and every dead letter."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from schemas.outcomes import ActionFinished, ObjectWritten, StatusWritten
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics


class ConsumerMetrics:
    """Observes the logs of all consumers of a process."""

    def __init__(self, registry: CollectorRegistry, topics: Topics) -> None:
        """One for each process."""
        self._codec = Codec(topics)
        self._outcomes_topic, self._dead_topic = topics.wire("outcomes"), topics.wire("dead-letters")
        self._outcomes = Counter("ullage_outcomes", "Decisions finished with", ("action", "result"), registry=registry)
        self._dead = Counter("ullage_consumer_dead_letters", "Decisions that could not be read", registry=registry)
        self._failures = Counter("ullage_consumer_failures", "Appends the log did not take", registry=registry)

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count outcomes by action and result, and dead letters."""
        for record in records:
            if record.topic == self._dead_topic:
                self._dead.inc()
            elif record.topic == self._outcomes_topic:
                self._count(self._codec.decode(_as_record(record)))

    def read(self, records: Sequence[Record]) -> None:
        """Ignore what consumers read."""

    def failed(self, _error: LogUnavailable) -> None:
        """Count an append that the log did not take. The outcome stays in the consumer until the log takes it."""
        self._failures.inc()

    def _count(self, event: object) -> None:
        if isinstance(event, ActionFinished):
            self._outcomes.labels(event.action.value, event.result.value).inc()
        elif isinstance(event, StatusWritten):
            self._outcomes.labels("status", event.result.value).inc()
        elif isinstance(event, ObjectWritten):
            self._outcomes.labels("object", event.result.value).inc()


def _as_record(record: NewRecord) -> Record:
    """The record as a reader would see it; the offset plays no part in decoding."""
    return Record(record.topic, record.partition, 0, record.key, record.value, record.headers)
