"""The rules by which a VPA object gets its conditions.

Rules and texts are upstream's (pkg/recommender/model, vpa.go), but for the conditions of a loop of OOM kills and of outdated
facts, which are ours. A condition keeps the time of its last flip.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from agents.logic.governing_policies import container_policy
from agents.logic.guards.guard_records import in_words
from agents.logic.resources.target_caps import TargetBound, beyond_advice, memory_bound, unhelped
from schemas import times
from schemas.bounds import MOST_ON_ONE_TARGET
from schemas.decisions.recommendations import ContainerRecommendation, TargetCuts
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase, ResizeState
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues, UpdateMode
from schemas.policies.vpa import VpaChanged
from schemas.units import Bytes

NO_PODS_REASON = "NoPodsMatched"
NO_PODS_MESSAGE = "No pods match this VPA object"


@dataclass(frozen=True, slots=True)
class TargetKnowledge:
    """The known state of a VPA's target. `pods` is None while no source reports pods.

    `containers` is the recommendation: empty for none, None while it is unknown. `rival` is `namespace/name` of the VPA that
    governs the target instead of this one, if any. `crowded`: so many VPAs have this target that this one is ignored.
    `bound`: what keeps a loop of OOM kills going, None where there is no such loop. `blind_since`: the last turn in which a
    source saw the pods of the cluster, where that was too long ago.
    """

    pods: int | None = None
    containers: Sequence[ContainerRecommendation] | None = ()
    rival: str = ""
    crowded: bool = False
    bound: TargetBound | None = None
    blind_since: int | None = None


def conditions(
    vpa: VpaChanged, target: TargetKnowledge, before: Sequence[DecidedCondition], at: datetime
) -> tuple[DecidedCondition, ...]:
    """The conditions of a VPA in the order of their types. `before`: those that were decided last; `at`: now."""
    now = at.replace(microsecond=0)  # metav1.Time has whole seconds, and a condition that is read back must equal this one
    since = {condition.type: condition for condition in before}
    governed = _crowded(vpa) if target.crowded else _rivalled(vpa, target.rival)
    unsupported = vpa.unsupported or governed
    pods = 0 if unsupported else target.pods
    # A VPA whose target another one governs says so, instead of claiming that no pods match.
    no_pods = _status(None if pods is None else pods == 0 and (not governed or bool(vpa.unsupported)))
    # While it is unknown whether there are pods, the last condition stays.
    if pods is None and ConditionType.NO_PODS in since:
        no_pods = since[ConditionType.NO_PODS].status
    provided = _status(None if target.containers is None and not target.rival else bool(target.containers))
    missing = provided is not ConditionStatus.TRUE and no_pods is ConditionStatus.TRUE
    reasons = {True: (NO_PODS_REASON, NO_PODS_MESSAGE), False: ("", "")}
    # Upstream has neither of these two conditions, so nothing is said of them before they are true for the first time.
    limited = _memory_limited(target.bound, now) if target.bound or ConditionType.MEMORY_LIMITED in since else ()
    blind = _facts_outdated(target.blind_since, now) if target.blind_since or ConditionType.FACTS_OUTDATED in since else ()
    decided = (
        DecidedCondition(ConditionType.UNSUPPORTED, _status(bool(unsupported)), now, "", unsupported),
        DecidedCondition(ConditionType.NO_PODS, no_pods, now, *reasons[no_pods is ConditionStatus.TRUE]),
        DecidedCondition(ConditionType.PROVIDED, provided, now, *reasons[missing]),
        *limited,
        *blind,
    )
    return tuple(_keep_time(condition, since.get(condition.type)) for condition in decided)


def shown(vpa: VpaChanged, recommended: Sequence[ContainerRecommendation]) -> tuple[ContainerRecommendation, ...]:
    """The recommendation that a status shows, by container name, without containers that the VPA has switched off since."""
    # When a VPA switches off all of its containers, the recommender decides nothing about them any more.
    modes = {entry.container: entry.mode for entry in vpa.containers}
    recommendations = [entry for entry in recommended if modes.get(entry.container, modes.get("*")) is not ContainerMode.OFF]
    return tuple(sorted(recommendations, key=lambda entry: entry.container))


def _memory_limited(bound: TargetBound | None, now: datetime) -> tuple[DecidedCondition]:
    texts = ("", "") if bound is None else (bound.reason, bound.clause)
    return (DecidedCondition(ConditionType.MEMORY_LIMITED, _status(bound is not None), now, *texts),)


def _facts_outdated(seen: int | None, now: datetime) -> tuple[DecidedCondition]:
    reason, message = "", ""
    if seen is not None:
        reason = "NoSource"
        message = f"No source has seen the pods since {times.rfc3339(times.from_ms(seen))}, so nothing is planned for them"
    return (DecidedCondition(ConditionType.FACTS_OUTDATED, _status(seen is not None), now, reason, message),)


def _status(holds: bool | None) -> ConditionStatus:
    if holds is None:
        return ConditionStatus.UNKNOWN
    return ConditionStatus.TRUE if holds else ConditionStatus.FALSE


def _rivalled(vpa: VpaChanged, rival: str) -> str:
    ref = vpa.target_ref
    if not rival or ref is None:
        return ""
    return f"The targetRef '{ref.kind}/{ref.name}' is governed by the VPA '{rival}' already"


def _crowded(vpa: VpaChanged) -> str:
    ref = vpa.target_ref
    name = "" if ref is None else f"{ref.kind}/{ref.name}"
    return (
        f"More than {MOST_ON_ONE_TARGET} VPAs have the targetRef '{name}'; this one is not among the oldest and is not looked at"
    )


def _keep_time(new: DecidedCondition, old: DecidedCondition | None) -> DecidedCondition:
    if old is None or old.status is not new.status:
        return new
    return DecidedCondition(new.type, new.status, old.since, new.reason, new.message)


# OOM kills of containers whose memory nobody raises, and what is in the way.
# A loop of kills is answered with more memory within minutes. Where a container is killed under the same amounts for longer than
# that, somebody has to change a bound, and the status of its VPA says which, or an event where there is no VPA.

ANSWERED_WITHIN = timedelta(minutes=15)
"""Kills under the same amounts over so long a time have no answer. The kubelet waits 5 minutes at most between two starts."""
FORGOTTEN = timedelta(hours=1)
"""After so long a time without a kill, a loop is over. A container may need a while until it is killed again."""


class GoverningPolicy(Protocol):
    """What governs a workload, be it a VPA object or a policy of our own."""

    @property
    def update_mode(self) -> UpdateMode | None:
        """How pods are changed; None as a VPA without a mode has it."""

    @property
    def containers(self) -> tuple[ContainerPolicy, ...]:
        """The rules of single containers."""


@dataclass(frozen=True, slots=True)
class UnansweredKills:
    """OOM kills of one container of a pod under the memory that it has now.

    `last` is the end of its last run. `first` is None as long as that was killed under other amounts. `init`: it is an init
    container. `resize` is that of the pod. `pod_limit`: the limit of the pod itself, where the container has none. `before`: when
    the pod before was killed, of a workload whose pods end by such a kill; None of a pod that runs on.
    """

    container: str
    request: Bytes | None
    limit: Bytes | None
    first: datetime | None
    last: datetime
    init: bool = False
    resize: ResizeState = ResizeState.NONE
    before: datetime | None = None
    pod_limit: Bytes | None = None

    def goes_on(self, at: datetime) -> bool:
        """Whether it is a loop, still at the time `at`."""
        # A nightly job is killed once a night.
        rhythm = timedelta() if self.before is None else 2 * (self.last - self.before)
        return self.first is not None and self.last - self.first >= ANSWERED_WITHIN and at - self.last < max(FORGOTTEN, rhythm)


def seen_in(pod: PodChanged, before: Iterable[UnansweredKills]) -> tuple[UnansweredKills, ...]:
    """The kills of a pod's containers. `before`: those that were known of it."""
    former = {kills.container: kills for kills in before}
    return tuple(
        _in(pod, seen, _kills(pod, seen, seen.last_run.ended, former.get(seen.name)))
        for seen in (*pod.containers, *pod.init_containers)
        if seen.last_run is not None and seen.last_run.killed_for_memory
    )


