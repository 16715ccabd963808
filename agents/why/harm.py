"""What ended containers and pods of a workload, and whether a change of ours did: OOM kills, other restarts, and pods that went.

Each gets a plain answer. `ours`: what killed it came with a change of ours. `not ours`: it would have come without us. `cannot be
known`: the log has lost what would show it, or what we lowered may have played a part. The judgement of a kill compares the limit
that was in force with the one that the pod's owner had asked for; docs/incidents.md has the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from agents.logic.guards.guard_records import in_words
from agents.why import event_descriptions
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaSeen, ScaleSeen
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.outcomes import Action, ActionFinished, Result

E = TypeVar("E")
_SOON = timedelta(minutes=15)
"""How long after a change of ours something that follows from it may come."""
_LATE = timedelta(minutes=1)
"""How much younger a look at an HPA may be than the end of a pod that it scaled down."""
_MOST_SINCE = 3


class Verdict(StrEnum):
    """Whether a change of ours did it."""

    OURS = "ours"
    NOT_OURS = "not ours"
    UNKNOWN = "cannot be known"


@dataclass(frozen=True, slots=True)
class Harm:
    """Something that ended. `because` is a sentence with the numbers; `before` our last change; `since` what we did then."""

    at: datetime
    pod: str
    what: str
    verdict: Verdict
    because: str
    before: str
    since: tuple[str, ...]


@dataclass(frozen=True)
class WorkloadPast:
    """What the log has of one workload, in any order. `complete_since`: from when on it has all of that; None is always."""

    events: Sequence[object]
    complete_since: datetime | None = None

    @cached_property
    def _by_kind(self) -> Mapping[type, list[Any]]:
        # Each kill and each lost pod asks for all of it, so it is sorted once.
        by_kind: dict[type, list[Any]] = {}
        for event in sorted(self.events, key=lambda event: event.at):  # type: ignore[attr-defined]  # all have a time
            by_kind.setdefault(type(event), []).append(event)
        return by_kind

    def of(self, kind: type[E]) -> Sequence[E]:
        """The events of a kind, in order of time."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_pod(self) -> Mapping[str, list[PodChanged]]:
        by_pod: dict[str, list[PodChanged]] = {}
        for fact in self.of(PodChanged):
            by_pod.setdefault(fact.pod.uid, []).append(fact)
        return by_pod

    def facts(self, uid: str) -> Sequence[PodChanged]:
        """What was seen of a pod."""
        return self._by_pod.get(uid, ())

    @cached_property
    def acts(self) -> Sequence[ActionFinished]:
        """What we did."""
        return [finished for finished in self.of(ActionFinished) if finished.result is Result.DONE]

    @cached_property
    def planned(self) -> Mapping[str, datetime]:
        """When each removal of a node, resize and scaling was planned, by the plan's id."""
        removals, resizes, scalings = self.of(NodeRemovalPlanned), self.of(ResizePlanned), self.of(ReplicasPlanned)
        plans: tuple[NodeRemovalPlanned | ResizePlanned | ReplicasPlanned, ...] = (*removals, *resizes, *scalings)
        return {plan.id: plan.at for plan in plans}


def of_workload(past: WorkloadPast) -> list[Harm]:
    """Everything that ended, in order of time."""
    harms = [kill_of(past, kill) for kill in past.of(ContainerOOMKilled)]
    harms += list(_restarts(past))
    harms += list(_gone(past))
    return sorted(harms, key=lambda harm: harm.at)


def kill_of(past: WorkloadPast, kill: ContainerOOMKilled) -> Harm:
    """An OOM kill, judged."""
    # A kill may be older than all that was seen of its pod, of which the oldest tells most then.
    facts = [fact for fact in past.facts(kill.pod.uid) if fact.at <= kill.at] or past.facts(kill.pod.uid)[:1]
    acts = [act for act in _on_pod(past, kill.pod.uid) if act.at <= kill.at or _had_begun(past, act, kill)]
    owners = _owners(facts, kill.container)
    verdict, because = _judged(past, kill, facts, owners, acts)
    later = sum(other.container == kill.container and other.at > kill.at for other in past.of(ContainerOOMKilled))
    again = "not killed again" if not later else f"{later} more kills of container '{kill.container}' in the workload"
    return Harm(
        kill.at,
        kill.pod.name,
        f"OOM kill of container '{kill.container}' in pod {kill.pod.name}",
        verdict,
        because,
        _last(past, acts),
        (*_since(past, kill.at), again),
    )


