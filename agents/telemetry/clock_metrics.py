"""The clock's metrics, observed through its log: each tick, and each probe by which the clock compares itself with the log."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from agents.telemetry.age_gauge import AgeGauge
from streams.codec.event_codec import tick_number
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics


class ClockMetrics:
    """Observes the log of one clock. Until the first tick, the age of the last one counts from when this object was made."""

    def __init__(self, registry: CollectorRegistry, topics: Topics, ticked: Iterable[str]) -> None:
        """`ticked` are the short names of the topics that the clock ticks."""
        self._inputs = {topics.wire(name) for name in ticked}
        self._ticks = Counter("ullage_clock_ticks", "Ticks appended, counted once for all partitions", registry=registry)
        self._skew = Gauge("ullage_clock_skew_seconds", "This clock less the log's, at the last look", registry=registry)
        self._age = AgeGauge("ullage_clock_tick_age_seconds", "Real time since this clock's last tick", (), registry)
        self._failures = Counter("ullage_clock_failures", "Appends that the log did not take", registry=registry)
        self._number: int | None = None
        self._without = set(self._inputs)
        """The ticked topics that the log does not yet have the tick `_number` of."""
        self._age.happened()

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count a tick once every ticked topic has it, which takes several appends. A probe goes elsewhere."""
        ticks = {record.topic: tick_number(record) for record in records if record.topic in self._inputs}
        for topic, number in ticks.items():
            if number != self._number:
                self._number, self._without = number, set(self._inputs)
            self._without.discard(topic)
        if ticks and not self._without:
            self._ticks.inc()
            self._age.happened()

    def read(self, records: Sequence[Record]) -> None:
        """Compare a probe that came back: its number is this machine's time, its timestamp the log's."""
        for record in records:
            number = tick_number(record) if record.topic not in self._inputs else None
            if number is not None and record.timestamp_ms >= 0:
                self._skew.set((number - record.timestamp_ms) / 1000)

    def failed(self, _error: LogUnavailable) -> None:
        """Count a tick or probe that the log did not accept."""
        self._failures.inc()
