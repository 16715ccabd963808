"""The inputs and results of a decision about all groups as values, and the cluster in columns, which its steps look at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.logic.nodes.autoscaler.cluster_state_registry import RegistrySnapshot, SeenInstance
from agents.logic.nodes.growth import pending_pods, scale_up
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.growth.pending_pods import PendingSettings
from agents.logic.nodes.growth.scale_up import GroupIncrease, ScaleUp
from agents.logic.nodes.removal.consolidation import Consolidation
from agents.logic.nodes.removal.drain_rules import DisruptionBudgets, KnownControllers
from agents.logic.nodes.removal.node_replacements import ReplacementRequest, Replacements
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownChoice
from agents.logic.nodes.scheduling.node_columns import NodeRow, Row
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster, numbers
from agents.logic.nodes.scheduling.scheduler_filters import FilterFailure
from agents.logic.nodes.scheduling.topology_counts import Namespaces

# Why no group can take waiting pods: one pod of each nature, and what keeps it off a new node of each group.


@dataclass(frozen=True, slots=True)
class HelplessPods:
    """Waiting pods of one nature for which no group grows: one of them, how many, and by group what is in the way."""

    pod: SchedulablePod
    count: int
    failures: Mapping[str, FilterFailure]
    # Groups whose new node would take them, but which may not grow.
    barred: Sequence[str]


def explained(
    cluster: ScheduledCluster, groups: Sequence[GroupRow], pods: Sequence[SchedulablePod], most: int
) -> list[HelplessPods]:
    """The first natures of these pods, with what keeps them off a new node of each group."""
    alike: dict[PodNature, list[SchedulablePod]] = {}
    for pod in pods:
        alike.setdefault(pod.nature, []).append(pod)
    helpless = []
    # Each of them costs a simulation of every kind of group, and a cluster may have thousands of natures.
    for nature, some in list(alike.items())[:most]:
        failures = scale_up.why_not(cluster, groups, cluster.shape(nature.shape))
        barred = [group.name for group in groups if group.template is not None and group.name not in failures]
        helpless.append(HelplessPods(some[0], len(some), failures, barred))
    return helpless


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
    joined: frozenset[str] | None = None
    """The instances that are nodes; None where nobody says it."""

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


@dataclass(frozen=True, slots=True)
class DecisionPicture:
    """What all steps of one decision look at. `cluster` takes up the pods that the steps place."""

    world: NodeDecisionInputs
    cluster: ScheduledCluster
    around: ExpanderContext
    now: float
    # This and what follows was asked for; see `decision_steps.decide`.
    shrink: bool
    explain: int
    replace: ReplacementRequest


def snapshot(world: NodeDecisionInputs) -> RegistrySnapshot:
    """The targets, nodes and instances."""
    return RegistrySnapshot({group.name: group.target for group in world.groups}, world.nodes, world.instances, world.joined)


def columns(world: NodeDecisionInputs, settings: PendingSettings) -> ScheduledCluster:
    """The cluster in columns, a row for each node, without pods that are expendable; nodes under deletion take no more pods."""
    cluster = ScheduledCluster(world.namespaces)
    cluster.add_all([node.node for node in world.nodes])
    shares: dict[PodNature, dict[int, int]] = {}
    for row, node in enumerate(world.nodes):
        cluster.open[row] &= node.deleting is None and not node.incomplete
        # By nature, because pods are many and their kinds are few.
        for nature, number in Counter(map(pending_pods.NATURE, node.pods)).items():
            shares.setdefault(nature, {})[row] = number
    for nature, counts in shares.items():
        if not pending_pods.expendable(nature, settings):
            cluster.move(cluster.shape(nature.shape), *numbers(counts))
    cluster.settle()
    return cluster


def without_planned(pods: list[SchedulablePod], world: NodeDecisionInputs) -> list[SchedulablePod]:
    """The pods that exist."""
    planned = {pod.key for pod in world.planned}
    return [pod for pod in pods if pod.key not in planned]
