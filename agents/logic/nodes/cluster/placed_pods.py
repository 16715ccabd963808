"""Pods by where they are: lists for decisions, updated pod by pod and derived from the tables alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agents.logic.nodes.cluster import fact_conversion
from agents.logic.nodes.scheduling import affinity_limits
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import ControllingOwner, PodShapeSeen
from schemas.names import Place

UNSCHEDULABLE = "Unschedulable"
"""The scheduler's reason for a pod that no node takes."""
GATED = "SchedulingGated"
"""The reason for a pod that others hold back, so that no scheduler looks at it."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod as the scaler keeps it. `shape` is the key of its shape; times are in seconds."""

    namespace: str
    name: str
    shape: str
    node: str
    phase: PodPhase
    created: float
    deleted: float | None = None
    pinned: str = ""
    waits: bool = False
    place: Place | None = None  # Only of one that waits.
    # It is not on its node yet, but the scheduler makes room for it there.
    nominated: bool = False
    # The scheduler's word about a pod that has no node, as `message` is its sentence.
    reason: str = ""
    message: str = ""

    @property
    def silent(self) -> bool:
        """Whether the scheduler has said neither that it places the pod, nor that no node takes it."""
        untold = not self.node and self.reason not in (UNSCHEDULABLE, GATED)
        return untold and self.phase is PodPhase.PENDING and self.deleted is None


