"""A consumer's metrics: what it did, and how often it had to try again."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from schemas.outcomes import Action, ActionFinished


class ConsumerMetrics:
    """What the consumers of one process tell. `consumer` is a consumer's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One object a process."""
        self._outcomes = Counter(
            "ullage_outcomes", "Decisions finished with", ("consumer", "action", "result"), registry=registry
        )
        self._retries = Counter("ullage_consumer_retries", "Actions tried again", ("consumer", "action"), registry=registry)
        self._behind = Gauge(
            "ullage_consumer_lag_records", "Decisions not yet looked at", ("consumer", "partition"), registry=registry
        )

    def finished(self, consumer: str, outcome: ActionFinished) -> None:
        """An outcome was appended."""
        self._outcomes.labels(consumer, outcome.action.value, outcome.result.value).inc()

    def tries_again(self, consumer: str, action: Action) -> None:
        """The cluster asked to wait."""
        self._retries.labels(consumer, action.value).inc()

    def behind(self, consumer: str, partition: int, records: int) -> None:
        """How many records of the partition were not looked at yet."""
        self._behind.labels(consumer, str(partition)).set(records)
