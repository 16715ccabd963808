"""What the Cluster Autoscaler counts of nodes and groups, under its names, where it means the same here.

Acts are counted by outcomes, whose plans say how many nodes they are about; sizes of groups are those that the source saw last.
"""

from collections import OrderedDict
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from agents.telemetry.source_metrics import SourceMetrics
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.facts.node_groups import NodeGroupGone, NodeGroupSeen
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from streams.codec.event_codec import Codec
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


class NodeGroupMetrics(SourceMetrics):
    """The metrics of the source of groups. It shows what is in the log, so also what was published before a restart."""

    def __init__(self, registry: CollectorRegistry, topics: Topics, source: str) -> None:
        """As any source's."""
        super().__init__(registry, topics, source)
        self._groups, group = topics.wire("node-group-changes"), "cluster_autoscaler_node_group"
        self._sizes = tuple(
            Gauge(f"{group}_{name}_count", text, ("node_group",), registry=registry)
            for name, text in (("min", "Fewest nodes"), ("max", "Most nodes"), ("target", "Nodes that the group wants"))
        )
        self._known: set[str] = set()
        count = Gauge("cluster_autoscaler_node_groups_count", "Groups", ("node_group_type",), registry=registry)
        count.labels("autoscaled").set_function(lambda: float(len(self._known)))

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count, and show the sizes that are new."""
        super().appended(records)
        self.read([Record(record.topic, record.partition, 0, record.key, record.value, record.headers) for record in records])

    def read(self, records: Sequence[Record]) -> None:
        """Show the sizes that were published."""
        for record in records:
            match self._codec.decode_or_none(record) if record.topic == self._groups else None:
                case NodeGroupSeen(group=group, least=least, most=most, desired=desired):
                    self._known.add(group)
                    for gauge, value in zip(self._sizes, (least, most, desired), strict=True):
                        gauge.labels(group).set(value)
                case NodeGroupGone(group=group) if group in self._known:
                    self._known.remove(group)
                    for gauge in self._sizes:
                        gauge.remove(group)
                case _:
                    pass
