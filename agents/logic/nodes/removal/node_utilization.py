"""How much of a node its pods request: the measure of an underused node."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agents.logic.nodes.scheduling.pod_shapes import SchedulablePod, SchedulingNode, is_daemon, is_mirror, lingers
from schemas.pod_requests import CPU, MEMORY


class UtilizationError(ValueError):
    """A node without a utilisation, because it offers none of a resource."""


@dataclass(frozen=True, slots=True)
class IgnoredPods:
    """Pods that are left out, from what is asked and from what there is to ask for."""

    daemons: bool = False
    mirrors: bool = False


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares of what is allocatable. `highest` is the one that counts, and `resource` the resource that it is of."""

    resource: str
    highest: float
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float | None = None


def of_node(
    node: SchedulingNode, pods: Iterable[SchedulablePod], ignored: IgnoredPods, now: float, *, gpu: str = ""
) -> Utilization:
    """A node's utilisation; raises UtilizationError. `gpu`: the resource that alone counts, if the node has a GPU.

    Source: Calculate in simulator/utilization/info.go.
    """
    counted = [pod for pod in pods if _left_out(pod, ignored) or not lingers(pod, now)]
    if gpu:
        if not node.allocatable.get(gpu):
            # A GPU that is not offered yet is not used.
            return Utilization(gpu, 0.0, gpu=0.0)
        share = _share(node, counted, ignored, gpu)
        return Utilization(gpu, share, gpu=share)
    cpu, memory = _share(node, counted, ignored, CPU), _share(node, counted, ignored, MEMORY)
    return Utilization(CPU, cpu, cpu, memory) if cpu > memory else Utilization(MEMORY, memory, cpu, memory)


def _left_out(pod: SchedulablePod, ignored: IgnoredPods) -> bool:
    return (ignored.daemons and is_daemon(pod.nature)) or (ignored.mirrors and is_mirror(pod.nature.annotations))


def _share(node: SchedulingNode, pods: list[SchedulablePod], ignored: IgnoredPods, resource: str) -> float:
    offered = node.allocatable.get(resource)
    if not offered:
        raise UtilizationError(f"node '{node.name}' offers no {resource}")
    asked = sum(pod.shape.request(resource) for pod in pods if not _left_out(pod, ignored))
    # What is left out counts neither as asked for nor as what there is to ask for.
    left = offered - sum(pod.shape.request(resource) for pod in pods if _left_out(pod, ignored))
    if not left:
        return math.inf if asked else 0.0
    return asked / left
