"""Whether the pods of a node may be moved: for each pod a verdict, and a reason when it blocks.

The rules are upstream's, in its order; the first that applies decides (simulator/drainability/rules).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import attrgetter

from agents.logic.nodes.scheduling.pod_shapes import (
    PodNature,
    PodOwner,
    SchedulablePod,
    controller,
    is_daemon,
    is_mirror,
    lingers,
)
from agents.logic.nodes.scheduling.scheduling_selectors import SchedulingSelector
from schemas.well_known_labels import DO_NOT_DISRUPT, POD_OPT_OUTS, SAFE_TO_EVICT, opted_out

SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SYSTEM = "kube-system"
APPS = "apps"
FINISHED = ("Succeeded", "Failed")

NATURE, PHASE, DELETED = attrgetter("nature"), attrgetter("phase"), attrgetter("deleted")

MOST_DISRUPTION_BUDGETS = 1_000
"""PodDisruptionBudgets of one namespace that are read. Of a namespace with more no pod may go: who knows whom they protect."""


class Blocking(StrEnum):
    """Why a pod keeps its node."""

    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    LOCAL_STORAGE = "LocalStorageRequested"
    NOT_SAFE = "NotSafeToEvictAnnotation"
    SYSTEM = "UnmovableKubeSystemPod"
    DISRUPTION_BUDGET = "NotEnoughPdb"
    SEVERAL_BUDGETS = "SeveralPdbs"
    UNEXPECTED = "UnexpectedError"


class PodDrain(StrEnum):
    """What becomes of a pod when its node goes."""

    MOVE = "move"
    DAEMON = "move_daemonset"
    SKIP = "skip"
    WAIT = "wait"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class DrainVerdict:
    """A pod's outcome, with the reason if it blocks. `protected`: disruption budgets apply as well."""

    outcome: PodDrain
    reason: Blocking | None = None
    protected: bool = False


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """Upstream's flags. `system_pods_block`: seconds after which a pod of kube-system no longer blocks."""

    skip_system: bool = True
    skip_local_storage: bool = True
    skip_custom_controllers: bool = True
    min_replicas: int = 0
    system_pods_block: float = 3600.0  # Seconds after which a pod of kube-system no longer blocks.
    # A pod that several disruption budgets protect blocks, because the eviction API evicts none such; upstream begins the drain
    # in vain.
    one_budget_only: bool = False


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: which pods it protects, and how many of them may go now."""

    name: str
    namespace: str
    selector: SchedulingSelector
    allowed: int


class DisruptionBudgets:
    """All budgets, found by namespace and labels; a simulation's use is counted separately from what is allowed."""

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        counts = Counter(budget.namespace for budget in budgets)
        self.crowded = frozenset(namespace for namespace, number in counts.items() if number > MOST_DISRUPTION_BUDGETS)
        """Namespaces with more budgets than are read."""
        self.budgets = [budget for budget in budgets if budget.namespace not in self.crowded]
        self.left = [budget.allowed for budget in self.budgets]
        self._spaces: dict[str, list[int]] = {}
        for place, budget in enumerate(self.budgets):
            self._spaces.setdefault(budget.namespace, []).append(place)
        self._known: dict[PodNature, tuple[int, ...]] = {}

    def of(self, nature: PodNature) -> tuple[int, ...]:
        """The places of the budgets that protect pods of this nature."""
        protecting = self._known.get(nature)
        if protecting is None:
            labels = dict(nature.shape.labels)
            places = self._spaces.get(nature.shape.namespace, ())
            protecting = self._known[nature] = tuple(place for place in places if self.budgets[place].selector.matches(labels))
        return protecting

    def exhausted(self, nature: PodNature) -> bool:
        """Whether a budget lets no pod of this nature go now."""
        places = self.of(nature)
        if nature.shape.namespace in self.crowded:
            return True
        return bool(places) and any(self.left[place] < 1 for place in places)

    def allow_at_once(self, pods: Iterable[SchedulablePod]) -> bool:
        """Whether all of these pods may go at the same time."""
        return all(number <= self.left[place] for place, number in self._wanted(pods).items())

    def use(self, pods: Iterable[SchedulablePod]) -> None:
        """Count pods as gone."""
        for place, number in self._wanted(pods).items():
            self.left[place] -= number

    def _wanted(self, pods: Iterable[SchedulablePod]) -> dict[int, int]:
        """How many of the pods each budget protects."""
        wanted: dict[int, int] = {}
        for nature, number in Counter(map(NATURE, pods)).items():
            for place in self.of(nature):
                wanted[place] = wanted.get(place, 0) + number
        return wanted


