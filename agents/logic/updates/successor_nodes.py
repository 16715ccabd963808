"""What nodes have for a pod: those that are there, and a new one of each group that may still grow; and what is left of it now.

A pod whose successor fits none of them would be evicted into waiting for ever, and one whose successor finds no room beside other
pods into waiting for as long as the cluster is full.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Turn
from agents.logic.updates.eviction_tolerance import is_there
from agents.logic.updates.updater_records import PodRecord
from schemas import pod_requests, times, units
from schemas.catalogue import Event
from schemas.facts.nodes import NodeChanged, NodeGroupGone, NodeGroupSeen, NodeInstanceSeen, NodeRemoved, ScalingActivityFailed
from schemas.facts.pods import ENDED_PHASES, ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, cluster_of
from schemas.pod_requests import CPU, MEMORY, ContainerRequests

DAEMON_SET = "DaemonSet"
# Whole numbers, so that sums are equal where Kubernetes finds them equal.
_NANO = 1_000_000_000
_NOTHING = Amounts()
_KARPENTER = "karpenter.sh/"
"""The start of labels of nodes that Karpenter made."""
FAILED_FOR = 1_800_000
"""Milliseconds after a failed launch in which no node is expected of a group; the longest for which the autoscaler backs off."""


@dataclass(frozen=True, slots=True)
class SuccessorRoom:
    """Cores and bytes that a node, or a new node of a group, has for pods. `what` names it in a sentence.

    `takes`: it is ready and not cordoned. `comes`: it is a new node, or one that Karpenter made, which makes others like it.
    `failed`: when the cloud last could not start one, in milliseconds; 0 after the next one has come. `ready`: its kubelet
    answers, which is enough for pods of DaemonSets.
    """

    what: str
    cpu: float
    memory: float
    takes: bool = True
    comes: bool = False
    failed: int = 0
    ready: bool = True

    def holds(self, cpu: float, memory: float) -> bool:
        """Whether a pod that requests so much fits."""
        return cpu <= self.cpu and memory <= self.memory


class NodeRooms:
    """The nodes and groups of all clusters."""

    def __init__(self) -> None:
        self.nodes: ObjectTable[SuccessorRoom] = ObjectTable("node-rooms", SuccessorRoom, 16)
        self.groups: ObjectTable[SuccessorRoom] = ObjectTable("group-rooms", SuccessorRoom, 16)

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.nodes, self.groups)

    def ingest(self, turn: Turn) -> None:
        """Take in the facts of a turn."""
        for topic in ("cluster-changes", "node-group-changes"):
            for recorded in turn.of(topic):
                self._take(recorded.event)

    def of(self, cluster: str, pods: Iterable[PodChanged], now: int) -> Sequence[SuccessorRoom]:
        """What they have at `now` (milliseconds) for pods that no DaemonSet makes. `pods` are those of the cluster.

        Without known nodes there is none.
        """
        rooms = self.nodes_of(cluster)
        if not rooms:
            return ()
        for pod in pods:
            # Pods of DaemonSets come back with every node; those of others may go elsewhere.
            if pod.workload.kind == DAEMON_SET and pod.node in rooms:
                room, (cpu, memory) = rooms[pod.node], requested(pod, {})
                rooms[pod.node] = replace(room, cpu=room.cpu - cpu, memory=room.memory - memory)
        groups = (room for key, room in self.groups.items() if cluster_of(key) == cluster)
        return [*rooms.values(), *(replace(room, comes=now - room.failed > FAILED_FOR) for room in groups)]

    def nodes_of(self, cluster: str) -> dict[str, SuccessorRoom]:
        """What each node of a cluster has for all pods."""
        return {key.split("/", 1)[1]: room for key, room in self.nodes.items() if cluster_of(key) == cluster}

    def _take(self, event: Event) -> None:
        """Take in a fact; others are ignored."""
        match event:
            case NodeChanged(allocatable=size):
                key = f"{event.cluster}/{event.node}"
                made = any(label.startswith(_KARPENTER) for label in event.labels)
                takes, what = event.ready and event.schedulable, f"node '{event.node}'"
                cpu, memory = size.cpu or 0.0, float(size.memory or 0)
                _put(self.nodes, key, SuccessorRoom(what, cpu, memory, takes, made, ready=event.ready))
            case NodeRemoved():
                self.nodes.remove(f"{event.cluster}/{event.node}")
            case NodeGroupSeen(template=template):
                # A group that is full adds no node.
                room = {} if template is None or event.desired >= event.most else template.allocatable
                what, failed = f"a new node of group '{event.group}'", self._failed(event)
                cpu, memory = room.get("cpu", 0) / 1000, float(room.get("memory", 0))
                _put(self.groups, _key(event), SuccessorRoom(what, cpu, memory, comes=True, failed=failed))
            case NodeGroupGone():
                self.groups.remove(_key(event))
            case ScalingActivityFailed():
                self._note_failure(event, times.to_ms(event.at))
            # An instance that was launched after the failure shows that the cloud has machines again.
            case NodeInstanceSeen(launched=launched) if launched is not None and times.to_ms(launched) > self._failed(event):
                self._note_failure(event, 0)
            case _:
                pass

    def _failed(self, event: NodeGroupSeen | NodeInstanceSeen) -> int:
        group = self.groups.get(_key(event))
        return 0 if group is None else group.failed

    def _note_failure(self, event: ScalingActivityFailed | NodeInstanceSeen, failed: int) -> None:
        group = self.groups.get(_key(event))
        if group is not None and group.failed != failed:
            self.groups.upsert(_key(event), replace(group, failed=failed))


def _key(event: NodeGroupSeen | NodeGroupGone | NodeInstanceSeen | ScalingActivityFailed) -> str:
    return f"{event.cluster}/{event.group}"


def daemons(pods_of: Mapping[str, Mapping[str, PodRecord]], cluster: str) -> Iterator[PodChanged]:
    """The pods of a cluster's DaemonSets that are there."""
    for workload, pods in pods_of.items():
        own, _, kind, _ = workload.split("/", 3)
        if own == cluster and kind == DAEMON_SET:
            yield from (pod.fact for pod in pods.values() if is_there(pod.fact))


