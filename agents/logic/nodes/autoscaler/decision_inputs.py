"""What a decision looks at: the cluster in columns, and a snapshot for the states of its groups."""

from collections import Counter
from dataclasses import dataclass

from agents.logic.nodes.autoscaler.cluster_state_registry import RegistrySnapshot
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs
from agents.logic.nodes.growth import pending_pods
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.growth.pending_pods import PendingSettings
from agents.logic.nodes.removal.node_replacements import ReplacementRequest
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature, SchedulablePod
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster, numbers


@dataclass(frozen=True, slots=True)
class DecisionPicture:
    """What all steps of one decision look at. `cluster` takes up the pods that the steps place.

    `shrink`, `explain` and `replace` are what was asked for; see `decision_steps.decide`.
    """

    world: NodeDecisionInputs
    cluster: ScheduledCluster
    around: ExpanderContext
    now: float
    shrink: bool
    explain: int
    replace: ReplacementRequest


def snapshot(world: NodeDecisionInputs) -> RegistrySnapshot:
    """The targets, nodes and instances."""
    return RegistrySnapshot({group.name: group.target for group in world.groups}, world.nodes, world.instances)


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
