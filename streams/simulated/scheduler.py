"""The scheduler: a pod goes to the node with the most free CPU among those that take it and have room for it, else it waits.

It goes by requests, the number of pods, the node selector, taints and the cordon, as Kubernetes does. It ignores rules between
pods, volumes and preferences, and never moves a pod that has a node.
"""

from collections.abc import Hashable, Iterable, Mapping

from schemas.facts.scheduled_pods import PodToleration
from streams.clients.kube.json_objects import Json
from streams.simulated.cluster_nodes import CPU, GPUS, MEMORY, PODS, ClusterNode, ClusterNodes
from streams.simulated.kubelet import SimulatedPod

Room = tuple[int, int, int, int]
"""Millicores, bytes, pods and GPUs."""
Waiting = tuple[Room, Hashable, Hashable]
"""What a pod asks of its node: alike pods fit alike."""


def allocatable(node: ClusterNode) -> Room:
    """What the node has for pods."""
    amounts = node.amounts
    return amounts[CPU], amounts[MEMORY], amounts[PODS], amounts.get(GPUS, 0)


def claim(pod: SimulatedPod) -> Room:
    """What a pod takes of its node."""
    cpu, memory = pod.claim()
    return cpu, memory, 1, pod.deployment.gpus


class Scheduler:
    """Binds pods to nodes, and keeps what is free on each of them."""

    def __init__(self, nodes: ClusterNodes) -> None:
        self._nodes = nodes
        self._free: dict[str, Room] = {}
        self._claims: dict[str, tuple[str, Room]] = {}
        """By uid: where a pod is, and what was taken for it."""

    def node_joined(self, node: ClusterNode) -> None:
        """A node may take pods."""
        self._free[node.name] = allocatable(node)

    def node_left(self, name: str) -> None:
        """A node is gone, with what its pods took."""
        del self._free[name]
        # pods that were bound there must not give anything back to a later node of that name
        self._claims = {uid: claimed for uid, claimed in self._claims.items() if claimed[0] != name}

    def free(self, node: str) -> Room:
        """What is left of a node."""
        return self._free[node]

    def place(self, pod: SimulatedPod, hopeless: set[Waiting]) -> str | None:
        """The node for this pod, or None while there is none. Ties go to the first name.

        `hopeless` collects claims that found no node, so that a step tries once for equal pods.
        """
        deployment, wanted = pod.deployment, claim(pod)
        alike = wanted, tuple(sorted(deployment.node_selector.items())), deployment.tolerations
        if alike in hopeless:
            return None
        fitting = [
            node.name
            for node in self._nodes
            if fits(wanted, self._free[node.name]) and takes(node, deployment.node_selector, deployment.tolerations)
        ]
        if not fitting:
            hopeless.add(alike)
        # spreads pods, as Kubernetes' default LeastAllocated does; the name settles ties, so that every run places alike
        return min(fitting, key=lambda name: (-self._free[name][0], name), default=None)

    def bind(self, pod: SimulatedPod, node: str) -> None:
        """A pod takes its room on a node; again, if its requests have changed."""
        # first gives back its old claim, so that a resized pod counts once
        self.release(pod)
        wanted = claim(pod)
        self._claims[pod.name.uid] = node, wanted
        self._free[node] = _less(self._free[node], wanted)

    def release(self, pod: SimulatedPod) -> None:
        """A pod gives back what it took."""
        taken_before = self._claims.pop(pod.name.uid, None)
        if taken_before is not None:
            node, taken = taken_before
            self._free[node] = _less(self._free[node], (-taken[0], -taken[1], -taken[2], -taken[3]))


def takes(node: ClusterNode, selector: Mapping[str, str], tolerations: Iterable[PodToleration]) -> bool:
    """Whether a node takes such pods, but for room."""
    # a cordon is a taint that hardly anybody tolerates, so it is taken as one that nobody does
    if node.unschedulable or any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in node.hard_taints)


def fits(wanted: tuple[int, ...], left: tuple[int, ...]) -> bool:
    """Whether there is room in all."""
    # what is not asked for fits also where a node is overcommitted in it; a resize compares no pods and GPUs
    return all(amount <= 0 or amount <= room for amount, room in zip(wanted, left, strict=False))


def _tolerates(toleration: PodToleration, taint: Json) -> bool:
    if toleration.effect not in ("", taint.get("effect")) or toleration.key not in ("", taint.get("key")):
        return False
    # without a key only `Exists` tolerates, as the API server's validation has it
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == (taint.get("value") or ""))


def _less(room: Room, taken: Room) -> Room:
    return room[0] - taken[0], room[1] - taken[1], room[2] - taken[2], room[3] - taken[3]
