"""The guards of the updater: each examines a pod that should be changed and may object, with the reason."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agents.logic.guards import budget, budget_schedules, shared_guards
from agents.logic.guards.budget import Headcount
from agents.logic.guards.budget_schedules import ScheduledBudget
from agents.logic.guards.shared_guards import ControlRecord, Objection
from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import Container
from agents.logic.updates import eviction_tolerance, pod_disruption_budgets
from agents.logic.updates.candidate import Candidate, disrupts, infeasible, stuck
from agents.logic.updates.eviction_tolerance import ReplicaCounts, ReplicaGroup
from agents.logic.updates.pod_disruption_budgets import BudgetRecord
from agents.logic.updates.update_priority import UpdateReason, admitted
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.workload_evictions import WorkloadEviction
from schemas.decisions.recommendations import CitedRules
from schemas.facts.pods import PodPhase, ResizeState
from schemas.outcomes import Action
from schemas.policies.control import Mode
from schemas.policies.vertical import UpdateMode
from schemas.units import Fraction


@dataclass(frozen=True, slots=True)
class ClusterSituation:
    """What the guards may know besides the pod. Times are turn numbers.

    `facts_seen`: the last turn with a fact about a pod of the cluster; `workload` and `namespace`: the candidate's own;
    `planned`: how many plans were made for the cluster in this turn; `rules`: those of the log that the settings come from;
    `evicted`: the last eviction of the workload; `groups`: its pods by direct controller; `webhook_away`: why no webhook is
    running, None if one is or nothing watches for it; `disruption_budgets`: those that select the workload's pods, and
    `evicting`: for how many evictions that each of them selects a plan is open, by its key.
    """

    now: int
    first_turn: int
    facts_seen: int
    control: ControlRecord | None
    cluster: Headcount
    workload: Headcount
    namespace: Headcount
    planned: int
    settings: UpdateSettings
    rules: CitedRules | None = None
    evicted: WorkloadEviction | None = None
    groups: Mapping[str, ReplicaCounts] = field(default_factory=dict)
    webhook_away: str | None = None
    disruption_budgets: Sequence[BudgetRecord] = ()
    evicting: Mapping[str, int] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The cluster's mode."""
        return shared_guards.mode(self.control)

    @property
    def budget(self) -> Fraction:
        """The share of pods that may be away or being changed at one time."""
        return self._at_most(shared_guards.budget(self.control, self.settings.budget))

    def workload_budget(self, said: Fraction | None) -> Fraction:
        """The same for one workload, whose policy may have `said` another share."""
        return self.budget if said is None else self._at_most(said)

    @property
    def scheduled(self) -> ScheduledBudget | None:
        """The smallest of the budgets that hold at this time."""
        return budget_schedules.in_force(self.settings.budget_schedules, self.now)

    def _at_most(self, share: Fraction) -> Fraction:
        if self.settings.profile == UpdaterProfile.UPSTREAM:
            return Fraction(1.0)
        return budget_schedules.at_most(share, self.settings.budget_schedules, self.now)


Guard = Callable[[Candidate, ClusterSituation], str | None]


def first_objection(candidate: Candidate, cluster: ClusterSituation) -> Objection | None:
    """The first guard that objects, or None."""
    return shared_guards.first_objection(GUARDS, candidate, cluster)


def objections(candidate: Candidate, cluster: ClusterSituation) -> Iterator[Objection]:
    """All guards that object, in their order."""
    for name, guard in GUARDS:
        reason = guard(candidate, cluster)
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
    namespace = candidate.situation.pod.fact.pod.namespace
    patterns = (each.strip() for each in cluster.settings.protected_namespaces.split(","))
    found = next((each for each in patterns if each and fnmatchcase(namespace, each)), None)
    return None if found is None else f"namespace '{namespace}' is protected by the setting '{found}'"