def _judged(
    past: WorkloadPast,
    kill: ContainerOOMKilled,
    facts: Sequence[PodChanged],
    owners: "_Owners | None",
    acts: Sequence[ActionFinished],
) -> tuple[Verdict, str]:
    limit, wanted = kill.memory_limit, None if owners is None else owners.limits.memory
    if owners is None or (not owners.certain and _cut(past, facts)):
        return Verdict.UNKNOWN, "the log no longer has the pod's beginning, so nothing shows whether we had changed it before"
    ours = bool(acts) or owners.noted
    if limit is None or kill.memory_used is not None:
        return _without_limit(kill, owners, ours=ours)
    if not ours and wanted is not None and limit < wanted and _may_be_planned(past, kill):
        unconfirmed = "a plan of ours asked for this limit, and no outcome says that it was done"
        return Verdict.UNKNOWN, f"it was killed at {_size(limit)}, its owner had asked for {_size(wanted)}; {unconfirmed}"
    return _at_limit(limit, wanted, ours=ours)


def _had_begun(past: WorkloadPast, act: ActionFinished, kill: ContainerOOMKilled) -> bool:
    """Whether a resize had the limit in force at which the kill came, though its outcome is younger."""
    # An outcome waits until the resize is seen in force, and a container may be killed before that.
    return any(plan.id == act.decision for plan in _plans_of_limit(past, kill))


def _may_be_planned(past: WorkloadPast, kill: ContainerOOMKilled) -> bool:
    """Whether a plan asked for the limit at which the kill came, and was not refused."""
    refused = {act.decision for act in past.of(ActionFinished) if act.result is Result.REFUSED}
    return any(plan.id not in refused for plan in _plans_of_limit(past, kill))


def _plans_of_limit(past: WorkloadPast, kill: ContainerOOMKilled) -> Iterator[ResizePlanned]:
    """The plans for a pod that had asked for the very limit at which it was killed."""
    for plan in past.of(ResizePlanned):
        if plan.pod.uid == kill.pod.uid and plan.at <= kill.at:
            amounts = plan.limits.get(kill.container)
            if amounts is not None and amounts.memory == kill.memory_limit:
                yield plan


def _at_limit(limit: float, wanted: float | None, *, ours: bool) -> tuple[Verdict, str]:
    """The limit that was in force beside the one that the pod's owner had `wanted`."""
    killed = f"it was killed at {_size(limit)}"
    if wanted is not None and limit < wanted:
        if ours:
            return Verdict.OURS, f"{killed}, and its owner had asked for a limit of {_size(wanted)}: we lowered it"
        return Verdict.NOT_OURS, f"{killed}; somebody else lowered its limit from {_size(wanted)}"
    if wanted is None and ours:
        return Verdict.UNKNOWN, f"{killed}, and its owner's own limit is not in the log"
    if wanted is not None and limit > wanted:
        return Verdict.NOT_OURS, f"{killed}, above the {_size(wanted)} that its owner had asked for"
    how = "no change of ours had moved it" if ours else "nothing of ours had changed the pod"
    return Verdict.NOT_OURS, f"{killed}, its owner's own limit; {how}"


def _without_limit(kill: ContainerOOMKilled, owners: "_Owners", *, ours: bool) -> tuple[Verdict, str]:
    # Where a node ran out of memory, a lower request makes a pod go sooner, and nothing shows by how much.
    requested, before = kill.memory_request, owners.requests.memory
    if ours and before is not None and (requested or 0) < before:
        lowered = f"we had lowered its request from {_size(before)} to {_size(requested)}, which lets it go before others"
        return Verdict.UNKNOWN, f"its node ran out of memory, not its limit; {lowered}"
    return Verdict.NOT_OURS, "its node ran out of memory, not its limit, and we had not lowered its request"


