"""The clock's metrics, observed through its log: each tick, and each probe by which the clock compares itself with the log."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from agents.telemetry.age_gauge import AgeGauge
from streams.clock_rules import FILL, PROBE, TICK
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.topics import CLOCK, Topics


class ClockMetrics:
    """Observes the log of one clock. Until the first tick, the age of the last one counts from when this object was made."""

    def __init__(self, registry: CollectorRegistry, topics: Topics) -> None:
        self._wire = topics.wire(CLOCK)
        self._ticks = Counter("ullage_clock_ticks", "Ticks appended", registry=registry)
        self._skew = Gauge("ullage_clock_skew_seconds", "This clock less the log's, at the last look", registry=registry)
        self._age = AgeGauge("ullage_clock_tick_age_seconds", "Real time since this clock's last tick", (), registry)
        self._lost = Gauge("ullage_clock_lost_ends", "Partitions that end before the end that turns wait for", registry=registry)
        self._filled = Counter("ullage_clock_filled", "Records without meaning in the place of lost ones", registry=registry)
        self._failures = Counter("ullage_clock_failures", "Appends that the log did not take", registry=registry)
        self._age.happened()

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count a tick, and what fills up partitions."""
        self._filled.inc(sum(record.key == FILL for record in records))
        if any(record.topic == self._wire and record.key == TICK for record in records):
            self._ticks.inc()
            self._age.happened()

    def read(self, records: Sequence[Record]) -> None:
        """Compare a probe that came back: its value is this machine's time, its timestamp the log's."""
        for record in records:
            if record.topic == self._wire and record.key == PROBE and record.timestamp_ms >= 0:
                probe_time = record.value or b""
                if probe_time.isdigit():
                    self._skew.set((int(probe_time) - record.timestamp_ms) / 1000)

    def lost_ends(self, count: int) -> None:
        """How many partitions end before their ends in force now."""
        self._lost.set(count)

    def failed(self, _error: LogUnavailable) -> None:
        """Count a tick or probe that the log did not accept."""
        self._failures.inc()
