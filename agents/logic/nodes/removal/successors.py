"""What a drain must find room for: the pods that move, as large as they are or as large as they come back.

Whether a recommendation holds until a pod comes back nobody knows, and room that is there only because successors will be smaller
is room that the next pods miss. On recorded arrivals it saved nodes and cost more waiting (docs/nodes.md).
"""

from collections.abc import Mapping
from dataclasses import replace

from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature


def no_smaller(successors: Mapping[PodNature, PodNature]) -> dict[PodNature, PodNature]:
    """The successors, none of which asks for less of a resource than its pod does now."""
    return {pod: coming for pod, back in successors.items() if (coming := _larger(pod, back)) is not pod}


def _larger(pod: PodNature, back: PodNature) -> PodNature:
    now, later = dict(pod.shape.requests), dict(back.shape.requests)
    most = {name: max(now.get(name, 0), later.get(name, 0)) for name in sorted(now.keys() | later.keys())}
    if most == {name: amount for name, amount in now.items() if amount}:
        return pod
    return back if most == later else replace(back, shape=replace(back.shape, requests=tuple(most.items())))