def _in(pod: PodChanged, seen: ContainerSeen, kills: UnansweredKills) -> UnansweredKills:
    """The kills with what holds of their container in its pod."""
    return replace(kills, init=seen in pod.init_containers, pod_limit=pod.limit_beside(seen))


def of_ended_pods(pod: PodChanged, before: Iterable[UnansweredKills]) -> tuple[UnansweredKills, ...]:
    """The kills that ended pods of a workload, each of which was made anew, after another pod of it changed.

    `before`: those that were known. A pod of a Job, say, is never restarted but followed by another one, so that no pod has two.
    """
    kills = {former.container: former for former in before}
    ended = pod.phase is PodPhase.FAILED
    for seen in (*pod.containers, *pod.init_containers):
        former, run = kills.get(seen.name), seen.last_run
        same = former is not None and (former.request, former.limit) == (seen.requests.memory, seen.limits.memory)
        if ended and run is not None and run.killed_for_memory:
            if former is None or run.ended > former.last:
                first = former.first if former is not None and same else run.ended
                previous = former.last if former is not None and same else run.ended
                amounts = seen.requests.memory, seen.limits.memory
                kills[seen.name] = _in(pod, seen, UnansweredKills(seen.name, *amounts, first, run.ended, before=previous))
        # A newer pod that ended well, or has other amounts, is an answer.
        elif former is not None and pod.created > former.last and (not same or pod.phase is PodPhase.SUCCEEDED):
            del kills[seen.name]
    return tuple(kills[name] for name in sorted(kills))


