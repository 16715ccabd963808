"""The metrics API's own metrics."""

from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from schemas.times import to_seconds

_SLOW = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class MetricsApiMetrics:
    """One object for each process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Names, labels and their values are in docs/observability.md."""
        ours = "ullage_metrics_api"
        self._answers = Counter(f"{ours}_answers", "Questions answered", ("metric", "result"), registry=registry)
        self._seconds = Histogram(f"{ours}_answer_seconds", "Time of an answer", buckets=_SLOW, registry=registry)
        self._ends = Gauge(f"{ours}_certificate_expiry_timestamp_seconds", "End of the certificate shown", registry=registry)
        self._shown = Counter(f"{ours}_certificate_changes", "Certificates that came", ("result",), registry=registry)
        self._age = Gauge(f"{ours}_view_age_seconds", "Real time since the log gave anything new", registry=registry)

    def look_at(self, age: Callable[[], float]) -> None:
        """Read this whenever somebody scrapes."""
        self._age.set_function(age)

    def answered(self, metric: str, result: str, seconds: float) -> None:
        """A request was answered."""
        self._answers.labels(metric, result).inc()
        self._seconds.observe(seconds)

    def shown(self, ends: datetime) -> None:
        """From now on a certificate is shown that is valid until `ends`."""
        self._ends.set(to_seconds(ends))
        self._shown.labels("shown").inc()

    def refused(self) -> None:
        """A new certificate was unusable, or there was none."""
        self._shown.labels("refused").inc()