@dataclass(frozen=True, slots=True)
class KnownControllers:
    """The controllers that exist: replicas (None if not set) by kind, namespace and name."""

    replicas: Mapping[tuple[str, str, str], int | None]


@dataclass(frozen=True, slots=True)
class DrainContext:
    """The rules' input besides the pod."""

    now: float
    settings: DrainSettings
    workloads: KnownControllers
    budgets: DisruptionBudgets
    known: dict[PodNature, DrainVerdict] = field(default_factory=dict)
    """Cached verdicts on running pods, by their nature, before budgets are applied."""


@dataclass(slots=True)
class DrainedNode:
    """What becomes of a node's pods. `blocker` keeps the node; `wait` are pods that must end by themselves first."""

    move: list[SchedulablePod] = field(default_factory=list)
    daemons: list[SchedulablePod] = field(default_factory=list)
    wait: list[SchedulablePod] = field(default_factory=list)
    blocker: SchedulablePod | None = None
    reason: Blocking | None = None

    def keep(self, outcome: PodDrain, pods: list[SchedulablePod]) -> None:
        """Note pods that do not block."""
        if outcome is PodDrain.MOVE:
            self.move += pods
        elif outcome is PodDrain.DAEMON:
            self.daemons += pods
        elif outcome is PodDrain.WAIT:
            self.wait += pods

    @property
    def empty(self) -> bool:
        """Whether nothing has to move."""
        return not self.move and not self.wait and self.blocker is None


def of_node(pods: Iterable[SchedulablePod], scene: DrainContext) -> DrainedNode:
    """Judge the pods of a node in order, up to the first that blocks. Source: GetPodsToMove in simulator/drain.go."""
    drained = DrainedNode()
    for nature, alike in groupby(pods, NATURE):
        some = list(alike)
        usual = _usual(nature, set(map(PHASE, some)), set(map(DELETED, some)))
        for same in (some,) if usual else ([pod] for pod in some):
            verdict = of_pod(same[0], scene)
            if verdict.outcome is PodDrain.BLOCK:
                drained.blocker, drained.reason = same[0], verdict.reason
                return drained
            drained.keep(verdict.outcome, same)
    natures = set(map(NATURE, drained.move))
    stuck = {nature for nature in natures if scene.settings.one_budget_only and len(scene.budgets.of(nature)) > 1}
    if stuck:
        drained.blocker, drained.reason = next(pod for pod in drained.move if pod.nature in stuck), Blocking.SEVERAL_BUDGETS
        return drained
    # Once more for all pods that would move, because an annotation lets a pod pass the rules but not the budgets.
    spent = {nature for nature in natures if scene.budgets.exhausted(nature)}
    if spent:
        drained.blocker = next(pod for pod in drained.move if pod.nature in spent)
        drained.reason = Blocking.DISRUPTION_BUDGET
    return drained


def of_pod(pod: SchedulablePod, scene: DrainContext) -> DrainVerdict:
    """The verdict on one pod."""
    nature = pod.nature
    usual = _usual(nature, {pod.phase}, {pod.deleted})
    verdict = scene.known.get(nature) if usual else None
    if verdict is None:
        verdict = _verdict(pod, scene)
        if usual:
            scene.known[nature] = verdict
    if verdict.outcome is PodDrain.MOVE and verdict.protected and scene.budgets.exhausted(nature):
        return DrainVerdict(PodDrain.BLOCK, Blocking.DISRUPTION_BUDGET)
    return verdict


def _usual(nature: PodNature, phases: set[str], deleted: set[float | None]) -> bool:
    """Whether the rules treat all such pods alike: they run, they stay, and their age does not matter."""
    # Of these the age or the phase matters, so that pods of one nature may differ.
    return deleted == {None} and phases.isdisjoint(FINISHED) and nature.shape.namespace != SYSTEM


def _verdict(pod: SchedulablePod, scene: DrainContext) -> DrainVerdict:
    """All rules but the last, which asks the disruption budgets of a pod that is `protected`."""
    nature = pod.nature
    if is_mirror(nature.annotations) or lingers(pod, scene.now):
        return DrainVerdict(PodDrain.SKIP)
    reason = _controller(nature, scene)
    if reason is not None:
        return DrainVerdict(PodDrain.BLOCK, reason)
    if is_daemon(nature):
        return DrainVerdict(PodDrain.DAEMON)
    safe = nature.annotations.get(SAFE_TO_EVICT)
    # Karpenter's annotation counts, too: whoever set it wants no disruption.
    if nature.annotations.get(DO_NOT_DISRUPT) == "true" and not _finished(pod):
        return DrainVerdict(PodDrain.BLOCK, Blocking.NOT_SAFE)
    if safe == "true" or _finished(pod):
        return DrainVerdict(PodDrain.MOVE)
    return DrainVerdict(PodDrain.WAIT) if safe == "on-completion" else _protection(pod, scene)


