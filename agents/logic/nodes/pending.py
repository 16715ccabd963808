"""Which pending pods count: not the expendable, not the very young, not those for which there is room already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes import placement
from agents.logic.nodes.aws.options import duration
from agents.logic.nodes.cluster import Cluster
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
    return [pod for pod in pods if now - pod.created >= delay(pod.nature.annotations, settings)]


def all_new(pods: Sequence[Pod], settings: PendingSettings, now: float) -> bool:
    """Whether all pods are so new that more of them may be about to come. Source: allPodsAreNew in core/static_autoscaler.go."""
    gpu = [pod for pod in pods if any(pod.shape.request(name) for name in settings.gpus)]
    return all(now - pod.created < NEW for pod in pods) or (bool(gpu) and all(now - pod.created < NEW_GPU for pod in gpu))


def place(cluster: Cluster, pods: Sequence[Pod], settings: PendingSettings) -> list[Pod]:
    """Place the pods for which there is room, the most important first; the answer is the others, which need new nodes.

    Expendable pods and pods of DaemonSets are left out, and take no room.
    """
    wanted = [pod for pod in pods if not expendable(pod, settings)]
    shapes = np.array([cluster.shape(pod.shape) for pod in wanted], np.int64)
    priorities = np.array([-(pod.nature.priority or 0) for pod in wanted], np.int64)
    order = np.lexsort((shapes, priorities)) if len(wanted) else np.zeros(0, np.int64)
    rows = placement.schedule(cluster, shapes[order].tolist())
    left = sorted(order[rows == placement.NOWHERE].tolist())
    return [wanted[place] for place in left if not is_daemon(wanted[place].nature)]
