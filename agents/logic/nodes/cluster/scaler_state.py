"""The scaler's state of clusters: their nodes, pods, groups and budgets, and the results of its own plans.

It keeps the newest of each. The values are frozen and live in tables, whose names and fields stand in checkpoints; what is
derived from them for speed is `PlacedPodIndex`. A key is `cluster/name`, or the cluster where it has one of a kind.
"""

from collections.abc import Callable
from dataclasses import replace

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded, Turn
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import ControlRecord
from agents.logic.nodes.autoscaler.node_autoscaler import CarriedState
from agents.logic.nodes.cluster import fact_conversion, successor_requests
from agents.logic.nodes.cluster.fact_conversion import NodeConversions
from agents.logic.nodes.cluster.placed_pods import UNSCHEDULABLE, PlacedPod, PlacedPodIndex
from agents.logic.nodes.cluster.scaler_table_values import (
    NO_ATTENTION,
    SIZE,
    SOFT,
    AskedExpander,
    Attention,
    ConsolidationTimers,
    HaltSaid,
    KnownBuffer,
    KnownGroup,
    KnownNode,
    KnownNotice,
    KnownPriorities,
    LearnedPattern,
    OpenNodePlan,
    PlannedReplicas,
    RefusedShape,
    SaidLast,
    StartedReplacement,
    lowers,
)
from agents.logic.nodes.cluster.successor_requests import SuccessorRequests
from agents.logic.nodes.scheduling import affinity_limits
from schemas import times
from schemas.catalogue import Event
from schemas.facts import update_facts
from schemas.facts.nodes import (
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    InterruptionKind,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    ScalingActivityFailed,
)
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
)
from schemas.names import Place
from schemas.outcomes import ActionFinished, OutcomeDetail, Result
from schemas.policies.vpa import DEFAULT_RECOMMENDER

NEEDED = ("scheduling-changes", "node-group-changes")
"""Topics whose facts somebody must vouch for before anything is decided about a cluster."""
SILENT = 3.0
"""So many of its periods may pass before a source counts as silent."""
BY_WEIGHT = (InterruptionKind.REBALANCE, InterruptionKind.MAINTENANCE, InterruptionKind.SPOT)