def requested(pod: PodChanged, planned: Mapping[str, Amounts]) -> tuple[float, float]:
    """Cores and bytes that a pod takes of its node with the planned requests of its containers."""

    def of(seen: ContainerSeen) -> ContainerRequests:
        return ContainerRequests({**_whole(seen.requests), **_whole(planned.get(seen.name, _NOTHING))}, always=seen.sidecar)

    total = pod_requests.of_pod(map(of, pod.containers), map(of, pod.init_containers), pod_level=_whole(pod.requests))
    return total.get(CPU, 0) / _NANO, float(total.get(MEMORY, 0))


def _whole(amounts: Amounts) -> dict[str, int]:
    """Amounts that are set, in nanocores and bytes."""
    cpu = {} if amounts.cpu is None else {CPU: round(amounts.cpu * _NANO)}
    return cpu if amounts.memory is None else {**cpu, MEMORY: int(amounts.memory)}


def objection(pod: PodChanged, planned: Mapping[str, Amounts], rooms: Sequence[SuccessorRoom]) -> str | None:
    """Why a pod's successor, with the planned requests, would wait for a node for ever; None if one could take it."""
    if not rooms or pod.workload.kind == DAEMON_SET:
        return None
    (cpu, memory), now = requested(pod, planned), requested(pod, {})
    # For a successor that asks for no more than the pod has, the pod's own node is the proof.
    if (cpu <= now[0] and memory <= now[1]) or any(room.holds(cpu, memory) for room in rooms):
        return None
    room = _nearest(cpu, memory, rooms)
    wanted, there = in_words(cpu, memory), in_words(room.cpu, room.memory)
    return (
        f"no node could take the pod's successor, which would request {wanted}: {room.what} has most, {there} beside DaemonSets. "
        "Give the cluster a larger node, or bound the workload with maxAllowed"
    )


def waiting(pod: PodChanged, rooms: Sequence[SuccessorRoom]) -> str:
    """Why a pod has no node yet, as far as the nodes and groups that are known tell."""
    if not rooms:
        return "no source reports nodes, so nobody knows whether one could take it"
    cpu, memory = requested(pod, {})
    if any(room.holds(cpu, memory) for room in rooms):
        return "one could take it but for other pods, or for a rule of the scheduler; the Events of the pod say which"
    room = _nearest(cpu, memory, rooms)
    there = f"{room.what} has most, {in_words(room.cpu, room.memory)} beside DaemonSets"
    return f"it requests {in_words(cpu, memory)}, which none has: {there}. Ask for less, or for a larger node"


