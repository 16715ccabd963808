"""One look at a cluster: its view, and all results of the rules, before any plan or refusal is made.

The stage decides by it, and `why-not` makes another one and discards it, so both agree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agents.engine.turn import Turn
from agents.logic.nodes.autoscaler import decision_steps, node_autoscaler
from agents.logic.nodes.autoscaler.cluster_state_registry import StateSettings
from agents.logic.nodes.autoscaler.group_backoff import BackoffSettings
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler, NodeAutoscalerSettings, ScaleDownDelays
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.cluster import cluster_view
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.growth import similar_node_groups
from agents.logic.nodes.growth.expanders import Expander
from agents.logic.nodes.growth.pending_pods import NEW_GPU, PendingSettings
from agents.logic.nodes.growth.scale_up import ClusterLimits, ScaleUpSettings
from agents.logic.nodes.removal import consolidation
from agents.logic.nodes.removal.drain_rules import DeletionParallelism, DrainSettings
from agents.logic.nodes.removal.node_replacements import NOTHING, ReplacementRequest
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownSettings, StayingNode, StayReason, UnneededNode
from agents.logic.nodes.scaler import drain_limits, started_replacements
from agents.logic.nodes.scaler.drain_limits import DrainLimits, NodeBudget
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scaler_settings import GIB, ScalerProfile, ScalerSettings
from schemas.decisions.node_updates import RemovalReason
from schemas.pod_requests import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class DecisionRound:
    """The results. `wanted`: nodes that should be replaced; `request`: the replacements that the rules were asked for."""

    context: PlanContext
    decisions: NodeDecisions
    auto: NodeAutoscaler
    budget: NodeBudget
    wanted: Mapping[str, RemovalReason]
    request: ReplacementRequest

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.context.turn.number / 1000

    def going(self) -> Iterator[tuple[UnneededNode, str | None]]:
        """The nodes that nobody needs, in order, each with the budget's objection.

        A caller that lets one go counts it in the headcount before it takes the next one.
        """
        for unneeded in (*self.decisions.delete.empty, *self.decisions.delete.drain):
            node = unneeded.node
            if node.name in self.context.view.instance_of:
                # A node that is not ready is away already, so that no share holds it back: else the only broken node of a small
                # cluster would block itself. Hours without removals do.
                held = self.budget.objection(self.context.headcount, node.group) if node.ready else self.budget.closed
                yield unneeded, held or None

    def room(self) -> DrainLimits:
        """The room for drains that is left after those nodes."""
        return drain_limits.of(self.context.view, self.context.settings, self.context.headcount, self.decisions, self.budget)


def picture(state: ScalerState, turn: Turn, partition: int, cluster: str, settings: ScalerSettings) -> PlanContext:
    """The cluster as the state has it now."""
    view = cluster_view.view(state, cluster, settings, turn.number / 1000)
    asked = state.asked.get(cluster) if Expander.GRPC in settings.chain() else None
    return PlanContext(turn, partition, cluster, settings, view, drain_limits.headcount(view), asked)


def take(state: ScalerState, context: PlanContext, *, explain: int, shrink: bool = True, first: str = "") -> DecisionRound:
    """Let the rules decide, and change nothing in the state.

    `explain`: natures of waiting pods that are explained; without `shrink` only growth is looked at; `first`: a node that the
    search for cheaper ones begins with.
    """
    cluster, settings, view, turn = context.cluster, context.settings, context.view, context.turn.number
    auto = node_autoscaler.recall(state.memory.get(cluster), autoscaler_settings(settings), turn / 1000)
    around = cluster_view.expander_context(view, settings, turn, context.asked)
    wanted: Mapping[str, RemovalReason] = {}
    request, resting = NOTHING, frozenset[str]()
    if shrink:
        wanted, request = started_replacements.asked(state, cluster, view, settings, turn / 1000)
        waiting = [name for name in wanted if name not in request.started]
        resting = started_replacements.too_often(auto, view, waiting, turn / 1000)
        request = replace(request, names=[name for name in request.names if name not in resting])
    if first and request.cheaper is not None:
        request = replace(request, cheaper=consolidation.about(request.cheaper, first))
    decisions = decision_steps.decide(auto, view.inputs, around, turn / 1000, shrink=shrink, explain=explain, replace=request)
    decisions.outdated.kept.update({name: StayingNode(StayReason.TOO_OFTEN) for name in resting})
    auto.scale_down.stays.update({name: StayingNode(StayReason.SHARED) for name in view.shared})
    auto.scale_down.stays.update({name: StayingNode(StayReason.ASIDE) for name in view.aside})
    budget = drain_limits.budget_of(settings, state.control.get(cluster), turn)
    return DecisionRound(context, decisions, auto, budget, wanted, request)


def autoscaler_settings(settings: ScalerSettings) -> NodeAutoscalerSettings:
    """The settings of the decision itself, from those of the scaler. Raises ExpanderError for expanders that make no sense."""
    several = settings.profile == ScalerProfile.ULLAGE
    ignored = similar_node_groups.AWS_IGNORED | {*settings.balance_ignored_keys}
    likeness = similar_node_groups.SimilarityRules(ignored=ignored) if settings.balance else None
    # In the units of capacities: thousandths of a core, and bytes.
    cores, memory = settings.most_cores * 1000, settings.most_memory * GIB
    limits = ClusterLimits(settings.most_nodes, settings.most_added, {CPU: cores, MEMORY: memory})
    return NodeAutoscalerSettings(
        state=StateSettings(
            settings.max_provision, settings.max_startup, settings.ok_unready, 100 * settings.max_unready, by_group=several
        ),
        backoff=BackoffSettings(settings.backoff_first, settings.backoff_longest, settings.backoff_forgotten),
        pending=_pending(settings),
        scale_up=ScaleUpSettings(settings.chain(), limits, likeness, several=several, fast_path=settings.fastpath),
        scale_down=_scale_down(settings),
        drain=_drain(settings),
        delays=ScaleDownDelays(settings.delay_after_add, settings.delay_after_delete, settings.delay_after_failure),
        soft_taints=settings.soft_taints,
        shrink=settings.scale_down,
        enforce_minimum=settings.enforce_minimum,
    )


def _pending(settings: ScalerSettings) -> PendingSettings:
    # Ours waits for further pods by `batch_idle`, and a young pod that asks for GPUs waits alone: it holds back no other.
    upstream = PendingSettings(settings.pod_priority_cutoff, settings.pod_delay)
    return upstream if settings.profile == ScalerProfile.UPSTREAM else replace(upstream, new=0.0, new_gpu=0.0, patience=NEW_GPU)


def _drain(settings: ScalerSettings) -> DrainSettings:
    return DrainSettings(
        settings.skip_system_pods,
        settings.skip_local_storage,
        settings.skip_custom_controllers,
        settings.min_replicas,
        one_budget_only=settings.profile == ScalerProfile.ULLAGE,
    )


def _scale_down(settings: ScalerSettings) -> ScaleDownSettings:
    minima = {CPU: settings.least_cores * 1000, MEMORY: settings.least_memory * GIB}
    return ScaleDownSettings(
        unready_too=settings.scale_down_unready,
        ignore_mirrors=settings.ignore_mirror_pods,
        recheck=settings.recheck,
        parallelism=DeletionParallelism(settings.most_deletions, settings.most_drains),
        default=settings.group_defaults,
        minima={name: amount for name, amount in minima.items() if amount},
        tainted=settings.profile == ScalerProfile.ULLAGE,
        smaller=settings.smaller_successors,
    )
