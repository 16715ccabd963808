"""What the updater remembers of a pod, a workload and a cluster: recommendations, reverts, plans, refusals, and turns.

The values are frozen; their fields stand in checkpoints.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isclose

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Turn
from agents.logic.guards.shared_guards import doubled
from agents.logic.updates.eviction_tolerance import PodsBefore
from agents.logic.updates.target_turns import TargetTurns
from agents.logic.updates.update_settings import UpdateSettings
from schemas.decisions.recommendations import ContainerRecommendation, TargetCuts
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, Place, cluster_of
from schemas.outcomes import Action
from schemas.policies.control import RevertRequested
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class NewestRecommendation:
    """The recommendation of a workload with the highest turn; in the log an older one may follow it."""

    id: str
    turn: int
    at: datetime
    place: Place
    containers: tuple[ContainerRecommendation, ...]
    reverted: RevertRequested | None = None
    """The revert that replaces it."""
    cuts: TargetCuts = TargetCuts()


@dataclass(frozen=True, slots=True)
class RevertRecord:
    """A revert in force, and its place in the log."""

    event: RevertRequested
    place: Place

    def recommendation(self, now: int) -> NewestRecommendation:
        """What is to be put back, in the form of a recommendation, which never becomes stale."""
        former = self.event.requests.items()
        containers = tuple(ContainerRecommendation(name, amounts, amounts, amounts, amounts) for name, amounts in former)
        return NewestRecommendation("", now, self.event.at, self.place, containers, reverted=self.event)


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """A plan that has no final outcome yet. `expires` is the last turn in which it may still be carried out.

    `done`: the cluster accepted an eviction, and the pod is on its way out. `expect`: what the pod requested. `asks`: what it or
    its successor is to request. `disrupts`: it stops a container; a pod that is resized without a restart serves on, however long
    it takes. `unboosts`: the containers whose startup boost it ends. `before`: the pods of its workload before an eviction.
    """

    id: str
    action: Action
    expires: int
    done: bool = False
    expect: Mapping[str, Amounts] = field(default_factory=dict)
    asks: Mapping[str, Amounts] = field(default_factory=dict)
    disrupts: bool = True
    unboosts: tuple[str, ...] = ()
    before: PodsBefore = PodsBefore()


@dataclass(frozen=True, slots=True)
class RefusedResize:
    """The last resize of a pod that came to nothing: in turn `at`, for this reason, as the `count`th in a row.

    `undone`: it was in force, and somebody else changed the pod again.
    """

    at: int
    reason: str
    count: int
    undone: bool = False

    def pause(self) -> float:
        """Seconds until the next one is tried: a minute, twice as many after each further one, up to an hour (undone: a day)."""
        # A refusal may end with a quota; whoever undoes each resize goes on until people end it.
        return doubled(60.0, self.count, longest=86_400.0 if self.undone else 3600.0)


@dataclass(frozen=True, slots=True)
class PodHistory:
    """What the updater did about a pod, and the result. Times are turn numbers.

    `acted`: the last plan; `resizing`: the first turn in which a resize was seen under way; `infeasible`: the requests that the
    pod's node could never hold; `unboosted`: the containers whose startup boost was ended; `tried`: those whose boost the last
    plan was to end; `refused`: its last resizes, if they came to nothing; `gave`: what the last one that was done asked for;
    `turns`: what those that stopped a container were for.
    """

    plan: OpenPlan | None = None
    acted: int | None = None
    resize_failed: bool = False
    resizing: int | None = None
    infeasible: Mapping[str, Amounts] = field(default_factory=dict)
    unboosted: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    refused: RefusedResize | None = None
    gave: Mapping[str, Amounts] = field(default_factory=dict)
    turns: TargetTurns = TargetTurns()

    def with_plan(self, plan: OpenPlan, now: int, requests: Mapping[str, Amounts]) -> "PodHistory":
        """With a new plan for the pod, which requests this now."""
        refused = self.refused if self.refused is None or not self.refused.undone else None
        # It is looked at now and not when the pod changes, for the fact that shows a resize may come after its outcome.
        if any(_differ(given, requests.get(name, Amounts())) for name, given in self.gave.items()):
            count = 1 if self.refused is None else self.refused.count + 1
            refused = RefusedResize(
                now, "somebody else changed the requests again, as a second autoscaler would", count, undone=True
            )
        return replace(self, plan=plan, acted=now, tried=plan.unboosts, refused=refused, gave={})

    def resized(self, plan: OpenPlan, now: int) -> "PodHistory":
        """After a resize that is done."""
        ended, refused = (*self.unboosted, *plan.unboosts), self.refused
        kept = refused if refused is not None and refused.undone else None
        turns = self.turns.after(plan.expect, plan.asks, now) if plan.disrupts else self.turns
        return replace(
            self, plan=None, resize_failed=False, infeasible={}, unboosted=ended, refused=kept, gave=plan.asks, turns=turns
        )

    def without_resize(self, reason: str, now: int) -> "PodHistory":
        """After a resize that was refused, or that failed."""
        count = 1 if self.refused is None else self.refused.count + 1
        return replace(self, plan=None, refused=RefusedResize(now, reason, count))

    def has_plan(self, now: int) -> bool:
        """Whether a plan for the pod may still be carried out, or was carried out and the pod is on its way out."""
        # A pod whose eviction the cluster accepted goes, however late we are told of it.
        return self.plan is not None and (now <= self.plan.expires or (self.plan.done and self.plan.action is Action.EVICT))

    @property
    def evicts(self) -> bool:
        """Whether the last plan is an eviction."""
        return self.plan is not None and self.plan.action is Action.EVICT

    @property
    def to_evict(self) -> bool:
        """Whether it is one that the cluster has not accepted yet."""
        return self.plan is not None and self.evicts and not self.plan.done

    def disrupts(self, now: int) -> bool:
        """Whether such a plan stops a container of the pod."""
        return self.plan is not None and self.plan.disrupts and self.has_plan(now)


def _differ(given: Amounts, present: Amounts) -> bool:
    """Whether an amount that was given is another now, by more than rounding."""
    pairs = (given.cpu, present.cpu), (given.memory, present.memory)
    return any(gave is not None and not isclose(gave, now or 0.0, rel_tol=0.01) for gave, now in pairs)


@dataclass(frozen=True, slots=True)
class RefusedPods:
    """How many pods of a workload each guard held back when it was said last.

    `gone`: the first turn in which a guard that is not forgotten yet held nothing back any more. `said`: the turn in which a
    guard was said last that is said again while it lasts.
    """

    guards: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    said: Mapping[str, int] = field(default_factory=dict)


NO_HISTORY = PodHistory()
NONE_REFUSED = RefusedPods()


@dataclass(frozen=True, slots=True)
class TurnsTaken:
    """The first and the last turn that were taken."""

    first: int
    turn: int


@dataclass(frozen=True, slots=True)
class PlansMade:
    """How many evictions and resizes were planned for a cluster in the interval that began with the turn `since`."""

    # Counts and not pods: what is known of a pod is forgotten with it, and an evicted one may be gone before its interval ends.

    since: int
    evictions: int = 0
    resizes: int = 0

    def of(self, action: Action) -> int:
        """The plans of one kind."""
        return self.resizes if action is Action.RESIZE else self.evictions

    def one_more(self, action: Action) -> "PlansMade":
        """The same after another plan."""
        resized = action is Action.RESIZE
        return PlansMade(self.since, self.evictions + (not resized), self.resizes + resized)


@dataclass(frozen=True, slots=True)
class LastPodFact:
    """The last turn that held a fact about a pod of a cluster, and the last in which a source reported that it sees the pods.

    `reported` is None where no source has ever reported: then nothing but the facts shows that somebody looks.
    """

    seen: int
    reported: int | None = None

    def sign_of_life(self, settings: UpdateSettings) -> tuple[str, int, Seconds]:
        """What shows that the pods are still looked at, the turn in which that was seen last, and for how long it counts."""
        if self.reported is None:
            return "pod fact", self.seen, settings.facts_within
        return "report of a source that sees pods", self.reported, settings.reports_within


class PodFactTurns:
    """When the pods of each cluster were seen last."""

    def __init__(self) -> None:
        self.table: ObjectTable[LastPodFact] = ObjectTable("facts", LastPodFact, 1)

    def pod_seen(self, cluster: str, turn: int) -> None:
        """There is a fact about a pod of a cluster."""
        last = self.table.get(cluster) or LastPodFact(turn)
        self.table.upsert(cluster, replace(last, seen=turn))

    def ingest_reports(self, turn: Turn) -> None:
        """Take in the reports of sources."""
        for recorded in turn.of("cluster-changes"):
            event = recorded.event
            # Every partition hears of the sources of all clusters, and has pods of its own clusters only.
            last = self.table.get(event.cluster) if isinstance(event, SourceReported) else None
            if isinstance(event, SourceReported) and last is not None and "pod-changes" in event.sees:
                self.table.upsert(event.cluster, replace(last, reported=turn.number))


# The pods of each workload, those killed for lack of memory, and the workloads of each controller; all follow from the pods.


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The newest fact about a pod, without its labels, and its place in the log."""

    fact: PodChanged
    place: Place