def _kills(pod: PodChanged, seen: ContainerSeen, ended: datetime, before: UnansweredKills | None) -> UnansweredKills:
    first: datetime | None = ended
    if before is not None and (before.request, before.limit) != (seen.requests.memory, seen.limits.memory):
        first = None  # which amounts the last run had, nobody says
    elif before is not None:
        # The same run is reported with every change of the pod; only another end is another kill.
        first = before.first or (ended if ended != before.last else None)
    return UnansweredKills(seen.name, seen.requests.memory, seen.limits.memory, first, ended, resize=pod.resize)


@dataclass(frozen=True, slots=True)
class LoopKnowledge:
    """The known state of a workload with kills: what is recommended, what cut that, and which guard holds its pod, and why."""

    containers: Sequence[ContainerRecommendation] = ()
    cuts: TargetCuts = TargetCuts()
    guard: str = ""
    reason: str = ""


def condition_of(
    policy: GoverningPolicy, kills: Iterable[UnansweredKills], known: LoopKnowledge, at: datetime
) -> TargetBound | None:
    """What a status says of the first container, by name, that is killed in a loop; None where none is."""
    loop = min((kill for kill in kills if kill.goes_on(at)), key=lambda kill: kill.container, default=None)
    if loop is None:
        return None
    bound, beginning = _bound(policy, loop, known), unhelped(loop.container)
    return TargetBound(bound.reason, f"{beginning[0].upper()}{beginning[1:]}: {bound.clause}")


def _bound(governing: GoverningPolicy, loop: UnansweredKills, known: LoopKnowledge) -> TargetBound:
    advised = next((entry for entry in known.containers if entry.container == loop.container), None)
    policy = container_policy(governing.containers, loop.container)
    # No recommendation is made for init containers, by upstream as by us, nor for pods as a whole, so none of the rest can be the
    # cause.
    if (beyond := beyond_advice(loop.pod_limit, init=loop.init)) is not None:
        return beyond
    # Pods that end are followed by others, to which mode Initial gives what is recommended.
    if governing.update_mode is UpdateMode.OFF or (governing.update_mode is UpdateMode.INITIAL and loop.before is None):
        return TargetBound("UpdateMode", f"the update mode '{governing.update_mode}' leaves running pods alone")
    if loop.resize is not ResizeState.NONE:
        return TargetBound("ResizePending", f"a resize of its pod is not done; the kubelet calls it '{loop.resize}'")
    if _short(loop, advised, policy):
        # The updater's own sentence on the loop begins as the one that this becomes a part of.
        reason = known.reason.removeprefix(f"{unhelped(loop.container)}: ")
        if loop.before is not None and not known.guard:
            return TargetBound("NotApplied", "more is recommended; its new pods come without it, and `ullage plan` says why")
        return TargetBound("NotApplied", f"more is recommended; {in_words(known.guard, reason) if known.guard else _NOT_SAID}")
    return memory_bound(advised, policy, loop.limit, known.cuts)


_NOT_SAID = "its pods have not got it yet, and the updater has not said why; `ullage why-not` says more"


def _short(loop: UnansweredKills, advised: ContainerRecommendation | None, policy: ContainerPolicy) -> bool:
    """Whether its request could be raised to what is recommended."""
    wanted = None if advised is None else advised.target.memory
    if wanted is None or policy.mode is ContainerMode.OFF:
        return False
    if policy.controlled_values is ControlledValues.REQUESTS_ONLY and loop.limit:
        # A limit that stays bounds requests, too.
        wanted = min(wanted, loop.limit)
    return loop.request is None or wanted > loop.request
