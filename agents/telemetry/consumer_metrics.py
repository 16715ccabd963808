"""The consumers' metrics, observed through their log: every outcome, and every dead letter.

What the VPA's updater and the Cluster Autoscaler count with equal meaning is counted under their names, too, without the labels
that name single VPAs and kinds of GPUs.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agents.telemetry.source_metrics import NamespaceLabels
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.outcomes import Action, ActionFinished, ObjectWritten, OutcomeDetail, Result, StatusWritten
from schemas.times import to_seconds
from streams.codec import dead_letters
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics

_MOST_PLANS = 1_000
"""Plans that are remembered. Those that had their outcome before this process began never get another."""
_REASONS = {RemovalReason.UNNEEDED: "underutilized"}
"""Upstream's word for a reason to remove a node, where ours is another."""


class NodeCounts:
    """The counters of a consumer that changes groups and nodes."""

    def __init__(self, registry: CollectorRegistry, topics: Topics) -> None:
        """One for each process."""
        ca = "cluster_autoscaler"
        self._codec, self._topic = Codec(topics), topics.wire("node-updates")
        self._plans: OrderedDict[str, ScaleUpPlanned | NodeRemovalPlanned] = OrderedDict()
        self._added = Counter(f"{ca}_scaled_up_nodes", "Nodes that groups were let grow by", registry=registry)
        self._not_added = Counter(f"{ca}_failed_scale_ups", "Times that no group could grow", ("reason",), registry=registry)
        self._removed = Counter(f"{ca}_scaled_down_nodes", "Nodes removed", ("reason",), registry=registry)
        self._evicted = Counter(f"{ca}_evicted_pods", "Pods evicted for that", ("eviction_result",), registry=registry)

    def read(self, records: Sequence[Record]) -> None:
        """Remember plans until their outcome."""
        for record in records:
            plan = self._codec.decode_or_none(record) if record.topic == self._topic else None
            if isinstance(plan, ScaleUpPlanned | NodeRemovalPlanned):
                # An outcome names its plan, and only that says how many nodes it is about.
                self._plans[plan.id] = plan
                if len(self._plans) > _MOST_PLANS:
                    self._plans.popitem(last=False)

    def finished(self, outcome: ActionFinished) -> None:
        """What upstream would count of this outcome."""
        plan = self._plans.pop(outcome.decision, None)
        # Upstream counts what it does, and this somebody else had done before.
        if outcome.detail is OutcomeDetail.ALREADY_DONE:
            return
        if (outcome.action, outcome.result) == (Action.SCALE_UP, Result.FAILED):
            self._not_added.labels("apiCallError").inc()
        elif outcome.result is Result.DONE and isinstance(plan, ScaleUpPlanned):
            self._added.inc(plan.after - plan.before)
        elif outcome.result is Result.DONE and isinstance(plan, NodeRemovalPlanned):
            self._removed.labels(_REASONS.get(plan.reason, plan.reason.value)).inc()
            self._evicted.labels("succeeded").inc(len(plan.evict))


class ConsumerMetrics:
    """Observes the logs of all consumers of a process."""

    def __init__(self, registry: CollectorRegistry, topics: Topics) -> None:
        """One for each process."""
        self._codec = Codec(topics)
        self._limited = Gauge(
            "ullage_memory_limited", "VPAs, and workloads without one, whose containers get no more memory", registry=registry
        )
        self._outcomes_topic, self._dead_topic = topics.wire("outcomes"), topics.wire("dead-letters")
        self._outcomes = Counter("ullage_outcomes", "Decisions finished with", ("action", "result"), registry=registry)
        self._acts = Counter(
            "ullage_acts", "Acts in a namespace that were carried out", ("cluster", "namespace", "action"), registry=registry
        )
        self._labels = NamespaceLabels()
        self._dead = Counter("ullage_consumer_dead_letters", "Decisions that could not be read", registry=registry)
        self._forged = Counter("ullage_forged_plans", "Plans that no turn made, and that were not carried out", registry=registry)
        self._updates, self._nodes = UpdateCounts(registry), NodeCounts(registry, topics)
        self._failures = Counter("ullage_consumer_failures", "Appends the log did not take", registry=registry)

    def watch_memory_limited(self, count: Callable[[], int]) -> None:
        """Show how many VPAs have a target that is OOM-killed in a loop and gets no more memory."""
        self._limited.set_function(count)

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count outcomes by action and result, and dead letters."""
        for record in records:
            if record.topic == self._dead_topic:
                self._dead.inc()
                self._forged.inc(dead_letters.FORGED in record.headers)
            elif record.topic == self._outcomes_topic:
                self._count(self._codec.decode(_as_record(record)))

    def read(self, records: Sequence[Record]) -> None:
        """Remember plans of nodes, for what their outcomes count."""
        self._nodes.read(records)

    def failed(self, _error: LogUnavailable) -> None:
        """Count a failed append. The outcome stays in the consumer until the log accepts it."""
        self._failures.inc()

    def _count(self, event: object) -> None:
        if isinstance(event, ActionFinished):
            self._outcomes.labels(event.action.value, event.result.value).inc()
            if event.result is Result.DONE and event.subject.namespace:
                names = self._labels.of(event.subject.cluster, event.subject.namespace)
                self._acts.labels(*names, event.action.value).inc()
            self._updates.finished(event)
            self._nodes.finished(event)
        elif isinstance(event, StatusWritten):
            self._outcomes.labels("status", event.result.value).inc()
        elif isinstance(event, ObjectWritten):
            self._outcomes.labels("object", event.result.value).inc()


class UpdateCounts:
    """Upstream's counters of its updater (pkg/utils/metrics/updater), as far as outcomes correspond to them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._evicted = Counter("vpa_updater_evicted_pods", "Pods evicted", registry=registry)
        self._not_evicted = Counter("vpa_updater_failed_eviction_attempts", "Evictions failed", ("reason",), registry=registry)
        self._resized = Counter("vpa_updater_in_place_updated_pods", "Pods resized in place", registry=registry)
        self._not_resized = Counter(
            "vpa_updater_failed_in_place_update_attempts", "Resizes in place failed", ("reason",), registry=registry
        )
        self._no_webhook = Counter(
            "vpa_updater_admission_controller_status_invalid", "Held back for want of a webhook", ("reason",), registry=registry
        )

    def finished(self, outcome: ActionFinished) -> None:
        """What upstream would count of this outcome."""
        if outcome.detail is OutcomeDetail.NO_WEBHOOK:
            self._no_webhook.labels("invalid").inc()
        # Upstream counts what it does, and this somebody else had done before.
        if outcome.detail is OutcomeDetail.ALREADY_DONE:
            return
        match outcome.action, outcome.result:
            case Action.EVICT, Result.DONE:
                self._evicted.inc()
            case Action.EVICT, Result.FAILED:
                self._not_evicted.labels("EvictionError").inc()
            case Action.RESIZE, Result.DONE:
                self._resized.inc()
            case Action.RESIZE, Result.FAILED:
                infeasible = outcome.detail is OutcomeDetail.INFEASIBLE
                self._not_resized.labels("InPlaceUpdateInfeasible" if infeasible else "InPlaceUpdateError").inc()
            case _:
                pass


def _as_record(record: NewRecord) -> Record:
    """The record as a reader would see it; the offset plays no part in decoding."""
    return Record(record.topic, record.partition, 0, record.key, record.value, record.headers)


# The metrics of what answers the API server: the webhook's, upstream's where they mean the same, and the metrics API's.

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