class PodsByWorkload:
    """Finds pods by workload. `of` has them by workload key and uid.

    `killed` has the uids of those of which a container's last run ended by an OOM kill, by workload key.
    """

    def __init__(self, pods: Iterable[PodRecord] = ()) -> None:
        self.of: dict[str, dict[str, PodRecord]] = {}
        self.killed: dict[str, set[str]] = {}
        self._controllers: dict[str, Counter[str]] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: PodRecord) -> None:
        """A pod that the index does not have yet."""
        workload = pod.fact.workload.key
        self.of.setdefault(workload, {})[pod.fact.pod.uid] = pod
        if any(seen.last_run is not None and seen.last_run.killed_for_memory for seen in pod.fact.containers):
            self.killed.setdefault(workload, set()).add(pod.fact.pod.uid)
        if pod.fact.controller:
            self._controllers.setdefault(controller_key(workload, pod.fact.controller), Counter())[workload] += 1

    def remove(self, pod: PodRecord) -> bool:
        """Take a pod out; whether it was the last one of its workload."""
        workload = pod.fact.workload.key
        pods = self.of[workload]
        del pods[pod.fact.pod.uid]
        if (killed := self.killed.get(workload)) is not None:
            killed.discard(pod.fact.pod.uid)
            if not killed:
                del self.killed[workload]
        if pod.fact.controller:
            key = controller_key(workload, pod.fact.controller)
            workloads = self._controllers[key]
            workloads[workload] -= 1
            if not workloads[workload]:
                del workloads[workload]
            if not workloads:
                del self._controllers[key]
        if not pods:
            del self.of[workload]
        return not pods

    def workloads_of(self, controller: str) -> Collection[str]:
        """The workloads whose pods a controller has, by `cluster/namespace/kind/name`."""
        return self._controllers.get(controller, {}).keys()


def controller_key(workload: str, controller: str) -> str:
    """The key of a direct controller (`kind/name`) of a workload's pods."""
    namespace = workload.split("/", 2)[1]
    return f"{cluster_of(workload)}/{namespace}/{controller}"


@dataclass(slots=True)
class ChangedWorkloads:
    """The workloads that changed since the last query: `keys`, or `all` by a policy that names many. It is no state."""

    keys: set[str] = field(default_factory=set)
    all: bool = True

    def clear(self) -> None:
        """The changes were read."""
        self.keys.clear()
        self.all = False
