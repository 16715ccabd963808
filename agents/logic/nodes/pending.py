"""Which pending pods count: not the expendable, not the very young, not those for which there is room already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes import placement
from agents.logic.nodes.aws.options import duration
from agents.logic.nodes.cluster import Cluster, Row
from agents.logic.nodes.pods import Pod, is_daemon

DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
NEW = 2.0
"""Seconds for which pods count as new: if all of them are, the next look may see more of them."""
NEW_GPU = 30.0


@dataclass(frozen=True, slots=True)
class PendingSettings:
    """Pods below `cutoff` in priority are expendable; younger than `delay` seconds they wait."""

    cutoff: int = -10
    delay: float = 0.0
    gpus: frozenset[str] = frozenset(("nvidia.com/gpu",))


def expendable(pod: Pod, settings: PendingSettings) -> bool:
    """Whether a pod is not worth a node. Source: IsExpendablePod in core/utils/expendable.go."""
    return pod.nature.priority is not None and pod.nature.priority < settings.cutoff


def delay(annotations: Mapping[str, str], settings: PendingSettings) -> float:
    """Seconds for which a pod waits before it counts: its own delay, if it is no shorter than everybody's."""
    own = duration(annotations.get(DELAY, ""))
    return settings.delay if own is None or own < settings.delay else own


def old_enough(pods: Sequence[Pod], settings: PendingSettings, now: float) -> list[Pod]:
    """The pods whose delay has passed. Source: filterOutYoungPods in core/static_autoscaler.go."""
    return [pod for pod in pods if now - pod.created > delay(pod.nature.annotations, settings)]


def all_new(pods: Sequence[Pod], settings: PendingSettings, now: float) -> bool:
    """Whether all pods are so new that more of them may be about to come. Source: allPodsAreNew in core/static_autoscaler.go."""
    gpu = [pod for pod in pods if any(pod.shape.request(name) for name in settings.gpus)]
    return all(now - pod.created < NEW for pod in pods) or (bool(gpu) and all(now - pod.created < NEW_GPU for pod in gpu))


@dataclass(frozen=True, slots=True)
class Sorted:
    """Pending pods that found room, by row, and those that need new nodes."""

    placed: Mapping[Row, list[Pod]]
    left: list[Pod]


def place(cluster: Cluster, pods: Sequence[Pod], settings: PendingSettings) -> Sorted:
    """Place the pods for which there is room, the most important first; the others need new nodes.

    Expendable pods are left out and take no room; pods of DaemonSets are never said to need a node.
    """
    wanted = [pod for pod in pods if not expendable(pod, settings)]
    shapes = np.array([cluster.shape(pod.shape) for pod in wanted], np.int64)
    priorities = np.array([-(pod.nature.priority or 0) for pod in wanted], np.int64)
    order = np.lexsort((shapes, priorities)) if wanted else np.zeros(0, np.int64)
    rows = placement.schedule(cluster, shapes[order].tolist())
    placed: dict[Row, list[Pod]] = {}
    for place, row in zip(order.tolist(), rows.tolist(), strict=True):
        if row != placement.NOWHERE:
            placed.setdefault(row, []).append(wanted[place])
    left = [wanted[place] for place in sorted(order[rows == placement.NOWHERE].tolist())]
    return Sorted(placed, [pod for pod in left if not is_daemon(pod.nature)])
