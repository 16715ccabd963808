"""The consumers' metrics, observed through their log: every outcome, and every dead letter.

What the VPA's updater and the Cluster Autoscaler count with equal meaning is counted under their names, too, without the labels
that name single VPAs and kinds of GPUs.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from agents.telemetry.source_metrics import NamespaceLabels
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.outcomes import Action, ActionFinished, ObjectWritten, OutcomeDetail, Result, StatusWritten
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
