"""Which pending pods count: no expendable ones, no very young ones, and none for which there is room already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from agents.logic.nodes.aws.group_options import duration
from agents.logic.nodes.scheduling import placement
from agents.logic.nodes.scheduling.node_columns import Row, ShapeId
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod, SchedulingNode, is_daemon
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.topology_counts import Counts

DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
NEW = 2.0
"""Seconds for which pods count as new: if all of them are, the next look may see more of them."""
NEW_GPU = 30.0

NATURE = attrgetter("nature")


@dataclass(frozen=True, slots=True)
class PendingSettings:
    """Which pods count, and from when on."""

    cutoff: int = -10  # Pods below it in priority are expendable.
    delay: float = 0.0  # Seconds; younger pods wait.
    gpus: frozenset[str] = frozenset(("nvidia.com/gpu",))
    # Seconds for which pods count as new; 0 if the caller waits for further ones itself. `new_gpu` is of those that ask for GPUs.
    new: float = NEW
    new_gpu: float = NEW_GPU
    # Seconds for which a pod that asks for GPUs waits for room on nodes that are there.
    patience: float = 0.0


def expendable(nature: PodNature, settings: PendingSettings) -> bool:
    """Whether such a pod is not worth a node. Source: IsExpendablePod in core/utils/expendable.go."""
    return nature.priority is not None and nature.priority < settings.cutoff


def delay(annotations: Mapping[str, str], settings: PendingSettings) -> float:
    """Seconds for which a pod waits before it counts."""
    # Its own delay, if it is no shorter than everybody's: a tenant may ask for more patience, and not for less.
    own = duration(annotations.get(DELAY, ""))
    return settings.delay if own is None or own < settings.delay else own


def shapes(cluster: ScheduledCluster, pods: Sequence[SchedulablePod]) -> Counts:
    """The shapes of pods, as the cluster numbers them."""
    natures = list(map(NATURE, pods))
    numbers = {nature: cluster.shape(nature.shape) for nature in dict.fromkeys(natures)}
    return np.array([numbers[nature] for nature in natures], np.int64)


def by_shape(shapes: Counts) -> list[tuple[ShapeId, Counts]]:
    """Each shape with the places of its pods, in the order in which they first appear."""
    # Pods that upstream separates by controller are counted together, because only the shape matters.
    order = np.argsort(shapes, kind="stable")
    kinds, starts = np.unique(shapes[order], return_index=True)
    places = np.split(order, starts[1:])
    return sorted(zip(kinds.tolist(), places, strict=True), key=lambda pair: int(pair[1][0])) if len(shapes) else []


def old_enough(pods: Sequence[SchedulablePod], settings: PendingSettings, now: float) -> list[SchedulablePod]:
    """The pods whose delay has passed. Source: filterOutYoungPods in core/static_autoscaler.go."""
    delays = {nature: delay(nature.annotations, settings) for nature in set(map(NATURE, pods))}
    return [pod for pod in pods if now - pod.created > delays[pod.nature]]


def all_new(pods: Sequence[SchedulablePod], settings: PendingSettings, now: float) -> bool:
    """Whether all pods are so new that more of them may be about to come. Source: allPodsAreNew in core/static_autoscaler.go."""
    asking = {nature for nature in set(map(NATURE, pods)) if any(nature.shape.request(name) for name in settings.gpus)}
    gpu = [pod for pod in pods if pod.nature in asking] if asking else []
    return all(now - pod.created < settings.new for pod in pods) or (
        bool(gpu) and all(now - pod.created < settings.new_gpu for pod in gpu)
    )


def impatient(
    pods: Sequence[SchedulablePod], nodes: Sequence[SchedulingNode], settings: PendingSettings, now: float
) -> list[SchedulablePod]:
    """The pods for which a group is to grow now, without young ones that ask for GPUs and wait for room on one of the nodes."""
    if not settings.patience:
        return list(pods)
    # Nodes with GPUs cost ten times others, and pods on them end: half a minute often spares one. Where no node has as many, no
    # room can come.
    most = {name: max((node.allocatable.get(name, 0) for node in nodes), default=0) for name in settings.gpus}
    wait = {
        nature: any(0 < nature.shape.request(name) <= there for name, there in most.items()) for nature in set(map(NATURE, pods))
    }
    return [pod for pod in pods if not wait[pod.nature] or now - pod.created >= settings.patience]


@dataclass(frozen=True, slots=True)
class SortedPendingPods:
    """Pending pods that found room, by row, and those that need new nodes."""

    placed: Mapping[Row, list[SchedulablePod]]
    left: list[SchedulablePod]


def place(cluster: ScheduledCluster, pods: Sequence[SchedulablePod], settings: PendingSettings) -> SortedPendingPods:
    """Place the pods for which there is room, the most important first; the others need new nodes."""
    natures = set(map(NATURE, pods))
    unworthy = {nature for nature in natures if expendable(nature, settings)}
    daemons = {nature for nature in natures if is_daemon(nature)}
    # The scheduler evicts expendable pods for others, so that they take no room.
    wanted = [pod for pod in pods if pod.nature not in unworthy] if unworthy else list(pods)
    kinds = shapes(cluster, wanted)
    ranks = {nature: -(nature.priority or 0) for nature in natures}
    order = np.lexsort((kinds, np.array([ranks[pod.nature] for pod in wanted], np.int64)))
    rows = placement.schedule(cluster, kinds[order].tolist())
    placed: dict[Row, list[SchedulablePod]] = {}
    for place, row in zip(order.tolist(), rows.tolist(), strict=True):
        if row != placement.NOWHERE:
            placed.setdefault(row, []).append(wanted[place])
    left = [wanted[place] for place in sorted(order[rows == placement.NOWHERE].tolist())]
    # A DaemonSet's pod is for a node that is there, and no other one helps it.
    return SortedPendingPods(placed, [pod for pod in left if pod.nature not in daemons])