def _nearest(cpu: float, memory: float, rooms: Sequence[SuccessorRoom]) -> SuccessorRoom:
    """The one that comes nearest to what is asked for."""
    return max(rooms, key=lambda room: (min(room.cpu / (cpu or 1.0), 1.0) + min(room.memory / (memory or 1.0), 1.0), room.what))


def may_grow(pod: PodChanged, planned: Mapping[str, Amounts], rooms: Sequence[SuccessorRoom]) -> bool:
    """Whether a node that would come could take the pod's successor."""
    if pod.workload.kind == DAEMON_SET:
        return False
    return any(room.comes and room.holds(*requested(pod, planned)) for room in rooms)


def in_words(cpu: float, memory: float) -> str:
    """Cores and bytes, as people write them."""
    return f"{units.cpu_text(cpu)} and {units.bytes_text(memory)}"


def _put(table: ObjectTable[SuccessorRoom], key: str, room: SuccessorRoom) -> None:
    # A node of which no CPU or no memory is told is unknown, and not a node without any.
    if room.cpu > 0 and room.memory > 0:
        table.upsert(key, room)
    else:
        table.remove(key)


PlannedRequests = Mapping[str, Amounts]
"""The new requests of a pod's containers."""
_Size = tuple[float, float]
"""Cores and bytes."""


class FreeRooms:
    """What the nodes of one cluster have left in one interval. Nothing is summed up before somebody asks.

    All pods that the log has of the cluster count, whoever governs them, and what waits for a node comes first. Node selectors,
    taints and rules between pods are not known and not looked at. Where a pod runs on a node that is not known, what is left is
    not known either, and nobody is held back.

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
        own_node = self._nodes.get(pod.node or "")
        # A DaemonSet's successor comes to the same node, be it cordoned, and only once the kubelet there has ended the pod.
        daemon = pod.workload.kind == DAEMON_SET
        if daemon and own_node is not None and not own_node.ready:
            return f"{own_node.what} is not ready, and the pod's successor could begin on no other one"
        # A successor that asks for no more than the pod fits where the pod was.
        if own_node is None or (wanted[0] <= now[0] and wanted[1] <= now[1]):
            return None
        others = [] if daemon else self._others(pod.node)
        own = self._own(pod.node or "", now) if daemon or own_node.takes else None
        rooms = others if own is None else [*others, own]
        if self._unplaced or any(_holds(room, wanted) for room in rooms):
            return None
        lacks = min((_lack(room, wanted) for room in rooms), key=lambda lack: _share(lack, wanted), default=wanted)
        if daemon:
            return (
                f"{own_node.what} has no room now for the pod's successor, which would request {in_words(*wanted)} there: "
                f"{in_words(*lacks)} are missing, with what the pod itself would free. Free the node of other pods"
            )
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
        """What is left of each node, once those that wait and successors of planned evictions have places."""
        left = {name: (room.cpu, room.memory) for name, room in self._nodes.items()}
        # Before it is complete, because `_seat` and `evicted` below take their places in it.
        self.__dict__["_left"] = left
        waiting = list[PodChanged]()
        for pod in self._pods():
            if pod.phase in ENDED_PHASES:
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

    @cached_property
    def _taking(self) -> list[str]:
        """The nodes that take pods of others than DaemonSets."""
        return [name for name, room in self._nodes.items() if room.takes]

    def _seat(self, sizes: Iterable[_Size]) -> None:
        """Put each where most CPU is left, as the scheduler does; those for which there is no room wait."""
        left, waiting = self._left, list[_Size]()
        for size in sizes:
            fitting = [name for name in self._taking if _holds(left[name], size)]
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
            self._most = list(_unmatched(left[name] for name in self._taking))
        if left.get(node or "") not in self._most:
            return self._most
        return list(_unmatched(left[name] for name in self._taking if name != node))

    def _own(self, node: str, freed: _Size) -> _Size:
        """What a pod's own node has once it is gone and those who wait have taken theirs."""
        own = _more(self._left[node], freed)
        for size in self._waiting if self._nodes[node].takes else ():
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