@dataclass(frozen=True, slots=True)
class _Owners:
    """What a container's owner had asked for. `noted`: by admission's note; `certain`: the pod was seen as it began."""

    requests: Amounts
    limits: Amounts
    noted: bool
    certain: bool


def _owners(facts: Sequence[PodChanged], container: str) -> _Owners | None:
    """By admission's note on the pod, else by what was seen of it first."""
    if not facts:
        return None
    first = facts[0]
    for fact in facts:
        for before in fact.owners_amounts:
            if before.name == container:
                return _Owners(before.requests, before.limits, noted=True, certain=True)
    seen = _container(first, container)
    if seen is None:
        return None
    return _Owners(seen.requests, seen.limits, noted=False, certain=first.at - first.created < _SOON)


def _cut(past: WorkloadPast, facts: Sequence[PodChanged]) -> bool:
    """Whether the log lost what came before the first that is known of the pod."""
    # A pod that is younger than what the log lost is there whole.
    return past.complete_since is not None and (not facts or facts[0].created < past.complete_since)


def _restarts(past: WorkloadPast) -> Iterator[Harm]:
    """Restarts that were no OOM kill."""
    for uid in dict.fromkeys(fact.pod.uid for fact in past.of(PodChanged)):
        facts = past.facts(uid)
        for before, fact in pairwise(facts):
            for seen in fact.containers:
                earlier, run = _container(before, seen.name), seen.last_run
                # An OOM kill has an event of its own, which tells it.
                if earlier is None or seen.restarts <= earlier.restarts or run is None or run.killed_for_memory:
                    continue
                acts = [act for act in _on_pod(past, uid) if _began(past, act) <= fact.at and fact.at - act.at <= _SOON]
                verdict, because = _restarted(seen, facts, acts)
                what = f"restart of container '{seen.name}' in pod {fact.pod.name} ({run.reason or 'no reason given'})"
                yield Harm(run.ended, fact.pod.name, what, verdict, because, _last(past, acts), _since(past, fact.at))


def _restarted(seen: ContainerSeen, facts: Sequence[PodChanged], acts: Sequence[ActionFinished]) -> tuple[Verdict, str]:
    resized = [act for act in acts if act.action is Action.RESIZE]
    if resized and seen.restarts_on:
        moved = " and ".join(seen.restarts_on)
        return Verdict.OURS, f"its resizePolicy restarts it when {moved} changes, and we had resized the pod"
    owners = _owners(facts, seen.name)
    lowest, owners_limit = (seen.limits.cpu, owners.limits.cpu) if owners is not None else (None, None)
    if lowest is not None and owners_limit is not None and lowest < owners_limit and (owners is None or owners.noted or acts):
        lowered = f"from {event_descriptions.amount(cpu=owners_limit)} to {event_descriptions.amount(cpu=lowest)}"
        return Verdict.UNKNOWN, f"its CPU limit was lowered {lowered}, and a slower container may fail its probes"
    return Verdict.NOT_OURS, f"nothing of ours had changed the pod in the {_SOON // timedelta(minutes=1)} minutes before"


def _gone(past: WorkloadPast) -> Iterator[Harm]:
    """Pods that are gone though we did not evict them."""
    evicted = {act.subject.uid for act in past.acts if act.action is Action.EVICT}
    for gone in past.of(PodDeleted):
        if gone.pod.uid not in evicted:
            verdict, because, before = _went(past, gone)
            yield Harm(gone.at, gone.pod.name, f"pod {gone.pod.name} went", verdict, because, before, _since(past, gone.at))


