"""Pods that should be changed: which, why, how urgently, and in which way. The guards decide whether they may be changed now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from operator import attrgetter

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.updates import cap_sentences, oom_loops, update_priority
from agents.logic.updates.cap_sentences import Caps
from agents.logic.updates.pod_advice import PodAdvice
from agents.logic.updates.update_priority import UpdatePriority, UpdateReason
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater_records import NewestRecommendation, PodHistory, PodRecord
from schemas import times
from schemas.facts.pods import ContainerSeen, PodChanged, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.scaling import UtilizationMetric
from schemas.policies.vertical import ContainerMode, UpdateMode


@dataclass(frozen=True, slots=True)
class PodSituation:
    """Everything known about one pod in turn `now`."""

    now: int
    workload: str
    pod: PodRecord
    advice: PodAdvice
    policy: PolicyRecord
    history: PodHistory
    settings: UpdateSettings
    """Those for this workload."""
    unboosts: tuple[str, ...] = ()
    """The containers whose startup boost has ended; then `advice` is only about these."""
    scaled: frozenset[UtilizationMetric] = frozenset()
    """The shares of requests by which HPAs scale the workload."""
    successor: Callable[[], PodAdvice] | None = None
    """What is recommended for a new pod of the same controller; None where nobody would be evicted."""

    @property
    def recommended(self) -> NewestRecommendation:
        """What is recommended for the pod."""
        return self.advice.recommended

    @property
    def priority(self) -> UpdatePriority:
        """How far the pod is from it."""
        return self.advice.priority

    @property
    def upstream(self) -> bool:
        """Whether nothing is done but what upstream's updater does."""
        return self.settings.profile == UpdaterProfile.UPSTREAM

    @property
    def broken(self) -> bool:
        """Whether a container of the pod was killed for lack of memory and does not serve again."""
        return any(container.broken for container in self.pod.fact.containers)

    @property
    def killed(self) -> datetime | None:
        """When a container of the pod was killed for lack of memory last; None where no last run ended so."""
        return oom_loops.last_kill(self.pod.fact)

    @property
    def unheard_kill(self) -> bool:
        """Whether the pod was killed since its recommendation was decided, so short a time ago that another one is on its way."""
        killed, recommended = self.killed, self.recommended
        # A revert and the end of a boost do not follow from a recommendation, so that no newer one can change them.
        if killed is None or self.unboosts or recommended.reverted is not None or recommended.at >= killed:
            return False
        return self.at - killed < timedelta(seconds=self.settings.interval)

    @property
    def at(self) -> datetime:
        """The time of the turn."""
        return times.from_ms(self.now)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should be changed, why, and how."""

    situation: PodSituation
    why: tuple[UpdateReason, ...]
    action: Action
    left: frozenset[str] = frozenset()
    """Resources that HPAs scale by, if nothing else of the pod is to be changed."""
    stuck_at: str = ""
    """Why a pod that is killed again and again can be given no more memory; empty where it can."""
    caps: Caps = field(default_factory=dict)
    """What keeps the pod's targets where they are, if it would be changed without them."""

    @property
    def rescue(self) -> bool:
        """Whether a container that was killed for lack of memory is given more. Upstream makes nothing of that."""
        return not self.stuck_at and bool(_KILLED & set(self.why)) and not self.situation.upstream

    @property
    def looping(self) -> str:
        """The container that is killed for lack of memory again and again, by its name; empty where none is."""
        return oom_loops.looping(_recently_killed(self.situation))

    @property
    def long_killed(self) -> bool:
        """Whether that container was killed so often that minutes have passed."""
        return bool(oom_loops.looping(_recently_killed(self.situation), oom_loops.MANY_RESTARTS))

    @property
    def harmless(self) -> bool:
        """Whether the pod may be changed whatever else is away: it is mended in place, and stops serving for it in no way."""
        return self.rescue and self.action is Action.RESIZE and (self.situation.broken or not restarts(self.situation))

    @property
    def raises(self) -> bool:
        """Whether the pod is only given more, as it runs, and no container of it stops: that takes nothing from anybody."""
        situation = self.situation
        own = situation.upstream or situation.unboosts or situation.recommended.reverted is not None
        # A pod is asked for other amounts of an open resize now and then, and not whenever what is recommended moves.
        own = own or (situation.pod.fact.resize is not ResizeState.NONE and not self.rescue)
        return self.action is Action.RESIZE and not own and situation.advice.only_raises and not restarts(situation)

    @property
    def order(self) -> tuple[bool, bool, bool, float, str, str, str]:
        """Sorts the most urgent first, as upstream does; then by name, so that every replay has the same order."""
        situation = self.situation
        pod = situation.pod.fact.pod
        serves = not (self.rescue and situation.broken)
        # Before all others comes a pod whose container is being killed, and of those the one that does not serve.
        return (not self.rescue, serves, *situation.priority.rank, situation.workload, pod.name, pod.uid)

    def alike(self, other: "Candidate") -> bool:
        """Whether no guard can distinguish the two pods, which belong to one workload, at one moment."""
        own, theirs = self.situation, other.situation
        mine, its = own.pod.fact, theirs.pod.fact
        return (
            # By identity, because the cache has one object for all pods of a shape.
            own.advice is theirs.advice
            and not self.rescue
            and self.stuck_at == other.stuck_at
            and self.why == other.why
            and self.action is other.action
            and own.history == theirs.history
            and _read_by_guards(mine) == _read_by_guards(its)
            and [*map(_run, mine.containers)] == [*map(_run, its.containers)]
            and (mine.admitted is its.admitted or mine.owners_amounts == its.owners_amounts)
            and (mine.node is None) == (its.node is None)
            and (mine.started == its.started or not own.settings.pod_warm_up)
            and self.left == other.left
            and own.unboosts == theirs.unboosts
        )


