"""The inputs and results of a decision about all groups, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.cluster_state_registry import SeenInstance
from agents.logic.nodes.consolidation import Consolidation
from agents.logic.nodes.drain_rules import DisruptionBudgets, KnownControllers
from agents.logic.nodes.helpless_pods import HelplessPods
from agents.logic.nodes.node_estimator import GroupTemplate
from agents.logic.nodes.node_replacements import Replacements
from agents.logic.nodes.pod_scheduling_needs import SchedulablePod
from agents.logic.nodes.scale_up import GroupIncrease, ScaleUp
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from agents.logic.nodes.scheduling.topology_counts import Namespaces
from agents.logic.nodes.unneeded_nodes import ScaleDownChoice


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node with the pods on it. `deleting`: since when it is being deleted; `draining`: it is, and it is not empty."""

    node: SchedulingNode
    group: str
    pods: Sequence[SchedulablePod]
    created: float
    ready: bool = True
    suspended: bool = False
    gone: bool = False
    deleting: float | None = None
    draining: bool = False
    soft_tainted: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group as its provider has it. `sources` are what its nodes can come from: backed off all of them, so is the group."""

    name: str
    least: int
    most: int
    target: int
    template: GroupTemplate | None
    options: GroupOptions = field(default_factory=GroupOptions)
    gpu: bool = False
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDecisionInputs:
    """All that a decision may know of the cluster. `budgets` are used up by the decision."""

    nodes: Sequence[NodeSeen]
    groups: Sequence[GroupSeen]
    waiting: Sequence[SchedulablePod]
    instances: Sequence[SeenInstance]
    workloads: KnownControllers
    budgets: DisruptionBudgets
    namespaces: Namespaces = field(default_factory=dict)
    planned: Sequence[SchedulablePod] = ()
    """Pods that are to come; they count as waiting, behind those that do."""


@dataclass(slots=True)
class NodeDecisions:
    """What is to be done, in this order: targets lowered, instances removed, groups grown, nodes deleted, soft taints changed."""

    lower: list[tuple[str, int]] = field(default_factory=list)
    remove: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    grow: list[GroupIncrease] = field(default_factory=list)
    delete: ScaleDownChoice = field(default_factory=ScaleDownChoice)
    outdated: Replacements = field(default_factory=Replacements)
    cheaper: Consolidation = field(default_factory=Consolidation)
    cooling: bool = True
    """Whether no node may go because something grew, went or failed a short while ago."""
    taint: list[str] = field(default_factory=list)
    untaint: list[str] = field(default_factory=list)
    scale_up: ScaleUp = field(default_factory=ScaleUp)
    triggered: list[SchedulablePod] = field(default_factory=list)
    not_triggered: list[SchedulablePod] = field(default_factory=list)
    helpless: list[HelplessPods] = field(default_factory=list)
    halted: str = ""
    postponed: int = 0
    """Waiting pods that were not considered, because together they have too many rules between pods."""
