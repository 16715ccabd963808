"""How many pods of a replica group may be disturbed at a time, by eviction or in place: upstream's arithmetic.

A group is the pods of one workload that have one direct controller, so that during a rollout the old and the new ReplicaSet are
a group each. Source: upstream's pkg/updater/restriction. Time is an argument.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards.shared_guards import doubled
from agents.logic.updates.target_turns import TargetTurns
from schemas import admission_pauses, times
from schemas.admission_pauses import AdmissionPause
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodPhase, ResizeState
from schemas.names import Amounts
from schemas.outcomes import ActionFinished
from schemas.policies.vertical import UpdateMode

SIZED = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet"})
"""Kinds of controllers that say how many pods they want."""
_IN_PLACE_MODES = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


@dataclass(frozen=True, slots=True)
class ConfiguredReplicas:
    """How many pods a controller wants; None where it does not say. `refusal`: why it cannot make pods, empty while it can.

    `workload`: the key of the workload whose pods they are, as far as its owner shows.
    """

    replicas: int | None
    refusal: str = ""
    workload: str = ""
    last_failure: str = ""
    """Why a Job would fail if one more of its pods were evicted; empty where it would not."""


@dataclass(frozen=True, slots=True)
class DisruptionRules:
    """Upstream's flags and constants. `min_replicas` is the VPA's where it names one.

    A resize that the kubelet defers for longer than `deferred_for`, or that is under way for longer than `resizing_for`, may be
    given up for an eviction. `strict`: as upstream, the wanted number of pods counts as unknown for controllers of other kinds,
    so only a PodDisruptionBudget protects their pods; without it they want as many as they have.
    """

    min_replicas: int = 2
    tolerance: float = 0.5
    skip_budget: bool = False
    deferred_for: timedelta = timedelta(minutes=5)
    resizing_for: timedelta = timedelta(hours=1)
    strict: bool = False

    def overdue(self, resize: ResizeState, resizing_for: timedelta) -> bool:
        """Whether a resize that was asked for, first seen so long ago, has failed or takes too long."""
        match resize:
            case ResizeState.NONE:
                return False
            case ResizeState.DEFERRED:
                return resizing_for > self.deferred_for
            case ResizeState.IN_PROGRESS:
                return resizing_for > self.resizing_for
            case _:
                return True


@dataclass(slots=True)
class ReplicaCounts:
    """The pods of one controller, named as `kind/name`; an empty name means no or an unknown controller.

    `wanted` is what the controller wants, None if unknown. `members` have not ended and are not being deleted; `live` ones have a
    node, `running` ones are not pending, and for `begun` ones a change was begun that stops a container. `boosted`: one of them
    has a startup boost. `serving` ones run without failing again and again, `ready` ones say that they are ready, and `unready`
    ones are successors that do not say so yet; `leaving` ones are being deleted. `begun_down`: those of `begun` that do not
    serve, `killed` ones have a container that was killed for want of memory and is not ready. `most`: how many were seen at
    most of late.
    """

    controller: str
    wanted: ConfiguredReplicas | None = None
    members: int = 0
    live: int = 0
    running: int = 0
    begun: int = 0
    boosted: bool = False
    serving: int = 0
    ready: int = 0
    leaving: int = 0
    begun_down: int = 0
    unready: int = 0
    most: int = 0
    killed: int = 0

    @property
    def kind(self) -> str:
        """The kind of the controller; empty for an unknown one."""
        return self.controller.partition("/")[0]

    def configured(self, *, strict: bool) -> int | None:
        """How many pods the controller should have; None if it wants none, so that they must be left alone.

        For an unknown controller it is the present number, or what was seen of late; `strict` as in `DisruptionRules`.
        """
        kind = self.kind
        # Upstream: a Job has no count of replicas, and its live pods count instead.
        if kind == "Job" and (strict or not self.known):
            return self.live
        if strict and kind and kind not in SIZED:
            return 0
        if self.wanted is None or self.wanted.replicas is None:
            return self.members if strict else max(self.members, self.most)
        return self.wanted.replicas or None

    @property
    def known(self) -> bool:
        """Whether the controller said how many pods it wants."""
        return self.wanted is not None and self.wanted.replicas is not None

    @property
    def should_be(self) -> int:
        """How many pods should be there: those that are, and those that are missing."""
        if self.wanted is not None and self.wanted.replicas is not None:
            return max(self.members, self.wanted.replicas)
        return max(self.members, self.most)

    @property
    def missing(self) -> int:
        """How many pods the controller wants beyond those that are there."""
        return self.should_be - self.members


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """One group at one moment; of `begun` a change was begun. One `below_minimum` is only there to be changed in place."""

    configured: int
    running: int
    begun: int = 0
    tolerance: float = 0.5
    below_minimum: bool = False

    @property
    def undisturbed(self) -> int:
        """The running pods without a change that was begun."""
        return self.running - self.begun

    @property
    def disruptable(self) -> bool:
        """Whether enough are alive for one more to go."""
        tolerated = int(self.configured * self.tolerance)
        # Of a group so small that no whole pod is tolerated, one may go while all are there: else it could never be changed.
        whole = self.configured == self.running and tolerated == 0 and self.begun == 0
        return self.undisturbed > self.configured - tolerated or whole


def is_there(pod: PodChanged) -> bool:
    """Whether a pod has not ended and is not being deleted."""
    # A pod that is being deleted has a successor already, or needs none.
    return pod.phase not in ENDED_PHASES and not pod.leaving


def is_failing(pod: PodChanged) -> bool:
    """Whether a container of a pod has ended before and is not ready now: it fails again and again, or is just starting anew."""
    return any(container.restarts and not container.ready for container in pod.containers)


def serves(pod: PodChanged) -> bool:
    """Whether a pod runs, and no container of it fails."""
    # Not whether it is ready, because many pods say nothing of readiness.
    return pod.phase is PodPhase.RUNNING and not is_failing(pod)


def group(
    counts: ReplicaCounts, mode: UpdateMode, rules: DisruptionRules, *, boosted: bool = False, down: bool = False
) -> ReplicaGroup | None:
    """The group of these pods; None if none of them may be disturbed. `boosted`: it is asked for to end a startup boost.

    `down`: it is asked for a pod that serves nobody, so that others of its kind count as if they served, as they do upstream.
    """
    configured = counts.configured(strict=rules.strict)
    in_place = mode in _IN_PLACE_MODES and rules.skip_budget
    too_few = counts.live < rules.min_replicas
    if configured is None or (too_few and not in_place and not boosted):
        return None
    if rules.strict or down:
        return ReplicaGroup(configured, counts.running, counts.begun, rules.tolerance, too_few and in_place)
    begun = counts.begun - counts.begun_down
    return ReplicaGroup(configured, counts.serving, begun, rules.tolerance, too_few and in_place)


def replica_counts(
    pods: Iterable[PodChanged], wanted: Callable[[str], ConfiguredReplicas | None], begun: Callable[[str], int]
) -> dict[str, ReplicaCounts]:
    """The pods of a workload by controller; `wanted` is asked for what each wants, `begun` for the changes begun of its pods."""
    groups: dict[str, ReplicaCounts] = {}
    for pod in pods:
        if pod.phase in ENDED_PHASES:
            continue
        counts = groups.get(pod.controller)
        if counts is None:
            controller = pod.controller
            counts = groups[controller] = ReplicaCounts(controller, wanted(controller), begun=begun(controller))
        if pod.leaving:
            counts.leaving += 1
            continue
        pending = pod.phase is PodPhase.PENDING
        counts.members += 1
        counts.live += not pending or pod.node is not None
        counts.running += not pending
        counts.boosted |= bool(pod.boosted)
        counts.serving += serves(pod)
        counts.killed += any(container.broken for container in pod.containers)
        counts.ready += bool(pod.containers) and all(container.ready for container in pod.containers)
    return groups


# The last eviction of a workload, and what the next new pod shows: whether anything gives new pods other requests.
# Without that an eviction changes nothing, and the next one would change nothing either.

_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class PodsBefore:
    """How many pods a workload had before an eviction: that were there, that served, and that were ready."""

    there: int = 0
    serving: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadEviction:
    """The last pod of a workload that was evicted for us, gone or going in turn `at`: what it requested, and how the next came.

    `fault` says what is wrong with that one, empty while none has come or it is right; `judged` when that was found. `before`:
    the pods of the workload before it, of which there should be as many again. `vain`: after how many evictions in a row the
    next pod had a fault, this one among them. `turns`: what these evictions were for.
    """

    at: int
    expect: Mapping[str, Amounts]
    judged: int | None = None
    fault: str = ""
    before: PodsBefore = PodsBefore()
    vain: int = 0
    turns: TargetTurns = TargetTurns()

    def judge(self, fault: str, now: int) -> "WorkloadEviction":
        """With what a new pod showed."""
        # Of an eviction that was followed by several pods with a fault, one counts.
        again = self.judged is not None and bool(self.fault)
        return replace(self, judged=now, fault=fault, vain=self.vain + (not again) if fault else 0)

    def denied(self, pod: str, reason: str, now: int) -> "WorkloadEviction":
        """With an eviction that the API server denied, such as for an operator's webhook, which would deny the next one, too."""
        return replace(self, judged=now, fault=f"pod '{pod}' could not be evicted: {reason}", vain=self.vain + 1)

    def pause(self, first: float) -> float:
        """Seconds until the next pod is tried: `first` after one in vain, twice as many after each further one, up to a day."""
        return doubled(first, self.vain, longest=max(first, _A_DAY)) if self.vain else 0.0