_MAY_DIFFER = {"at", "workload", "pod", "created", "labels", "boosted", "ready_since"}
"""Fields of a pod that no guard reads of the pod itself. Any other tells pods apart, one that comes to be later, too."""
_IN_PART = {"containers", "admitted", "node", "started"}
"""Fields of which guards read only a part, and advice the rest: `alike` compares that part."""
_read_by_guards = attrgetter(*(field.name for field in fields(PodChanged) if field.name not in _MAY_DIFFER | _IN_PART))
_run = attrgetter("ready", "restarts", "restarts_on", "sidecar", "last_run")
"""What guards read of a container besides the amounts, on which the advice rests."""


_WAITING = (ResizeState.DEFERRED, ResizeState.INFEASIBLE)
_IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_KILLED = frozenset({UpdateReason.QUICK_OOM, UpdateReason.OOM})


def candidate(situation: PodSituation) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    # After a kill it waits for what is recommended because of it, which comes at once: an eviction for less would be in vain.
    if not situation.upstream and situation.unheard_kill:
        return None
    why = reasons(situation)
    if why and not _idle(situation, why):
        whole = Candidate(situation, why, Action.RESIZE if _in_place(situation) else Action.EVICT)
        return _memory_alone(whole) or whole
    bound = _bound(situation)
    return Candidate(situation, (UpdateReason.QUICK_OOM,), Action.RESIZE, stuck_at=bound) if bound else None


def _bound(situation: PodSituation) -> str:
    """What keeps a container of the pod that is killed again and again from getting more memory; empty where none is."""
    within = timedelta(seconds=situation.settings.quick_oom)
    if bound := oom_loops.bound_beyond_advice(situation.pod.fact, situation.at, within):
        return bound
    killed = _recently_killed(situation)
    if killed:
        acted = None if situation.history.acted is None else times.from_ms(situation.history.acted)
        bound = oom_loops.bound(situation.pod.fact, killed, situation.advice, situation.policy, _counts(situation), acted=acted)
        if bound:
            return bound
    return ""


def _recently_killed(situation: PodSituation) -> list[ContainerSeen]:
    within = timedelta(seconds=situation.settings.quick_oom)
    return oom_loops.recently_killed(situation.pod.fact, situation.at, within)


