"""The metrics of what answers the API server: the webhook's, upstream's where they mean the same, and the metrics API's."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from schemas.times import to_seconds

if TYPE_CHECKING:
    # Every process loads these metrics, and few load Kubernetes' client, which takes 10 MiB.
    from streams.consumers.webhook.review_interface import Review

_SLOW = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upstream's buckets begin at 10 ms, which is longer than nearly all answers take."""

STEPS = ("read_request", "admit", "build_response", "write_response", "total")
"""Upstream's steps of an answer."""


class WebhookMetrics:
    """One object for each process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Names, labels and their values are in docs/observability.md."""
        admission = "vpa_admission_controller"
        self._pods = Counter(f"{admission}_admission_pods", "Pods that were reviewed", ("applied",), registry=registry)
        self._latency = Histogram(
            f"{admission}_admission_latency_seconds", "Judging a review", ("status", "resource"), buckets=_SLOW, registry=registry
        )
        self._steps = Histogram(
            f"{admission}_execution_latency_seconds", "Steps of an answer", ("step",), buckets=_SLOW, registry=registry
        )
        self._step = {name: self._steps.labels(name) for name in STEPS}
        self._counted: dict[tuple[str, str, bool], tuple[list[Counter], Histogram]] = {}
        self._reviews = Counter("ullage_webhook_reviews", "Reviews answered", ("resource", "result"), registry=registry)
        self._lookups = Counter("ullage_webhook_owner_lookups", "Owners looked up", ("result",), registry=registry)
        self._ends = Gauge("ullage_certificate_expiry_timestamp_seconds", "End of the certificate shown", registry=registry)
        self._shown = Counter("ullage_certificate_changes", "Certificates that came", ("result",), registry=registry)
        self._age = Gauge("ullage_webhook_view_age_seconds", "Real time since the log gave anything new", registry=registry)
        self._dropped = Gauge("ullage_webhook_outcomes_dropped", "Outcomes over the bound", registry=registry)
        self._waiting = Gauge("ullage_webhook_outcomes_waiting", "Outcomes not in the log yet", registry=registry)
        self._paused = Gauge("ullage_webhook_workloads_left_alone", "Workloads whose patched pods do not come", registry=registry)

    def look_at(
        self,
        age: Callable[[], float],
        waiting: Callable[[], float],
        dropped: Callable[[], float],
        paused: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Read these whenever somebody scrapes."""
        self._paused.set_function(paused)
        self._age.set_function(age)
        self._waiting.set_function(waiting)
        self._dropped.set_function(dropped)

    def answered(self, review: "Review", objection: str | None, seconds: float) -> None:
        """A review was answered."""
        key = review.resource, review.status, objection is not None and not review.plain
        # Finding counters by their labels takes longer than counting.
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = self._resolved(*key)
        for counter in counted[0]:
            counter.inc()
        counted[1].observe(seconds)

    def _resolved(self, resource: str, status: str, held_back: bool) -> tuple[list[Counter], Histogram]:
        """The counters for reviews of this kind."""
        counters = [self._reviews.labels(resource, "withheld" if held_back else status)]
        if resource == "Pod":
            counters.append(self._pods.labels("true" if status == "applied" and not held_back else "false"))
        return counters, self._latency.labels("skipped" if held_back or status == "denied" else status, resource)

    def step(self, name: str, seconds: float) -> None:
        """One step of an answer."""
        self._step[name].observe(seconds)

    def looked_up(self, result: str) -> None:
        """A look-up of an owner ended."""
        self._lookups.labels(result).inc()

    def shown(self, ends: datetime) -> None:
        """A certificate is shown from now on."""
        self._ends.set(to_seconds(ends))
        self._shown.labels("shown").inc()

    def refused(self) -> None:
        """A new certificate was unusable, or there was none."""
        self._shown.labels("refused").inc()


_QUICK = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class MetricsApiMetrics:
    """One object for each process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Names, labels and their values are in docs/observability.md."""
        ours = "ullage_metrics_api"
        self._answers = Counter(f"{ours}_answers", "Questions answered", ("metric", "result"), registry=registry)
        self._seconds = Histogram(f"{ours}_answer_seconds", "Time of an answer", buckets=_QUICK, registry=registry)
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