class ScalerState:
    """All clusters of a partition."""

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self._owns = owns
        self.nodes: ObjectTable[KnownNode] = ObjectTable("nodes", KnownNode, 64)
        self.groups: ObjectTable[KnownGroup] = ObjectTable("groups", KnownGroup, 16)
        self.instances: ObjectTable[NodeInstanceSeen] = ObjectTable("instances", NodeInstanceSeen, 64)
        self.shapes: ObjectTable[PodShapeSeen] = ObjectTable("shapes", PodShapeSeen, 64)
        self.refused: ObjectTable[RefusedShape] = ObjectTable("refused", RefusedShape, 64)
        self.pods: ObjectTable[PlacedPod] = ObjectTable("pods", PlacedPod, 256)
        self.budgets: ObjectTable[PodDisruptionBudgetChanged] = ObjectTable("budgets", PodDisruptionBudgetChanged, 16)
        self.controllers: ObjectTable[ReplicaControllerChanged] = ObjectTable("controllers", ReplicaControllerChanged, 64)
        self.patterns: ObjectTable[LearnedPattern] = ObjectTable("patterns", LearnedPattern, 16)
        """By cluster and group."""
        self.priorities: ObjectTable[KnownPriorities] = ObjectTable("priorities", KnownPriorities, 4)
        self.namespaces: ObjectTable[ObjectMetadataChanged] = ObjectTable("namespaces", ObjectMetadataChanged, 16)
        self.notices: ObjectTable[KnownNotice] = ObjectTable("notices", KnownNotice, 16)
        """By cluster and instance, until the instance is gone."""
        self.control: ObjectTable[ControlRecord] = ObjectTable("control", ControlRecord, 1)
        self.reports: ObjectTable[SourceReported] = ObjectTable("reports", SourceReported, 4)
        self.plans: ObjectTable[OpenNodePlan] = ObjectTable("plans", OpenNodePlan, 16)
        self.said: ObjectTable[SaidLast] = ObjectTable("said", SaidLast, 64)
        self.halts: ObjectTable[HaltSaid] = ObjectTable("halts", HaltSaid, 4)
        """By cluster and group, and by the cluster alone."""
        self.attention: ObjectTable[Attention] = ObjectTable("attention", Attention, 4)
        self.memory: ObjectTable[CarriedState] = ObjectTable("memory", CarriedState, 4)
        self.replacements: ObjectTable[StartedReplacement] = ObjectTable("replacements", StartedReplacement, 4)
        """By cluster and the first of the nodes that are replaced."""
        self.consolidation: ObjectTable[ConsolidationTimers] = ObjectTable("consolidation", ConsolidationTimers, 4)
        self.asked: ObjectTable[AskedExpander] = ObjectTable("asked", AskedExpander, 4)
        self.planned: ObjectTable[PlannedReplicas] = ObjectTable("planned", PlannedReplicas, 16)
        """By the workload's key; empty unless planned replicas count."""
        self.quotas: ObjectTable[ResourceQuotaChanged] = ObjectTable("quotas", ResourceQuotaChanged, 16)
        self.buffers: ObjectTable[KnownBuffer] = ObjectTable("buffers", KnownBuffer, 4)
        self.failures: list[ScalingActivityFailed] = []
        """Of this turn."""
        self.resized: list[tuple[NodeGroupSeen, int]] = []
        """Groups that want another number of nodes since this turn, and how many they wanted before, but for plans of ours."""
        self.carried_out: list[tuple[str, str, str]] = []  # In this turn: cluster, what it was about (group, node), and group.
        self.finished: list[tuple[str, OpenNodePlan, ActionFinished]] = []
        """Plans that were refused, or failed, in this turn, with their keys."""
        self._lowering, self._index, self.conversions = frozenset[str](), PlacedPodIndex(), NodeConversions()
        self.successors = SuccessorRequests(DEFAULT_RECOMMENDER, owns)

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (
            self.nodes, self.groups, self.instances, self.shapes, self.refused, self.pods, self.budgets, self.controllers,
            self.priorities, self.notices, self.control, self.reports, self.plans, self.said, self.halts, self.attention,
            self.memory, self.replacements, self.consolidation, self.asked, self.namespaces, self.planned, self.quotas,
            self.patterns, self.buffers, *self.successors.tables(),
        )  # fmt: skip

    def loaded(self) -> None:
        """A chunk was loaded, so what is derived must be built again."""
        self._index.stale = True
        self.successors.policies.loaded()

    def ready_index(self) -> PlacedPodIndex:
        """The index of pods, built from the tables if it was not."""
        if self._index.stale:
            self._index = PlacedPodIndex()
            for key, shape in self.shapes.items():
                self._index.shape_seen(key, shape, self._refusal(key))
            for key, pod in self.pods.items():
                self._index.put(key, pod)
            self._index.stale = False
        return self._index

    # Taking in

    def ingest(self, turn: Turn) -> None:
        """Take in the records of a turn, input by input."""
        self.failures, self.resized, self.carried_out, self.finished = [], [], [], []
        self._lowering = frozenset(f"{key.split('/')[0]}/{plan.group}" for key, plan in self.plans.items() if lowers(key))
        self.ready_index()
        shared_guards.obey(self.control, turn, self._owns)
        for recorded in turn.of("cluster-changes"):
            self._report(recorded.event)
        now = turn.number / 1000
        for recorded in turn.of("node-group-changes"):
            self._group_fact(recorded, now)
        # Where no group is scaled nobody asks, and reading recommendations costs; each is said again within its heartbeat.
        recommendations = turn.of(successor_requests.TOPIC) if len(self.groups) else ()
        self.successors.ingest(turn.of("policies"), recommendations)
        for recorded in turn.of("scheduling-changes"):
            self._scheduling_fact(recorded, now)
        for recorded in turn.of("outcomes"):
            if isinstance(recorded.event, ActionFinished):
                self._outcome(recorded.event, now)

    def call(self, cluster: str, now: float) -> None:
        """Something happened in a cluster that waiting pods may have waited for."""
        known = self.attention.get(cluster) or NO_ATTENTION
        self.attention.upsert(cluster, replace(known, first=now if known.first is None else known.first, last=now))

    def _report(self, event: Event) -> None:
        if isinstance(event, SourceReported) and self._owns(event.cluster) and set(event.sees) & set(NEEDED):
            self.reports.upsert(f"{event.cluster}/{event.source}", event)

    def blind(self, cluster: str, now: float) -> str | None:
        """Why the facts about a cluster cannot be trusted; None if every needed topic has a running source."""
        for topic in NEEDED:
            seen = [
                now - times.to_seconds(report.at) <= SILENT * report.period
                for key, report in self.reports.items()
                if key.startswith(f"{cluster}/") and topic in report.sees
            ]
            if not any(seen):
                return f"no source reports facts of '{topic}' for this cluster" + (" any more" if seen else " yet")
        return None

    def _group_fact(self, recorded: Recorded, now: float) -> None:
        match recorded.event:
            case NodeGroupSeen() as event:
                key = f"{event.cluster}/{event.group}"
                known = self.groups.get(key)
                self.groups.upsert(key, KnownGroup(event, recorded.place))
                if known is None or self._is_news(event, known.fact):
                    self.call(event.cluster, now)
                # AWS may answer with what was once more, and a second source be late.
                if known is not None and event.at >= known.fact.at and event.desired != known.fact.desired:
                    # A plan whose end comes in this very turn counts, too.
                    grows = f"{event.cluster}/group/{event.group}" in self.plans
                    ours = grows if event.desired > known.fact.desired else key in self._lowering
                    self.resized += [] if ours else [(event, known.fact.desired)]
                self._settle(event)
            case NodeGroupGone() as event:
                self.groups.remove(f"{event.cluster}/{event.group}")
                self.patterns.remove(f"{event.cluster}/{event.group}")
                self.plans.remove(f"{event.cluster}/group/{event.group}")
                self.plans.remove(f"{event.cluster}/{SIZE}/{event.group}")
            case NodeInstanceSeen() as event:
                self.instances.upsert(f"{event.cluster}/{event.instance}", event)
            case NodeInstanceGone() as event:
                self.instances.remove(f"{event.cluster}/{event.instance}")
                self.notices.remove(f"{event.cluster}/{event.instance}")
            case InstanceInterruptionNoticed() as event:
                self._notice(event, recorded.place, now)
            case ScalingActivityFailed() as event:
                self.failures.append(event)
                self._not_coming(event.cluster, event.group, f"a start failed: {event.code}")
                self.plans.remove(f"{event.cluster}/group/{event.group}")
                self.call(event.cluster, now)
            case _:
                pass

    def _is_news(self, event: NodeGroupSeen, known: NodeGroupSeen) -> bool:
        """Whether a group has changed in something that a waiting pod may have waited for."""
        # Not in a size that our own plan has set.
        plan = self.plans.get(f"{event.cluster}/group/{event.group}")
        size = known.desired if plan is not None and event.desired == plan.after else event.desired
        return replace(event, at=known.at, desired=size) != known

    def _not_coming(self, cluster: str, group: str, why: str) -> None:
        """Give up the replacements that a failed growth was for, unless their node came already."""
        for key, started in list(self.replacements.items()):
            if key.startswith(f"{cluster}/") and started.group == group and not started.node:
                self.replacements.upsert(key, replace(started, failed=why))

    def _notice(self, event: InstanceInterruptionNoticed, place: Place, now: float) -> None:
        """Record a notice. One about an unknown instance is ignored."""
        key = f"{event.cluster}/{event.instance}"
        before = self.notices.get(key)
        # A recommendation that comes after an interruption must not lift its deadline.
        weaker = before is not None and BY_WEIGHT.index(event.kind) < BY_WEIGHT.index(before.fact.kind)
        if key in self.instances and not weaker:
            self.notices.upsert(key, KnownNotice(event, place))
            self.call(event.cluster, now)

    def _settle(self, event: NodeGroupSeen) -> None:
        """A plan to grow, or to want fewer nodes, is over when the group has the size."""
        plan_key = f"{event.cluster}/group/{event.group}"
        plan = self.plans.get(plan_key)
        if plan is not None and plan.done and event.desired >= plan.after:
            self.plans.remove(plan_key)
        lowered = self.plans.get(f"{event.cluster}/{SIZE}/{event.group}")
        if lowered is not None and lowered.done and event.desired <= lowered.after:
            self.plans.remove(f"{event.cluster}/{SIZE}/{event.group}")

    def _settle_taint(self, event: NodeDetailsChanged) -> None:
        """A plan for a soft taint is over when the node shows it."""
        key = f"{event.cluster}/{SOFT}/{event.node}"
        plan = self.plans.get(key)
        if plan is not None and bool(plan.after) == fact_conversion.soft_tainted(event):
            self.plans.remove(key)

    def _scheduling_fact(self, recorded: Recorded, now: float) -> None:
        match recorded.event:
            case PodPlacementChanged() as event:
                self._pod(event, recorded.place, now)
            case PodPlacementRemoved() as event:
                self._forget_pod(f"{event.cluster}/{event.pod.uid}")
            case PodShapeSeen() as event:
                self._shape(f"{event.cluster}/{event.shape}", event)
            case NodeDetailsChanged() as event:
                key = f"{event.cluster}/{event.node}"
                before = self.nodes.get(key)
                if before is None:
                    self.call(event.cluster, now)
                since = now if before is None or before.unready is None else before.unready
                known = KnownNode(event, recorded.place, first=now if before is None else before.first)
                self.nodes.upsert(key, known if known.ready else replace(known, unready=since))
                self._settle_taint(event)
            case NodeDetailsRemoved() as event:
                self.nodes.remove(f"{event.cluster}/{event.node}")
                self.plans.remove(f"{event.cluster}/node/{event.node}")
                self.plans.remove(f"{event.cluster}/{SOFT}/{event.node}")
            case ExpanderPrioritiesSeen() as event:
                self.priorities.upsert(event.cluster, KnownPriorities(event, recorded.place))
                self.call(event.cluster, now)
            case ExpanderPrioritiesGone() as event:
                held = self.priorities.get(event.cluster)
                # Another ConfigMap may have taken its place.
                if held is not None and (held.fact.namespace, held.fact.name) == (event.namespace, event.name):
                    self.priorities.remove(event.cluster)
            case event:
                self._object(event, now)

    def _shape(self, key: str, event: PodShapeSeen) -> None:
        # A refused shape is judged again when it is published again: others of its namespace may be gone.
        if key in self.shapes and key not in self.refused:
            return
        objection = affinity_limits.objection(event, self._index.rules(event.cluster, event.namespace))
        if not objection:
            self._index.stale = self._index.stale or key in self.refused
            self.refused.remove(key)
        elif key not in self.refused:
            self.refused.upsert(key, RefusedShape(objection))
        kept = affinity_limits.without_rules(event) if objection else event
        self.shapes.upsert(key, kept)
        self._index.shape_seen(key, kept, objection)

    def _refusal(self, key: str) -> str:
        refused = self.refused.get(key)
        return "" if refused is None else refused.reason

    def _object(self, event: Event, now: float) -> None:
        """A disruption budget, a controller, or a namespace, whose labels waiting pods may have waited for."""
        match event:
            case ObjectMetadataChanged(kind=update_facts.NAMESPACE):
                known = self.namespaces.get(f"{event.cluster}/{event.namespace}")
                self.namespaces.upsert(f"{event.cluster}/{event.namespace}", event)
                if known is None or known.labels != event.labels:
                    self.call(event.cluster, now)
            case ObjectMetadataRemoved(kind=update_facts.NAMESPACE):
                self.namespaces.remove(f"{event.cluster}/{event.namespace}")
            case PodDisruptionBudgetChanged():
                self.budgets.upsert(f"{event.cluster}/{event.namespace}/{event.name}", event)
            case PodDisruptionBudgetRemoved():
                self.budgets.remove(f"{event.cluster}/{event.namespace}/{event.name}")
            case ReplicaControllerChanged():
                self.controllers.upsert(f"{event.cluster}/{event.namespace}/{event.kind}/{event.name}", event)
            case ReplicaControllerRemoved():
                self.controllers.remove(f"{event.cluster}/{event.namespace}/{event.kind}/{event.name}")
            case _:
                pass

    def _pod(self, event: PodPlacementChanged, place: Place, now: float) -> None:
        key, shape = f"{event.cluster}/{event.pod.uid}", f"{event.cluster}/{event.shape}"
        if shape not in self.shapes:
            # Its source publishes both again soon.
            return
        before = self.pods.get(key)
        nominated = event.node is None and bool(event.nominated)
        waits = event.node is None and event.unschedulable == UNSCHEDULABLE and event.phase is PodPhase.PENDING and not nominated
        pod = PlacedPod(
            event.pod.namespace,
            event.pod.name,
            shape,
            event.node or event.nominated,
            event.phase,
            times.to_seconds(event.created),
            None if event.deleted is None else times.to_seconds(event.deleted),
            event.pinned,
            waits,
            place if waits else None,
            nominated,
            event.unschedulable,
            event.message,
        )
        self.pods.upsert(key, pod)
        self._index.put(key, pod)
        if waits and (before is None or not before.waits):
            self.call(event.cluster, now)
        if before is not None and before.shape != shape:
            self._release(before.shape)

    def _forget_pod(self, key: str) -> None:
        pod = self.pods.remove(key)
        if pod is not None:
            self._index.remove(key)
            self._release(pod.shape)

    def _release(self, shape: str) -> None:
        """Forget a shape with the last pod that cites it; its source publishes it again when a new one comes."""
        if not self._index.cited(shape):
            self.shapes.remove(shape)
            self.refused.remove(shape)
            self._index.shape_gone(shape)

    def _outcome(self, event: ActionFinished, now: float) -> None:
        for key, plan in list(self.plans.items()):
            if plan.id == event.decision:
                if event.result is Result.DONE:
                    self.plans.upsert(key, replace(plan, done=True))
                    self.carried_out.append((event.subject.cluster, key.split("/")[1], plan.group))
                    group = self.groups.get(f"{event.subject.cluster}/{plan.group}")
                    if group is not None:
                        # The group may have shown its new size before the outcome came.
                        self._settle(group.fact)
                else:
                    self.plans.remove(key)
                    self.finished.append((key, plan, event))
                    if key.split("/")[1] == "group":
                        self._not_coming(event.subject.cluster, plan.group, f"its growth was {event.result.value}")
                    # Where the world had moved on, new facts are to come, and a look before them would plan the same.
                    if event.detail is not OutcomeDetail.MOVED:
                        self.call(event.subject.cluster, now)
