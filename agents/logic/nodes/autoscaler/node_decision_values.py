"""The inputs and results of a decision about all groups, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.logic.nodes.autoscaler.cluster_state_registry import SeenInstance
from agents.logic.nodes.growth.group_row import GroupRow
from agents.logic.nodes.growth.helpless_pods import HelplessPods
from agents.logic.nodes.growth.scale_up import GroupIncrease, ScaleUp
from agents.logic.nodes.removal.consolidation import Consolidation
from agents.logic.nodes.removal.drain_rules import DisruptionBudgets, KnownControllers
from agents.logic.nodes.removal.node_replacements import Replacements
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownChoice
from agents.logic.nodes.scheduling.node_columns import Row
from agents.logic.nodes.scheduling.node_row import NodeRow
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature, SchedulablePod
from agents.logic.nodes.scheduling.topology_counts import Namespaces


@dataclass(frozen=True, slots=True)
class NodeDecisionInputs:
    """All that a decision may know of the cluster. `budgets` are used up by the decision."""

    nodes: Sequence[NodeRow]
    groups: Sequence[GroupRow]
    waiting: Sequence[SchedulablePod]
    instances: Sequence[SeenInstance]
    workloads: KnownControllers
    budgets: DisruptionBudgets
    namespaces: Namespaces = field(default_factory=dict)
    planned: Sequence[SchedulablePod] = ()
    """Pods that are to come; they count as waiting, behind those that do."""
    successors: Mapping[PodNature, PodNature] = field(default_factory=dict)
    """By the natures of pods those of their successors, where these will request something else."""

    def successor(self, pod: SchedulablePod) -> SchedulablePod:
        """The pod as it comes back, or is made."""
        nature = self.successors.get(pod.nature)
        return pod if nature is None else replace(pod, nature=nature)


@dataclass(frozen=True, slots=True)
class NodeDecisions:
    """What is to be done, in this order: targets lowered, instances removed, groups grown, nodes deleted, soft taints changed."""

    lower: Sequence[tuple[str, int]] = ()
    remove: Sequence[tuple[str, tuple[str, ...]]] = ()
    grow: Sequence[GroupIncrease] = ()
    delete: ScaleDownChoice = field(default_factory=ScaleDownChoice)
    outdated: Replacements = field(default_factory=Replacements)
    cheaper: Consolidation = field(default_factory=Consolidation)
    cooling: bool = True
    """Whether no node may go because something grew, went or failed a short while ago."""
    taint: Sequence[str] = ()
    untaint: Sequence[str] = ()
    scale_up: ScaleUp = field(default_factory=ScaleUp)
    pending: Sequence[SchedulablePod] = ()
    """The pods that growth was decided for, whose places `scale_up` has."""
    triggered: Sequence[SchedulablePod] = ()
    not_triggered: Sequence[SchedulablePod] = ()
    placed: Mapping[Row, list[SchedulablePod]] | None = None
    """Where the pending pods go that need no growth, by the node's row; None if no node should go at this moment."""
    helpless: Sequence[HelplessPods] = ()
    halted: str = ""
    """Why nothing grows or shrinks at all."""
    postponed: int = 0
    """Waiting pods that were not considered, because together they have too many rules between pods."""
