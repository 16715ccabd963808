"""Converts the scaler's settings for the parts of its decision.

It imports all of these parts, so it is separate from the settings, which every command reads.
"""

from dataclasses import replace

from agents.logic.nodes.autoscaler.cluster_state_registry import StateSettings
from agents.logic.nodes.autoscaler.group_backoff import BackoffSettings
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscalerSettings, ScaleDownDelays
from agents.logic.nodes.growth import similar_node_groups
from agents.logic.nodes.growth.pending_pods import NEW_GPU, PendingSettings
from agents.logic.nodes.growth.scale_up import ClusterLimits, ScaleUpSettings
from agents.logic.nodes.removal.deletion_budgets import DeletionParallelism
from agents.logic.nodes.removal.drain_rules import DrainSettings
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownSettings
from agents.logic.nodes.scaler_settings import GIB, ScalerProfile, ScalerSettings
from schemas.pod_requests import CPU, MEMORY


def of(settings: ScalerSettings) -> NodeAutoscalerSettings:
    """The settings of the decision itself. Raises ExpanderError for expanders that make no sense."""
    several = settings.profile == ScalerProfile.ULLAGE
    ignored = similar_node_groups.AWS_IGNORED | {*settings.balance_ignored_keys}
    likeness = similar_node_groups.SimilarityRules(ignored=ignored) if settings.balance else None
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