def _memory_alone(whole: Candidate) -> Candidate | None:
    """A pod that is killed while its resize waits for CPU, as a candidate for the memory that its node may well have."""
    situation, fact = whole.situation, whole.situation.pod.fact
    if not whole.rescue or fact.resize not in _WAITING or situation.policy.policy.update_mode not in _IN_PLACE:
        return None
    cores = [(fact.asked[seen.name].cpu or 0.0, seen.requests.cpu) for seen in fact.containers if seen.name in fact.asked]
    # A request that was not there cannot be taken back: a patch sets amounts.
    if not cores or any(now is None for _, now in cores) or not any(asked > (now or 0.0) for asked, now in cores):
        return None
    part = replace(situation, advice=situation.advice.memory_alone)
    return Candidate(part, whole.why, Action.RESIZE) if part.advice.keeps_class else None


def taken_back(situation: PodSituation) -> Candidate | None:
    """A pod whose resize waits for more than is recommended by now as a candidate for less: its node keeps room for that."""
    in_place = situation.policy.policy.update_mode in _IN_PLACE and situation.advice.keeps_class
    waits = situation.pod.fact.resize in _WAITING and in_place and not situation.upstream
    return Candidate(situation, (UpdateReason.OUTSIDE,), Action.RESIZE) if waits and may_ask_again(situation) else None


def asking(fact: PodChanged) -> PodChanged:
    """The pod as if it had what it asks for."""
    containers = tuple(replace(seen, requests=fact.asked.get(seen.name, seen.requests)) for seen in fact.containers)
    return replace(fact, containers=containers)


def without(situation: PodSituation, reduced: PodAdvice, left: frozenset[str]) -> Candidate | None:
    """The pod as a candidate, if what is recommended of these resources is left alone, as in the `reduced` advice."""
    without_left = candidate(replace(situation, advice=reduced))
    if without_left is not None:
        return without_left
    # Nothing else of the pod is to be changed: it stays a candidate, so that a guard can say what is left alone.
    whole = candidate(situation)
    return whole and replace(whole, left=left)


def raised(whole: Candidate) -> Candidate | None:
    """A pod that is to be given more of one thing and less of another, as a candidate for what it is to be given more of."""
    more = whole.situation.advice.raised if whole.action is Action.RESIZE else None
    part = more and candidate(replace(whole.situation, advice=more))
    return part if part and part.raises else None


def held_by_caps(situation: PodSituation, uncapped: PodAdvice, caps: Caps) -> Candidate | None:
    """A pod that has all that it may have as a candidate for what is recommended, so that it can be said what holds it."""
    held = candidate(replace(situation, advice=uncapped)) if cap_sentences.lasting(caps) else None
    return held and replace(held, caps=caps)


def reasons(situation: PodSituation) -> tuple[UpdateReason, ...]:
    """Why a pod should be changed; empty if it should not."""
    if situation.unboosts:
        return (UpdateReason.BOOST_OVER,)
    if situation.recommended.reverted is not None:
        return (UpdateReason.REVERT,) if situation.priority.outside else ()
    fact, settings, counts = situation.pod.fact, situation.settings, _counts(situation)
    killed = [seen for seen in _recently_killed(situation) if counts(seen.name)]
    if killed and not situation.upstream:
        # A kill is no reason to take memory away, nor to change anything else, nor to give more where that helps nobody.
        helped = (seen for seen in killed if fact.limit_beside(seen) is None)
        killed = [seen for seen in helped if oom_loops.short(seen, situation.advice)]
    kills = [oom_loops.kill(fact, seen, situation.at) for seen in killed]
    quick = update_priority.quick_kill(kills, timedelta(seconds=settings.quick_oom), counts)
    age = None if fact.started is None else situation.at - fact.started
    why = update_priority.reasons(situation.priority, age=age, quick=quick, thresholds=settings.thresholds)
    # Upstream makes nothing of a kill long after the start. The pod would be killed again at its next peak.
    return (*why, UpdateReason.OOM) if kills and not quick and not situation.upstream else why


_ROUNDED = 1e-6
"""A share of what a pod requests that roundings of its containers' amounts come to."""


