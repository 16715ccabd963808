"""The guards of the updater: each examines a pod that should be changed and may object, with the reason."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from agents.logic.guards import shared_guards
from agents.logic.guards.guard_records import GUARDS, KEEPING_LOOPS, in_words
from agents.logic.guards.shared_guards import Objection
from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import Container
from agents.logic.resources.target_caps import unhelped
from agents.logic.updates import api_refusals, cap_sentences, disruption_guards, successor_nodes
from agents.logic.updates.candidate import Candidate, changes, disrupts, infeasible, may_ask_again, stuck
from agents.logic.updates.eviction_tolerance import serves
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_priority import UpdateReason, admitted
from agents.logic.updates.update_settings import UpdaterProfile
from schemas import times
from schemas.facts import update_facts
from schemas.facts.pods import PROTECTORS, PodPhase, ResizeState
from schemas.facts.update_facts import NAMESPACE
from schemas.names import cluster_of
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode
from schemas.units import bytes_text

PROTECTED = "ullage/protected"
"""An annotation of a namespace whose pods are left alone, if it is `true`."""
Judgement = Callable[[Candidate, ClusterSituation], str | None]
"""Why a pod is left alone; None where the guard does not object."""


def first_objection(candidate: Candidate, cluster: ClusterSituation) -> Objection | None:
    """The first guard that objects, or None."""
    return shared_guards.first_objection(_JUDGED, candidate, cluster)


def told(objection: Objection, candidate: Candidate) -> Objection:
    """The objection as it is decided: one that keeps a loop of OOM kills going is a bound of that loop."""
    # Whatever holds a pod back through many kills is one, a budget of others' pods as well as a closed schedule.
    holds = objection.guard in KEEPING_LOOPS and candidate.looping != ""
    if not candidate.rescue or not (holds or candidate.long_killed):
        return objection
    reason = f"{unhelped(candidate.looping)}: {in_words(objection.guard, objection.reason)}"
    return Objection("oom-bound", reason, through=objection.guard)


def objections(candidate: Candidate, cluster: ClusterSituation) -> Iterator[Objection]:
    """All guards that object, in their order."""
    for name, judgement in _JUDGED:
        reason = judgement(candidate, cluster)
        if reason is not None:
            yield Objection(name, reason)


def _mode(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    policy = candidate.situation.policy.policy
    if policy.update_mode in (UpdateMode.OFF, UpdateMode.INITIAL) and not candidate.situation.unboosts:
        return f"policy '{policy.target}' has update mode '{policy.update_mode}', which leaves running pods alone"
    if candidate.action is Action.EVICT and not policy.patch_new_pods:
        return f"policy '{policy.target}' leaves new pods as they are, so an eviction would change nothing"
    return None


def _protected(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    pod, settings, metadata = candidate.situation.pod.fact, cluster.settings, cluster.constraints.metadata
    where, namespace = pod.workload.cluster, pod.pod.namespace
    if pattern := _matching(settings.protected_namespaces, namespace):
        return f"namespace '{namespace}' is protected by the setting '{pattern}'"
    if _annotated(PROTECTED, candidate, cluster):
        return f"namespace '{namespace}' is protected by its annotation '{PROTECTED}=true'"
    for kind, names in PROTECTORS.items() if settings.protected_labels else ():
        for name in names(pod):
            marks = metadata.get(update_facts.metadata_key(where, kind, namespace, name))
            for label in () if marks is None else (f"{key}={value}" for key, value in marks.labels.items()):
                if _matching(settings.protected_labels, f"{kind}:{label}"):
                    return f"the pod's {kind} '{name}' is protected by its label '{label}'"
    return None


def _annotated(annotation: str, candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether an annotation of the pod's namespace is `true`, and a guard of ours may hold the pod back for it."""
    pod = candidate.situation.pod.fact
    key = update_facts.metadata_key(pod.workload.cluster, NAMESPACE, pod.pod.namespace, pod.pod.namespace)
    marks = cluster.constraints.metadata.get(key)
    return marks is not None and marks.annotations.get(annotation) == "true" and not cluster.upstream_for_all


