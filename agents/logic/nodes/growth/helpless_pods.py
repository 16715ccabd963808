"""Why no group can take waiting pods: one pod of each nature, and what keeps it off a new node of each group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.logic.nodes.growth import scale_up
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature, SchedulablePod
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.scheduler_filters import FilterFailure


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