def _idle(situation: PodSituation, why: tuple[UpdateReason, ...]) -> bool:
    """Whether a change is for nothing: the pod has all that it would get, or little moves from one container to another."""
    advice = situation.advice
    if situation.unboosts or situation.recommended.reverted is not None:
        return False
    # Where a LimitRange binds the pod as a whole, each step of one container's recommendation moves the others' shares.
    little = advice.priority.difference < _ROUNDED and advice.difference < situation.settings.threshold
    return advice.changes_nothing or (little and why == (UpdateReason.OUTSIDE,))


def _counts(situation: PodSituation) -> Callable[[str], bool]:
    """Whether admission saw a container, and its policy is not Off. A container of unknown name counts."""
    seen, policy = update_priority.observed(situation.pod.fact.observed), situation.policy

    def counts(container: str) -> bool:
        if not container:
            return True
        return (seen is None or container in seen) and bounds(policy, container).mode is not ContainerMode.OFF

    return counts


def changes(situation: PodSituation) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    return situation.advice.requests, situation.advice.limits


def restarts(situation: PodSituation) -> bool:
    """Whether a resize in place restarts a container: one of its resources changes for which the pod's resizePolicy says so."""
    requests, limits = changes(situation)
    for seen in situation.pod.fact.containers:
        for resource in seen.restarts_on:
            pairs = ((requests.get(seen.name), seen.requests), (limits.get(seen.name), seen.limits))
            for after, before in pairs:
                wanted = getattr(after, resource, None)
                if wanted is not None and wanted != getattr(before, resource, None):
                    return True
    return False


def disrupts(candidate: Candidate) -> bool:
    """Whether the change stops a container: an eviction does, and a resize of what a container must be restarted for."""
    return candidate.action is Action.EVICT or restarts(candidate.situation)


def stuck(situation: PodSituation) -> bool:
    """Whether a resize that was begun will not succeed."""
    since, resize = situation.history.resizing, situation.pod.fact.resize
    if resize is ResizeState.NONE:
        return situation.history.resize_failed
    waited = timedelta(milliseconds=0 if since is None else situation.now - since)
    return situation.settings.disruption.overdue(resize, waited)


def infeasible(situation: PodSituation) -> bool:
    """Whether the pod's node could not hold the last request, and the new one is not lower in any resource."""
    tried = situation.history.infeasible
    wanted = {c.container: c.target for c in situation.recommended.containers}
    return bool(tried) and not any(_asks_less(wanted[name], amounts) for name, amounts in tried.items() if name in wanted)


def may_ask_again(situation: PodSituation) -> bool:
    """Whether a pod with an open resize may be asked for other amounts."""
    resize, (requests, _) = situation.pod.fact.resize, changes(situation)
    if resize not in _WAITING:
        # What fails or takes too long on its node is asked for anew.
        return stuck(situation)
    # What the node has no room for is asked for less, and for more memory only without what it waits for: the kubelet would defer
    # that again.
    fact = situation.pod.fact
    pairs = [(requests[seen.name], fact.asked.get(seen.name, seen.requests)) for seen in fact.containers if seen.name in requests]
    had = [(requests[seen.name].cpu or 0.0, seen.requests.cpu or 0.0) for seen in fact.containers if seen.name in requests]
    more = any((after.memory or 0) > (before.memory or 0) for after, before in pairs)
    alone = bool(fact.asked) and all(after <= now for after, now in had)
    return (alone or not more) and any(_asks_less(after, before, situation.settings.threshold) for after, before in pairs)


def _asks_less(after: Amounts, before: Amounts, share: float = 0.0) -> bool:
    """Whether some amount is less than it was, by more than this share of it."""
    pairs = ((after.cpu, before.cpu), (after.memory, before.memory))
    return any(new is not None and old is not None and new < old * (1 - share) for new, old in pairs)


def _in_place(situation: PodSituation) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change."""
    # A restart alone puts nothing back, and nobody is evicted to end a boost.
    if situation.recommended.reverted is not None or situation.unboosts:
        return True
    match situation.policy.policy.update_mode:
        case UpdateMode.IN_PLACE:
            return True
        case UpdateMode.IN_PLACE_OR_RECREATE:
            return not stuck(situation) and situation.advice.keeps_class
        case _:
            return False