def _matching(patterns: str, text: str) -> str:
    """The first of some patterns, separated by commas, that a text matches; empty if none does."""
    return next((pattern for part in patterns.split(",") if (pattern := part.strip()) and fnmatchcase(text, pattern)), "")


def _opted_out(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    annotation = candidate.situation.pod.fact.opted_out
    if not annotation or not cluster.settings.honor_opt_outs or not disrupts(candidate):
        return None
    return f"the pod is annotated '{annotation}', which asks that nobody evicts it"


def _quota(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return None if cluster.settings.profile == UpdaterProfile.UPSTREAM else api_refusals.of_quotas(candidate, cluster.quotas)


def _refused(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """Where the last resizes of a pod were refused, the next would be, too, until something changes that nobody tells us."""
    situation = candidate.situation
    refused, revert = situation.history.refused, situation.recommended.reverted
    if candidate.action is not Action.RESIZE or refused is None or cluster.settings.profile == UpdaterProfile.UPSTREAM:
        return None
    if set(situation.unboosts) - set(situation.history.tried) or (revert is not None and refused.at < times.to_ms(revert.at)):
        return None  # it asks for something else than what was refused
    if (cluster.now - refused.at) / 1000 >= refused.pause():
        return None
    last = "last resize" if refused.count == 1 else f"last {refused.count} resizes"
    return f"the pod's {last} came to nothing ({refused.reason}); the next is tried after {refused.pause():g} s"


def _oom_bound(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    return candidate.stuck_at or None


def _paused(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return shared_guards.paused(cluster.control)


def _warm_up(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    if candidate.rescue:
        # What is killed at each start has no time, and is only given more.
        return None
    return shared_guards.warming_up(
        stage="updater", now=cluster.now, first_turn=cluster.first_turn, warm_up=cluster.settings.warm_up
    )


def _blind(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    what, seen, within = cluster.facts.sign_of_life(cluster.settings)
    return shared_guards.blind(fact=what, now=cluster.now, seen=seen, within=within)


_URGENT = frozenset({UpdateReason.QUICK_OOM, UpdateReason.OOM, UpdateReason.REVERT, UpdateReason.BOOST_OVER})
"""Reasons for which a pod is changed that has only just begun."""


def _pod_warm_up(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    warm_up, started = cluster.settings.pod_warm_up, candidate.situation.pod.fact.started
    if not warm_up or _URGENT & set(candidate.why):
        return None
    ran = 0.0 if started is None else (candidate.situation.at - started).total_seconds()
    return None if ran >= warm_up else f"the pod has run for {ran:g} s; it is left alone for {warm_up:g} s"


def _requirements(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    situation, vpa = candidate.situation, candidate.situation.policy.policy.vpa
    if vpa is None or not vpa.requirements or situation.recommended.reverted is not None or situation.unboosts:
        return None
    if candidate.rescue:
        # An owner who lets pods only shrink by eviction does not ask for a loop of kills.
        return None
    containers = [Container(c.name, resource_lists.of_amounts(c.requests)) for c in situation.pod.fact.containers]
    advice = tuple(map(resource_lists.of_recommendation, situation.recommended.containers))
    return None if admitted(containers, advice, vpa.requirements) else f"VPA '{vpa.key}' has requirements that no container meets"


def _schedule(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    scheduled = cluster.scheduled
    return scheduled.closed or None if scheduled is not None else None


def _webhook(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    # Upstream's updater does nothing at all without a webhook; a resize in place needs none.
    upstream = cluster.settings.profile == UpdaterProfile.UPSTREAM
    away = cluster.constraints.webhook_away(cluster_of(candidate.situation.workload))
    if away is None or candidate.situation.unboosts or not (candidate.action is Action.EVICT or upstream):
        return None
    return f"no webhook is at work that would change the pod's successor: {away}"


def _acceptance(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    kind, _, node = candidate.situation.pod.fact.controller.partition("/")
    if kind == "Node":
        # ValidatePodResize in Kubernetes' pkg/apis/core/validation; the kubelet makes an evicted one anew from the same manifest.
        return f"it is a static pod, which can be neither evicted nor resized: its manifest on node '{node}' has its amounts"
    return api_refusals.of_amounts(candidate, cluster.constraints.ranges_of(candidate.situation.workload))


def _stale(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    taken, within = candidate.situation.recommended.turn, cluster.settings.recommendation_within
    return shared_guards.stale(what="recommendation", now=cluster.now, taken=taken, within=within)


def _phase(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    phase = candidate.situation.pod.fact.phase
    if phase is PodPhase.RUNNING or disruption_guards.serves_nobody(candidate, cluster):
        return None
    return f"the pod is {phase.value}, not Running"


def _resizing(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    # The pod's spec already asks for what was planned last, so that a candidate wants something else than what is being tried.
    state, situation = candidate.situation.pod.fact.resize, candidate.situation
    if candidate.action is Action.EVICT:
        if state is ResizeState.NONE or stuck(situation):
            return None
    elif infeasible(situation):
        return "the pod's node could never hold what was asked for, and no less is asked for now"
    elif state is ResizeState.NONE or (state is ResizeState.INFEASIBLE and situation.history.infeasible):
        return None
    elif cluster.settings.profile != UpdaterProfile.UPSTREAM and may_ask_again(situation):
        # Upstream waits for a resize to end, whatever is recommended meanwhile.
        return None
    return f"a resize of the pod is {state.value}"


def _cool_down(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    if candidate.raises:
        # What is used more than expected is given at once.
        return None
    if candidate.situation.recommended.reverted is not None:
        # The revert was requested because of what was planned a short time ago.
        return None
    history = candidate.situation.history
    if set(candidate.situation.unboosts) - set(history.tried):
        # The end of a boost does not wait for other plans.
        return None
    acted, killed = history.acted, candidate.situation.killed
    # For this long the recommender may not have known of a kill.
    lag = cluster.settings.interval * 1000
    if candidate.rescue and acted is not None and killed is not None and times.to_ms(killed) > acted - lag:
        # What was planned last was not enough.
        return None
    cooling = shared_guards.cooling_down(subject="pod", now=cluster.now, planned=acted, cool_down=cluster.settings.cool_down)
    return cooling or _turning(candidate, cluster)


def _turning(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    situation = candidate.situation
    evicted = None if cluster.evicted is None else cluster.evicted.turns
    turns = situation.history.turns if candidate.action is Action.RESIZE else evicted
    # More alone is given at once, so that less has to wait for its turn.
    free = candidate.rescue or situation.advice.only_raises or not disrupts(candidate)
    if turns is None or free:
        return None
    has = {container.name: container.requests for container in situation.pod.fact.containers}
    return turns.objection(has, changes(situation)[0], cluster.now, cluster.settings.cool_down)


def _service_class(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    policy = candidate.situation.policy.policy
    reverted, unboosts = candidate.situation.recommended.reverted is not None, bool(candidate.situation.unboosts)
    if candidate.situation.advice.keeps_class or not (reverted or unboosts or policy.update_mode is UpdateMode.IN_PLACE):
        return None
    why = f"policy '{policy.target}' lets no pod be evicted"
    if reverted or unboosts:
        why = "a revert evicts nobody" if reverted else "nobody is evicted to end a startup boost"
    return f"a resize would change the pod's class of service, and {why}"


def _node(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    if candidate.action is not Action.EVICT or not cluster.settings.honor_nodes:
        return None
    pod, planned = candidate.situation.pod.fact, changes(candidate.situation)[0]
    never = successor_nodes.objection(pod, planned, cluster.rooms)
    if never is not None or cluster.free is None or not serves(pod):
        # A pod that serves nobody loses nothing while its successor waits.
        return never
    return None if successor_nodes.may_grow(pod, planned, cluster.rooms) else cluster.free.objection(pod, planned)


def _rate(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    settings, planned = cluster.settings, cluster.planned.of(candidate.action)
    resizes = candidate.action is Action.RESIZE
    rate, plans = (settings.resize_rate, "resizes") if resizes else (settings.rate, "evictions")
    return shared_guards.over_rate(planned=planned, rate=rate, interval=settings.interval, plans=plans)


def _hpa(candidate: Candidate, _cluster: object) -> str | None:
    """Resources that HPAs scale by are left to them."""
    if not candidate.left:
        return None
    return f"a HorizontalPodAutoscaler scales the workload by {' and '.join(sorted(candidate.left))}, which is left to it"


def _limit_range(candidate: Candidate, _cluster: object) -> str | None:
    """What is wrong where upstream's arithmetic has no answer, so that nothing may be set."""
    fault = candidate.situation.advice.fault
    return f"what is recommended cannot be brought within the namespace's LimitRanges: {fault}" if fault else None


def _capped(candidate: Candidate, _cluster: object) -> str | None:
    """The pod has all that its limits and LimitRanges allow, and something else is recommended."""
    if not candidate.caps:
        return None
    situation = candidate.situation
    return cap_sentences.of_caps(candidate.caps, situation.policy, situation.pod.fact.pod.namespace)


def _starving(candidate: Candidate, _cluster: object) -> str | None:
    """Nobody is evicted into a memory limit below what is needed, whatever bound asks for that: the successor would be killed."""
    situation = candidate.situation
    if candidate.action is not Action.EVICT or situation.upstream or situation.recommended.reverted is not None:
        return None
    needed = {each.container: each.uncapped.memory for each in situation.recommended.containers}
    _, limits = changes(situation)
    for seen in situation.pod.fact.containers:
        need, before, after = needed.get(seen.name), seen.limits.memory, getattr(limits.get(seen.name), "memory", None)
        if need is not None and before is not None and after is not None and after < min(need, before):
            return (
                f"the memory limit of container '{seen.name}' would fall from {bytes_text(before)} to {bytes_text(after)}, and "
                f"{bytes_text(need)} are recommended without the bounds of its policy, its namespace and its nodes"
            )
    return None


_JUDGEMENTS: Mapping[str, Judgement] = {
    "oom-bound": _oom_bound,
    "mode": _mode,
    "protected": _protected,
    "opt-out": _opted_out,
    "paused": _paused,
    "warm-up": _warm_up,
    "blind": _blind,
    "stale": _stale,
    "hpa": _hpa,
    "limit-range": _limit_range,
    "capped": _capped,
    "starving": _starving,
    "webhook": _webhook,
    "requirements": _requirements,
    "phase": _phase,
    "pod-warm-up": _pod_warm_up,
    "resizing": _resizing,
    "service-class": _service_class,
    "acceptance": _acceptance,
    "unchanged": disruption_guards.unchanged,
    "unpatched": disruption_guards.unpatched,
    "successor": disruption_guards.successor,
    "quota": _quota,
    "refused": _refused,
    "cool-down": _cool_down,
    "replicas": disruption_guards.replicas,
    "tolerance": disruption_guards.tolerance,
    "node": _node,
    "disruption-budget": disruption_guards.disruption_budget,
    "schedule": _schedule,
    "workload-budget": disruption_guards.workload_budget,
    "budget": disruption_guards.cluster_budget,
    "namespace-budget": disruption_guards.namespace_budget,
    "rate": _rate,
}
_JUDGED = tuple((guard.name, _JUDGEMENTS[guard.name]) for guard in GUARDS)