class PlacedPodIndex:
    """All pods of a partition's clusters. Keys are those of the tables: `cluster/uid`, `cluster/shape`."""

    def __init__(self) -> None:
        self.stale = False
        self._pods: dict[str, tuple[str, str, SchedulablePod]] = {}
        self._on: dict[str, dict[str, SchedulablePod]] = {}
        self._nominated: set[str] = set()
        self._waiting: dict[str, dict[str, SchedulablePod]] = {}
        self._silent: dict[str, dict[str, SchedulablePod]] = {}
        self._sorted: dict[str, list[SchedulablePod]] = {}
        self._seen: dict[str, PodShapeSeen] = {}
        self._refused: dict[str, str] = {}
        self._rules: dict[str, int] = {}
        self._natures: dict[tuple[str, str, bool], PodNature] = {}
        self._variants: dict[str, list[tuple[str, str, bool]]] = {}
        self._shape_ids: dict[int, str] = {}
        self._cited: dict[str, int] = {}
        self._leaving: dict[str, int] = {}
        self._of_controller: dict[str, dict[str, None]] = {}

    # Shapes

    def shape_seen(self, key: str, shape: PodShapeSeen, refused: str = "") -> None:
        """A shape that pods may cite. `refused`: why no node is to be made for such pods."""
        self._count_rules(key, -1)
        self._seen[key] = shape
        self._count_rules(key, 1)
        if shape.owner is not None:
            self._of_controller.setdefault(_controller(shape.owner, shape), {})[key] = None
        if refused:
            self._refused[key] = refused
        else:
            self._refused.pop(key, None)

    def rules(self, cluster: str, namespace: str) -> int:
        """How many rules between pods the shapes of a namespace have together."""
        return self._rules.get(f"{cluster}/{namespace}", 0)

    def _count_rules(self, key: str, sign: int) -> None:
        shape = self._seen.get(key)
        number = 0 if shape is None else affinity_limits.rules(shape)
        if shape is not None and number:
            where = f"{key.split('/', 1)[0]}/{shape.namespace}"
            self._rules[where] = self._rules.get(where, 0) + sign * number
            if not self._rules[where]:
                del self._rules[where]

    def shape_gone(self, key: str) -> None:
        """No pod cites the shape any more."""
        self._count_rules(key, -1)
        gone = self._seen.pop(key, None)
        if gone is not None and gone.owner is not None:
            mine = self._of_controller[_controller(gone.owner, gone)]
            del mine[key]
            if not mine:
                del self._of_controller[_controller(gone.owner, gone)]
        self._refused.pop(key, None)
        self._cited.pop(key, None)
        self._leaving.pop(key, None)
        for variant in self._variants.pop(key, ()):
            self._shape_ids.pop(id(self._natures.pop(variant)), None)

    def cited(self, key: str) -> int:
        """How many pods have a shape."""
        return self._cited.get(key, 0)

    def staying(self, key: str) -> int:
        """How many pods of a shape are not being deleted."""
        return self.cited(key) - self._leaving.get(key, 0)

    def shapes_of(self, controller: str) -> list[str]:
        """The keys of the shapes of pods that a controller made, which is given as `cluster/namespace/kind/name`."""
        return sorted(self._of_controller.get(controller, ()))

    def nature(self, key: str, pinned: str = "", *, terminating: bool = False) -> PodNature:
        """The nature of the pods of a shape; those of one node, and those that are leaving, have their own."""
        variant = (key, pinned, terminating)
        cached = self._natures.get(variant)
        if cached is None:
            made = fact_conversion.nature(self._seen[key], self._refused.get(key, ""))
            if pinned or terminating:
                made = replace(made, shape=replace(made.shape, node_name=pinned, terminating=terminating))
            cached = self._natures[variant] = made
            self._variants.setdefault(key, []).append(variant)
            # By identity, as a nature is large, and there is one object of each.
            self._shape_ids[id(made)] = key
        return cached

    def natures(self, cluster: str) -> Iterator[tuple[PodNature, PodShapeSeen]]:
        """The natures of all pods of a cluster, each with its shape as it was published."""
        for (key, _pinned, _terminating), nature in self._natures.items():
            if key.startswith(f"{cluster}/"):
                yield nature, self._seen[key]

    def shape_of(self, pod: SchedulablePod) -> str:
        """The key of a pod's shape."""
        return self._shape_ids[id(pod.nature)]

    def shape(self, key: str) -> PodShapeSeen:
        """A shape as it was published."""
        return self._seen[key]

    def daemons(self, cluster: str) -> list[PodNature]:
        """One nature for each DaemonSet that has a pod somewhere, in the order of their names."""
        newest: dict[tuple[str, str], str] = {}
        for key in sorted(self._seen):
            owner = self._seen[key].owner
            if key.startswith(f"{cluster}/") and owner is not None and owner.kind == "DaemonSet":
                newest[self._seen[key].namespace, owner.name] = key
        return [self.nature(newest[name]) for name in sorted(newest)]

    # Pods

    def put(self, key: str, pod: PlacedPod) -> None:
        """Add or replace a pod."""
        self.remove(key)
        # Which node it is meant for matters only as long as it is on none.
        nature = self.nature(pod.shape, "" if pod.node else pod.pinned, terminating=pod.deleted is not None)
        made = SchedulablePod(pod.name, nature, pod.phase.value, pod.created, pod.deleted)
        cluster = key.split("/", 1)[0]
        where = f"{cluster}/{pod.node}" if pod.node else ""
        if where:
            self._on.setdefault(where, {})[key] = made
            self._sorted.pop(where, None)
        elif pod.waits and pod.deleted is None:
            self._waiting.setdefault(cluster, {})[key] = made
        elif pod.silent:
            self._silent.setdefault(cluster, {})[key] = made
        if pod.nominated:
            self._nominated.add(key)
        self._pods[key] = (where, pod.shape, made)
        self._cited[pod.shape] = self._cited.get(pod.shape, 0) + 1
        if pod.deleted is not None:
            self._leaving[pod.shape] = self._leaving.get(pod.shape, 0) + 1

    def remove(self, key: str) -> None:
        """A pod is gone, or elsewhere."""
        known = self._pods.pop(key, None)
        if known is None:
            return
        where, shape, made = known
        self._nominated.discard(key)
        self._cited[shape] -= 1
        if made.deleted is not None:
            self._leaving[shape] -= 1
        if where:
            mine = self._on[where]
            del mine[key]
            self._sorted.pop(where, None)
            if not mine:
                del self._on[where]
        else:
            cluster = key.split("/", 1)[0]
            self._waiting.get(cluster, {}).pop(key, None)
            self._silent.get(cluster, {}).pop(key, None)

    def on(self, node: str) -> Sequence[SchedulablePod]:
        """The pods of a node, by its key, nominated ones among them; those of one shape follow one another."""
        pods = self._sorted.get(node)
        if pods is None:
            mine = self._on.get(node)
            if mine is None:
                return ()
            # Alike ones follow one another, so that drains and simulations judge each run of them once.
            order = sorted((self.shape_of(pod), pod.namespace, pod.name, key) for key, pod in mine.items())
            pods = self._sorted[node] = [mine[key] for _shape, _namespace, _name, key in order]
        return pods

    def uids(self, node: str) -> dict[str, str]:
        """The uids of the pods that run on a node, by namespace and name."""
        return {pod.key: key.split("/", 1)[1] for key, pod in self._on.get(node, {}).items() if key not in self._nominated}

    def waiting(self, cluster: str) -> list[SchedulablePod]:
        """The pods that wait for a node, oldest first."""
        mine = self._waiting.get(cluster, {})
        return [mine[key] for key in sorted(mine, key=lambda key: (mine[key].created, mine[key].key, key))]

    def silent(self, cluster: str) -> dict[str, SchedulablePod]:
        """The pods of which the scheduler has said nothing, by their keys."""
        return self._silent.get(cluster, {})

    def waiting_keys(self, cluster: str) -> dict[str, str]:
        """The keys of the pods that wait, by namespace and name."""
        return {pod.key: key for key, pod in self._waiting.get(cluster, {}).items()}


def _controller(owner: ControllingOwner, shape: PodShapeSeen) -> str:
    return f"{shape.cluster}/{shape.namespace}/{owner.kind}/{owner.name}"
