"""The clock's metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from agents.telemetry.ages import Age
from schemas.units import Seconds


class ClockMetrics:
    """What a clock tells."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One clock a process. The age counts from here until the first tick."""
        self._ticks = Counter("ullage_clock_ticks", "Ticks appended, counted once for all partitions", registry=registry)
        self._skew = Gauge("ullage_clock_skew_seconds", "This clock less the log's, at the last tick", registry=registry)
        self._age = Age("ullage_clock_tick_age_seconds", "Real time since this clock's last tick", (), registry)
        self._age.happened()
        self._failures = Counter("ullage_clock_failures", "Ticks that could not be appended or were refused", registry=registry)

    def ticked(self) -> None:
        """One tick is in every partition of every topic that a stage reads."""
        self._ticks.inc()
        self._age.happened()

    def skewed(self, seconds: Seconds) -> None:
        """How far this machine's clock is ahead of the log's own timestamps (behind: negative)."""
        self._skew.set(seconds)

    def failed(self) -> None:
        """A tick was not appended."""
        self._failures.inc()