def _went(past: WorkloadPast, gone: PodDeleted) -> tuple[Verdict, str, str]:
    """Why a pod went, and our change before that."""
    plans = {plan.id: plan for plan in past.of(ReplicasPlanned)}
    acts = [act for act in past.acts if _began(past, act) <= gone.at <= act.at + _SOON]
    drained = [act for act in acts if act.action is Action.REMOVE_NODE and _was_on(past, gone, act)]
    fewer = [act for act in acts if act.action is Action.SCALE and (p := plans.get(act.decision)) and p.replicas < p.current]
    if drained:
        return Verdict.OURS, f"we removed its node '{drained[-1].subject.name}'", _last(past, drained)
    if fewer:
        plan = plans[fewer[-1].decision]
        return Verdict.OURS, f"we scaled the workload from {plan.current} to {plan.replicas} replicas", _last(past, fewer)
    by_hpa = _scaled_by_hpa(past, gone)
    if by_hpa is not None:
        return by_hpa
    # After all that would be certain, for this can only be suspected.
    removal = _removal_without_end(past, gone)
    if removal is not None:
        because = f"we had planned to remove its node '{removal.node}', and no outcome says that it was done"
        return Verdict.UNKNOWN, because, _last(past, ())
    if past.complete_since is not None and gone.at < past.complete_since:
        return Verdict.UNKNOWN, "the log no longer has what we did then", _last(past, ())
    return Verdict.NOT_OURS, "we neither evicted it nor removed its node nor scaled its workload down", _last(past, ())


def _scaled_by_hpa(past: WorkloadPast, gone: PodDeleted) -> tuple[Verdict, str, str] | None:
    """Whether an HPA that we keep for an EHPA took a pod: it asks for fewer, or its plan does and the scale follows."""
    plans = [plan for plan in past.of(ReplicasPlanned) if plan.carried_out_by is ScalingMode.HPA and plan.at <= gone.at]
    kept = {plan.uid for plan in plans}
    lowered = _newest_fall([hpa for hpa in past.of(HpaSeen) if hpa.owner_uid in kept], lambda hpa: hpa.desired, gone)
    if lowered is not None:
        hpa, before = lowered
        fall = f"HPA '{hpa.name}' scaled the workload from {before} to {hpa.desired} replicas"
        return Verdict.OURS, f"{fall}, and we keep it for EHPA '{plans[-1].ehpa}'", f"{hpa.at:%Y-%m-%d %H:%M:%S} {fall}"
    # Only a plan to scale down, and one of a short while ago, may be what took the pod.
    if not plans or plans[-1].replicas >= plans[-1].current or gone.at - plans[-1].at > _SOON:
        return None
    plan = plans[-1]
    planned = f"we had planned {plan.replicas} replicas instead of {plan.current}"
    before_that = f"{plan.at:%Y-%m-%d %H:%M:%S} plan of {plan.replicas} replicas, for an HPA to carry out"
    followed = _newest_fall(past.of(ScaleSeen), lambda scale: scale.replicas, gone)
    if followed is None:
        return Verdict.UNKNOWN, f"{planned}, and the log does not show whether the HPA had followed", before_that
    scale, before = followed
    return Verdict.OURS, f"{planned}, and its scale went from {before} to {scale.replicas}", before_that


def _newest_fall(facts: Sequence[E], replicas: Callable[[E], int], gone: PodDeleted) -> tuple[E, int] | None:
    """The last fact about as old as a pod's end that says fewer replicas than the one before it, and what that said."""
    falls = [(fact, replicas(before)) for before, fact in pairwise(facts) if replicas(fact) < replicas(before)]
    near = [(fact, before) for fact, before in falls if -_LATE <= gone.at - fact.at <= _SOON]  # type: ignore[attr-defined]  # all have a time
    return near[-1] if near else None


def _was_on(past: WorkloadPast, gone: PodDeleted, act: ActionFinished) -> bool:
    """Whether the removal of a node took a pod: its plan names it, or it was last seen there."""
    plan = next((plan for plan in past.of(NodeRemovalPlanned) if plan.id == act.decision), None)
    if plan is not None and _names(plan, gone):
        return True
    return any(fact.node == act.subject.name for fact in past.facts(gone.pod.uid)[-1:])


