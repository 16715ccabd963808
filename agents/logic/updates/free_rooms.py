"""What nodes have left for pods now, so that nobody is evicted in a full cluster whose successor would wait there.

All pods that the log has of a cluster count, whoever governs them: pods of others, DaemonSets, and those that still run down.
What waits for a node comes first. Node selectors, taints and rules between pods are not known and not looked at. Where a pod runs
on a node that is not known, what is left is not known either, and nobody is held back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from agents.logic.updates.node_rooms import DAEMON_SET, SuccessorRoom, in_words, requested
from schemas.facts.pods import PodChanged, PodPhase
from schemas.names import Amounts

PlannedRequests = Mapping[str, Amounts]
"""The new requests of a pod's containers."""
_Size = tuple[float, float]
"""Cores and bytes."""
_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class FreeRooms:
    """One cluster in one interval. Nothing is summed up before somebody asks.

    `nodes` has what each node has for pods, `pods` gives the cluster's pods, `going` those whose evictions are planned, and that
    are still there, with what their successors will request; `owed` likewise those whose successors are not seen yet.
    """

    def __init__(
        self,
        nodes: Mapping[str, SuccessorRoom],
        pods: Callable[[], Iterable[PodChanged]],
        going: Callable[[], Iterable[tuple[PodChanged, PlannedRequests]]],
        owed: Callable[[], Iterable[tuple[PodChanged, PlannedRequests]]],
    ) -> None:
        self._nodes, self._pods, self._going, self._owed = nodes, pods, going, owed
        self._begun: list[tuple[PodChanged, PlannedRequests]] = []
        """Evictions that were planned before anything was summed up."""
        self._waiting: list[_Size] = []
        self._unplaced = False
        """Whether a pod runs on a node that nobody has named, so that what is left is not known."""
        self._most: list[_Size] | None = None

    def objection(self, pod: PodChanged, planned: PlannedRequests) -> str | None:
        """Why a pod's successor, with the planned requests, would wait for a node now; None if one has room for it."""
        wanted, now = requested(pod, planned), requested(pod, {})
        # A successor that asks for no more than the pod fits where the pod was.
        if pod.node not in self._nodes or (wanted[0] <= now[0] and wanted[1] <= now[1]):
            return None
        # A DaemonSet's successor comes to the same node.
        others = [] if pod.workload.kind == DAEMON_SET else self._others(pod.node)
        own = self._own(pod.node, now)
        rooms = others if own is None else [*others, own]
        if self._unplaced or any(_holds(room, wanted) for room in rooms):
            return None
        lacks = min((_lack(room, wanted) for room in rooms), key=lambda lack: _share(lack, wanted), default=wanted)
        return (
            f"no node has room now for the pod's successor, which would request {in_words(*wanted)}: {in_words(*lacks)} are "
            "missing on the node that has most, with what the pod itself would free. Add a node, free one, or set "
            "updates.other_autoscaler if something else adds nodes"
        )

    def evicted(self, pod: PodChanged, planned: PlannedRequests) -> None:
        """The pod's eviction is planned: whoever waits takes what it frees, and then its successor has its place."""
        # Nothing is summed up before somebody asks: most intervals evict nobody, or nobody who grows.
        if "_left" not in self.__dict__:
            self._begun.append((pod, planned))
            return
        left, now = self._left, requested(pod, {})
        if pod.node in left:
            left[pod.node] = _more(left[pod.node], now)
        self._seat(self._waiting)
        self._seat([requested(pod, planned)])
        self._most = None

    @cached_property
    def _left(self) -> dict[str, _Size]:
        """What is left of each node that takes pods, once those that wait and successors of planned evictions have places."""
        left = {name: (room.cpu, room.memory) for name, room in self._nodes.items() if room.takes}
        # Before it is complete, because `_seat` and `evicted` below take their places in it.
        self.__dict__["_left"] = left
        waiting = list[PodChanged]()
        for pod in self._pods():
            if pod.phase in _ENDED:
                continue
            if pod.node in left:
                left[pod.node] = _less(left[pod.node], requested(pod, {}))
            elif pod.node is None and pod.phase is not PodPhase.PENDING:
                self._unplaced = True
            elif pod.node is None and not pod.leaving and pod.workload.kind != DAEMON_SET:
                waiting.append(pod)
        # The oldest first, as the scheduler's queue has them where priorities are equal.
        waiting.sort(key=lambda pod: (pod.created, pod.pod.uid))
        self._seat(requested(pod, {}) for pod in waiting)
        self._seat(requested(pod, planned) for pod, planned in self._owed())
        for pod, planned in (*self._going(), *self._begun):
            self.evicted(pod, planned)
        return left

    def _seat(self, sizes: Iterable[_Size]) -> None:
        """Put each where most CPU is left, as the scheduler does; those for which there is no room wait."""
        left, waiting = self._left, list[_Size]()
        for size in sizes:
            fitting = [name for name, room in left.items() if _holds(room, size)]
            if fitting:
                name = max(fitting, key=lambda name: left[name])
                left[name] = _less(left[name], size)
            else:
                waiting.append(size)
        self._waiting = waiting if sizes is self._waiting else [*self._waiting, *waiting]

    def _others(self, node: str | None) -> list[_Size]:
        """The rooms of other nodes than this one that no other equals in both resources."""
        left = self._left
        if self._most is None:
            self._most = list(_unmatched(left.values()))
        if left.get(node or "") not in self._most:
            return self._most
        return list(_unmatched(room for name, room in left.items() if name != node))

    def _own(self, node: str | None, freed: _Size) -> _Size | None:
        """What a pod's own node has once it is gone and those who wait have taken theirs; None if it takes no pods."""
        left = self._left
        if node not in left:
            return None
        own = _more(left[node], freed)
        for size in self._waiting:
            own = _less(own, size) if _holds(own, size) else own
        return own


def _unmatched(rooms: Iterable[_Size]) -> Iterator[_Size]:
    memory = float("-inf")
    for room in sorted(rooms, reverse=True):
        if room[1] > memory:
            memory = room[1]
            yield room


_ROUNDING = (1e-6, 0.5)
"""Sums of cores and bytes are exact to less than these."""


def _holds(room: _Size, size: _Size) -> bool:
    return size[0] <= room[0] + _ROUNDING[0] and size[1] <= room[1] + _ROUNDING[1]


def _lack(room: _Size, size: _Size) -> _Size:
    return max(0.0, size[0] - room[0]), max(0.0, size[1] - room[1])


def _share(lack: _Size, wanted: _Size) -> float:
    return lack[0] / (wanted[0] or 1.0) + lack[1] / (wanted[1] or 1.0)


def _more(room: _Size, size: _Size) -> _Size:
    return room[0] + size[0], room[1] + size[1]


def _less(room: _Size, size: _Size) -> _Size:
    return room[0] - size[0], room[1] - size[1]