def _controller(nature: PodNature, scene: DrainContext) -> Blocking | None:
    """Why the controller of a pod keeps it: it must exist, and have replicas enough."""
    mine = controller(nature.owners)
    if not scene.settings.skip_custom_controllers or mine is None or mine.group is None or not _looked_up(nature, mine):
        return None
    known = scene.workloads.replicas
    key = (mine.kind, nature.shape.namespace, mine.name)
    if key not in known:
        return Blocking.CONTROLLER_NOT_FOUND
    replicas = known[key]
    counted = mine.kind in ("ReplicationController", "ReplicaSet")
    return Blocking.MIN_REPLICAS if counted and replicas is not None and replicas < scene.settings.min_replicas else None


def _looked_up(nature: PodNature, mine: PodOwner) -> bool:
    if is_daemon(nature):
        return mine.kind == "DaemonSet" and mine.group == APPS
    return mine.kind in ("ReplicationController", "ReplicaSet", "Job") or (mine.kind == "StatefulSet" and mine.group == APPS)


def _finished(pod: SchedulablePod) -> bool:
    return pod.phase == "Failed" or (pod.phase == "Succeeded" and pod.nature.restart_policy in ("Never", "OnFailure"))


def _replicated(nature: PodNature, scene: DrainContext) -> bool:
    """Whether a controller recreates the pod elsewhere."""
    mine = controller(nature.owners)
    known = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")
    return mine is not None and (not scene.settings.skip_custom_controllers or mine.kind in known)


def _protection(pod: SchedulablePod, scene: DrainContext) -> DrainVerdict:
    """A controller, system pods, the annotation, and local storage, in this order; then only the disruption budgets are left."""
    settings, nature = scene.settings, pod.nature
    if not _replicated(nature, scene):
        return DrainVerdict(PodDrain.BLOCK, Blocking.NOT_REPLICATED)
    if pod.namespace == SYSTEM and settings.skip_system and not scene.budgets.of(nature):
        # Upstream's bsp-disruption-timeout: a system pod without a budget does not keep its node for ever.
        young = scene.now - pod.created <= settings.system_pods_block
        return DrainVerdict(PodDrain.BLOCK, Blocking.SYSTEM) if young else DrainVerdict(PodDrain.MOVE)
    if opted_out(nature.annotations, POD_OPT_OUTS):
        return DrainVerdict(PodDrain.BLOCK, Blocking.NOT_SAFE)
    if settings.skip_local_storage and _stores(nature):
        return DrainVerdict(PodDrain.BLOCK, Blocking.LOCAL_STORAGE)
    return DrainVerdict(PodDrain.MOVE, protected=True)


def _stores(nature: PodNature) -> bool:
    """Whether a pod has local data that its annotation does not give up."""
    given_up = nature.annotations.get(SAFE_VOLUMES, "").split(",")
    return any(name not in given_up for name in nature.local)


# How many nodes may go at once: numbers of empty ones and of ones that must be drained, with what is on its way counted in.


@dataclass(frozen=True, slots=True)
class DeletionParallelism:
    """Most deletions at once, and most of them that drain a node. Source: max-scale-down-parallelism, max-drain-parallelism."""

    total: int = 10
    drain: int = 1


@dataclass(frozen=True, slots=True)
class RunningDeletions:
    """Deletions on their way."""

    empty: int = 0
    drain: int = 0


def crop_to_parallelism(
    empty: Sequence[str], drain: Sequence[str], most: DeletionParallelism, running: RunningDeletions
) -> tuple[list[str], list[str]]:
    """The first of the empty and of the draining nodes that the budget leaves; empty ones go first.

    Source: CropNodesToBudgets in core/scaledown/budgets.
    """
    # More may be on their way than there may be now, after the setting was lowered.
    total = max(most.total - running.empty - running.drain, 0)
    chosen = list(empty[:total])
    draining = max(min(total - len(chosen), most.drain - running.drain), 0)
    return chosen, list(drain[:draining])


def most_unneeded(previous: int, parallelism: int, unneeded_time: float, interval: float) -> int:
    """How many unneeded nodes are worth looking for, so that enough are ripe when their time has come.

    `interval`: the shortest time between two looks. Source: unneededNodesLimit in core/scaledown/planner.
    """
    looks = math.floor(max(unneeded_time, interval) / interval) if interval > 0 else 1
    return min(previous + 2 * parallelism, parallelism * looks + parallelism)