def _removal_without_end(past: WorkloadPast, gone: PodDeleted) -> NodeRemovalPlanned | None:
    """A plan to remove a pod's node that may have been begun: it has no outcome, or one that says neither done nor refused."""
    ends = {act.decision: act for act in past.of(ActionFinished) if act.action is Action.REMOVE_NODE}
    for plan in past.of(NodeRemovalPlanned):
        end = ends.get(plan.id)
        begun = end is None or end.result not in {Result.DONE, Result.REFUSED}
        if begun and _names(plan, gone) and plan.at <= gone.at <= (plan.expires if end is None else end.at + _SOON):
            return plan
    return None


def _names(plan: NodeRemovalPlanned, gone: PodDeleted) -> bool:
    return any(pod.uid == gone.pod.uid for pod in (*plan.evict, *plan.daemons))


def _began(past: WorkloadPast, act: ActionFinished) -> datetime:
    """From when on an act may have had its effect: from its plan on, for an outcome waits until the effect is complete."""
    # A node's pods go before the node is gone, and a resize that restarts a container does that before it is in force.
    return past.planned.get(act.decision, act.at)


def _on_pod(past: WorkloadPast, uid: str) -> list[ActionFinished]:
    """What changed the amounts of a pod."""
    return [act for act in past.acts if act.subject.uid == uid and act.action in {Action.RESIZE, Action.PATCH}]


def _last(past: WorkloadPast, acts: Sequence[ActionFinished]) -> str:
    return _words(past, acts[-1]) if acts else "no change of ours"


def _since(past: WorkloadPast, at: datetime) -> tuple[str, ...]:
    """What we did to the workload after a moment; where nothing was done, what held it back."""
    acts = [act for act in past.acts if act.at > at and act.action is not Action.REMOVE_NODE]
    if not acts:
        held = [in_words(refused.guard, refused.reason) for refused in past.of(UpdateRefused) if refused.at > at]
        return (": ".join(["nothing was done", *held[-1:]]),)
    more = [f"and {len(acts) - _MOST_SINCE} more changes"] if len(acts) > _MOST_SINCE else []
    return (*(_words(past, act) for act in acts[:_MOST_SINCE]), *more)


def _words(past: WorkloadPast, act: ActionFinished) -> str:
    """As in `2026-01-05 00:33:00 resize of web-1: memory limit 200.0 MiB to 400.0 MiB`."""
    text = f"{act.at:%Y-%m-%d %H:%M:%S} {act.action.value} of {act.subject.name}"
    if act.admitted is not None:
        moved = [_moved(container.limits_before, container.limits) for container in act.admitted.containers]
    else:
        plan = next((resize for resize in past.of(ResizePlanned) if resize.id == act.decision), None)
        if plan is None:
            return text
        before = [fact for fact in past.facts(act.subject.uid) if fact.at < act.at][-1:]
        moved = [_moved(_limits(before, name), amounts) for name, amounts in plan.limits.items()]
    limits = ", ".join(filter(None, moved))
    return f"{text}: {limits}" if limits else f"{text}: memory limits as they were"


def _moved(before: Amounts, after: Amounts) -> str:
    if after.memory is None or before.memory == after.memory:
        return ""
    return f"memory limit {_size(before.memory)} to {_size(after.memory)}"


def _limits(facts: Iterable[PodChanged], container: str) -> Amounts:
    seen = [container_seen for fact in facts if (container_seen := _container(fact, container)) is not None]
    return seen[-1].limits if seen else Amounts()


def _container(fact: PodChanged, name: str) -> ContainerSeen | None:
    return next((seen for seen in fact.running_together if seen.name == name), None)


def _size(memory: float | None) -> str:
    return "none" if memory is None else event_descriptions.amount(memory=memory)


def counts(harms: Iterable[Harm]) -> Mapping[Verdict, int]:
    """How many there are of each verdict."""
    by_verdict = dict.fromkeys(Verdict, 0)
    for harm in harms:
        by_verdict[harm.verdict] += 1
    return by_verdict