def _opted_out(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    asked = candidate.situation.pod.fact.opted_out
    if not asked or not cluster.settings.honor_opt_outs or not disrupts(candidate):
        return None
    return f"the pod is annotated '{asked}', which asks that nobody evicts it"


def _unchanged(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    evicted, pause = cluster.evicted, cluster.settings.unchanged_pause
    if candidate.action is not Action.EVICT or evicted is None or evicted.judged is None or not evicted.fault:
        return None
    seconds = (cluster.now - evicted.judged) / 1000
    return None if seconds >= pause else f"{evicted.fault}; the next pod is evicted after {pause:g} s"


def _paused(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return shared_guards.paused(cluster.control)


def _warm_up(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return shared_guards.warming_up(
        stage="updater", now=cluster.now, first_turn=cluster.first_turn, warm_up=cluster.settings.warm_up
    )


def _blind(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return shared_guards.blind(fact="pod fact", now=cluster.now, seen=cluster.facts_seen, within=cluster.settings.facts_within)


_URGENT = frozenset({UpdateReason.QUICK_OOM, UpdateReason.REVERT, UpdateReason.BOOST_OVER})
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
    containers = [Container(c.name, resource_lists.of_amounts(c.requests)) for c in situation.pod.fact.containers]
    advice = tuple(map(resource_lists.of_recommendation, situation.recommended.containers))
    return None if admitted(containers, advice, vpa.requirements) else f"VPA '{vpa.key}' has requirements that no container meets"


def _schedule(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    scheduled = cluster.scheduled
    return scheduled.closed or None if scheduled is not None else None


def _webhook(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    upstream = cluster.settings.profile == UpdaterProfile.UPSTREAM  # upstream's updater does nothing at all without one
    if cluster.webhook_away is None or candidate.situation.unboosts or not (candidate.action is Action.EVICT or upstream):
        return None
    return f"no webhook is at work that would change the pod's successor: {cluster.webhook_away}"


def _hpa(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    if not candidate.left:
        return None
    return f"a HorizontalPodAutoscaler scales the workload by {' and '.join(sorted(candidate.left))}, which is left to it"


def _limit_range(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    fault = candidate.situation.advice.fault
    return f"what is recommended cannot be brought within the namespace's LimitRanges: {fault}" if fault else None


def _stale(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    taken, within = candidate.situation.recommended.turn, cluster.settings.recommendation_within
    return shared_guards.stale(what="recommendation", now=cluster.now, taken=taken, within=within)


def _phase(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    phase = candidate.situation.pod.fact.phase
    if phase is PodPhase.RUNNING or serves_nobody(candidate, cluster):
        return None
    return f"the pod is {phase.value}, not Running"


def serves_nobody(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether an eviction costs nothing, as upstream has it: its pod has a node, but has not begun."""
    situation = candidate.situation
    fact, mode = situation.pod.fact, situation.policy.policy.update_mode
    upstream = cluster.settings.profile == UpdaterProfile.UPSTREAM and mode in (UpdateMode.RECREATE, UpdateMode.AUTO)
    return upstream and candidate.action is Action.EVICT and fact.phase is PodPhase.PENDING and fact.node is not None


def _resizing(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    state, situation = candidate.situation.pod.fact.resize, candidate.situation
    if candidate.action is Action.EVICT:
        if state is ResizeState.NONE or stuck(situation):
            return None
    elif infeasible(situation):
        return "the pod's node could never hold what was asked for, and no less is asked for now"
    elif state is ResizeState.NONE or (state is ResizeState.INFEASIBLE and situation.history.infeasible):
        return None
    return f"a resize of the pod is {state.value}"


def _cool_down(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    if candidate.situation.recommended.reverted is not None:
        return None  # the revert was requested because of what was planned a short time ago
    history = candidate.situation.history
    if set(candidate.situation.unboosts) - set(history.tried):
        return None  # the end of a boost does not wait for other plans
    acted = history.acted
    return shared_guards.cooling_down(subject="pod", now=cluster.now, planned=acted, cool_down=cluster.settings.cool_down)


def _service_class(candidate: Candidate, _cluster: ClusterSituation) -> str | None:
    policy = candidate.situation.policy.policy
    reverted, unboosts = candidate.situation.recommended.reverted is not None, bool(candidate.situation.unboosts)
    if candidate.situation.advice.keeps_class or not (reverted or unboosts or policy.update_mode is UpdateMode.IN_PLACE):
        return None
    why = f"policy '{policy.target}' lets no pod be evicted"
    if reverted or unboosts:
        why = "a revert evicts nobody" if reverted else "nobody is evicted to end a startup boost"
    return f"a resize would change the pod's class of service, and {why}"


def _replicas(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    counts = _counts(candidate, cluster)
    if candidate.situation.workload.split("/")[2] == "Pod":
        return "no controller would make the pod anew"
    group = _group(candidate, cluster)
    if group is not None and not (group.below_minimum and candidate.action is Action.EVICT):
        return None
    if group is None and counts.configured(strict=cluster.settings.disruption.strict) is None:
        return f"{_owner(counts)} wants no pods"
    return f"{_owner(counts)} has {counts.live} pods; fewer than {cluster.settings.min_replicas} are left alone"


def _tolerance(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    group = _group(candidate, cluster)
    if group is None or group.disruptable or serves_nobody(candidate, cluster):
        return None
    if cluster.settings.in_place_skips_disruption and not _restarts(candidate, cluster):
        return None
    owner = _owner(_counts(candidate, cluster))
    are = f"{group.undisturbed} of the {group.configured} pods of {owner} are there and not being changed"
    return f"{are}; the tolerance is {group.tolerance:g}"


def _restarts(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether the change stops a container. For upstream any resize policy that may do so is enough."""
    if cluster.settings.profile != UpdaterProfile.UPSTREAM:
        return disrupts(candidate)
    return candidate.action is Action.EVICT or any(c.restarts_on for c in candidate.situation.pod.fact.containers)


def _disruption_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    if candidate.action is not Action.EVICT or not cluster.settings.honor_disruption_budgets:
        return None
    ready = all(container.ready for container in candidate.situation.pod.fact.containers)
    return pod_disruption_budgets.objection(cluster.disruption_budgets, begun=cluster.evicting, ready=ready)


def _counts(candidate: Candidate, cluster: ClusterSituation) -> ReplicaCounts:
    """The pods that have the same direct controller."""
    return cluster.groups[candidate.situation.pod.fact.controller]


def _owner(counts: ReplicaCounts) -> str:
    """ReplicaSet 'api-7d9f'."""
    kind, _, name = counts.controller.partition("/")
    return f"{kind} '{name}'" if name else "the workload"


def _group(candidate: Candidate, cluster: ClusterSituation) -> ReplicaGroup | None:
    """The pod's group. One with an open plan that stops a container counts as begun."""
    counts, unboosts = _counts(candidate, cluster), bool(candidate.situation.unboosts)
    rules, mode = cluster.settings.disruption, candidate.situation.policy.policy.update_mode
    return eviction_tolerance.group(counts, mode, rules, boosted=unboosts or (rules.strict and counts.boosted))


def _workload_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    share = cluster.workload_budget(candidate.situation.policy.policy.guards.budget)
    return budget.over_budget("workload", cluster.workload, share)


def _namespace_budget(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return budget.over_budget("namespace", cluster.namespace, cluster.budget)


def _cluster_budget(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return budget.over_budget("cluster", cluster.cluster, cluster.budget)


def _rate(_candidate: Candidate, cluster: ClusterSituation) -> str | None:
    return shared_guards.over_rate(planned=cluster.planned, rate=cluster.settings.rate, interval=cluster.settings.interval)


GUARDS: tuple[tuple[str, Guard], ...] = (
    ("mode", _mode),
    ("protected", _protected),
    ("opt-out", _opted_out),
    ("paused", _paused),
    ("warm-up", _warm_up),
    ("blind", _blind),
    ("stale", _stale),
    ("hpa", _hpa),
    ("limit-range", _limit_range),
    ("webhook", _webhook),
    ("requirements", _requirements),
    ("phase", _phase),
    ("pod-warm-up", _pod_warm_up),
    ("resizing", _resizing),
    ("service-class", _service_class),
    ("unchanged", _unchanged),
    ("cool-down", _cool_down),
    ("replicas", _replicas),
    ("tolerance", _tolerance),
    ("disruption-budget", _disruption_budget),
    ("schedule", _schedule),
    ("workload-budget", _workload_budget),
    ("budget", _cluster_budget),
    ("namespace-budget", _namespace_budget),
    ("rate", _rate),
)
"""In the order in which they are asked."""