def fault(pod: PodChanged, evicted: WorkloadEviction, targets: Mapping[str, ContainerRecommendation]) -> str:
    """What is wrong with a new pod's requests; empty if nothing is. `targets` is what admission would give it, by container."""
    name, boosted = pod.pod.name, {container.name for container in pod.boosted}
    seen = {c.name: c.requests for c in pod.containers if c.name in evicted.expect}
    if seen == evicted.expect and not boosted:
        return f"pod '{name}' came back as the evicted one was: nothing changes the requests of new pods"
    if all(
        container in targets and _within(targets[container], requests, boosted=container in boosted)
        for container, requests in seen.items()
    ):
        return ""
    return f"pod '{name}' came back with requests that nobody recommended: somebody else changes them"


def _within(recommended: ContainerRecommendation, asked: Amounts, *, boosted: bool) -> bool:
    """Whether requests lie within the bounds of a recommendation."""
    low, high = recommended.lower, recommended.upper
    # The CPU of a boosted container lies above them by design.
    memory = (low.memory, asked.memory, high.memory)
    bounds = (memory,) if boosted else ((low.cpu, asked.cpu, high.cpu), memory)
    return all(
        (least is None or (value or 0) >= least) and (most is None or (value or 0) <= most) for least, value, most in bounds
    )


class UnpatchedWorkloads:
    """The newest pause in which the webhook leaves new pods of a workload as they are, because patched ones did not come.

    One that is over stays, as it makes the next one longer.
    """

    def __init__(self) -> None:
        self.table: ObjectTable[AdmissionPause] = ObjectTable("unpatched", AdmissionPause, 16)

    def ingest(self, event: ActionFinished) -> None:
        """Take in an outcome about a pod."""
        workload = event.subject.workload
        before = self.table.get(workload)
        pause = admission_pauses.after(before, event)
        if pause is None:
            self.table.remove(workload)
        elif pause != before:
            self.table.upsert(workload, pause)

    def pause(self, workload: str, now: int) -> AdmissionPause | None:
        """The pause that holds in turn `now`; None if new pods are patched."""
        pause = self.table.get(workload)
        return None if pause is None or not pause.holds(times.from_ms(now)) else pause

    def forget(self, now: datetime) -> None:
        """Forget pauses that make no later one longer."""
        over = [key for key, pause in self.table.items() if now - pause.since >= admission_pauses.REMEMBERED]
        for key in over:
            self.table.remove(key)
