"""The scheduler: a pod goes to the node with the most free CPU among those that have room for its requests, else it waits.

Room counts requests alone, as Kubernetes does. Never moves a pod that has a node.
"""

from collections.abc import Iterable, Mapping

from streams.clients.kube.quantities import millicores
from streams.simulated.cluster_spec import SimulatedNode
from streams.simulated.kubelet import SimulatedPod

Room = tuple[int, int]
"""Millicores and bytes."""


def allocatable(node: SimulatedNode) -> Room:
    """What the node has for pods."""
    return millicores(node.cores), node.memory


def free(nodes: Iterable[SimulatedNode], pods: Iterable[SimulatedPod]) -> dict[str, Room]:
    """What the requests of its pods leave free on each node."""
    room = {node.name: allocatable(node) for node in nodes}
    for pod in pods:
        if pod.node is not None:
            room[pod.node] = _less(room[pod.node], pod.claim())
    return room


def place(pod: SimulatedPod, room: Mapping[str, Room]) -> str | None:
    """The node for this pod, or None while no node has room. Ties go to the first name."""
    wanted = pod.claim()
    fitting = [name for name, left in room.items() if fits(wanted, left)]
    return min(fitting, key=lambda name: (-room[name][0], name), default=None)


def reserve(room: dict[str, Room], node: str, claim: Room) -> None:
    """Subtract the requests of a pod that went to a node."""
    room[node] = _less(room[node], claim)


def fits(wanted: Room, left: Room) -> bool:
    """Whether there is room in both."""
    return wanted[0] <= left[0] and wanted[1] <= left[1]


def _less(room: Room, claim: Room) -> Room:
    return room[0] - claim[0], room[1] - claim[1]
