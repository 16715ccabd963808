"""The guards of the updater that bound how many pods are away at once: replicas, tolerance, disruption budgets and shares."""

from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Headcount
from agents.logic.updates import eviction_tolerance, pod_disruption_budgets
from agents.logic.updates.candidate import Candidate, disrupts
from agents.logic.updates.eviction_tolerance import ReplicaCounts, ReplicaGroup, serves
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_settings import UpdaterProfile
from schemas.facts.pods import PodPhase
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode


def serves_nobody(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether an eviction costs nothing, as upstream has it: its pod has a node, but has not begun."""
    situation = candidate.situation
    fact, mode = situation.pod.fact, situation.policy.policy.update_mode
    upstream = cluster.settings.profile == UpdaterProfile.UPSTREAM and mode in (UpdateMode.RECREATE, UpdateMode.AUTO)
    return upstream and candidate.action is Action.EVICT and fact.phase is PodPhase.PENDING and fact.node is not None


def replicas(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because too few of its controller are there."""
    if candidate.harmless:
        return None
    counts = _counts(candidate, cluster)
    if candidate.situation.workload.split("/")[2] == "Pod":
        # A bare pod that is evicted is gone for good, and a budget of one replica would let it go.
        return "no controller would make the pod anew"
    group = _group(candidate, cluster)
    if group is not None and not (group.below_minimum and candidate.action is Action.EVICT):
        return None
    if group is None and counts.configured(strict=cluster.settings.disruption.strict) is None:
        return f"{owner_of(counts)} wants no pods"
    lost = candidate.situation.broken or bool(candidate.looping)
    if candidate.rescue and lost and candidate.situation.policy.policy.guards.min_replicas is None:
        # It serves nobody, now or again and again. Only an owner who has said how many pods must be there is obeyed.
        return None
    return f"{owner_of(counts)} has {counts.live} pods; fewer than {cluster.settings.min_replicas} are left alone"


def tolerance(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because others of its controller are being changed."""
    if candidate.harmless or candidate.raises:
        return None
    group = _group(candidate, cluster)
    if group is None or group.disruptable or serves_nobody(candidate, cluster):
        return None
    if cluster.settings.in_place_skips_disruption and not _restarts(candidate, cluster):
        return None
    owner = owner_of(_counts(candidate, cluster))
    are = f"{group.undisturbed} of the {group.configured} pods of {owner} are there and not being changed"
    return f"{are}; the tolerance is {group.tolerance:g}"


def _restarts(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether the change stops a container."""
    # For upstream any resize policy that may do so is enough.
    if cluster.settings.profile != UpdaterProfile.UPSTREAM:
        return disrupts(candidate)
    return candidate.action is Action.EVICT or any(c.restarts_on for c in candidate.situation.pod.fact.containers)


def disruption_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of a PodDisruptionBudget."""
    # The API server asks the budgets for an eviction only; a resize that restarts a container takes a pod away as well.
    if not disrupts(candidate) or candidate.harmless or not cluster.settings.honor_disruption_budgets:
        return None
    ready = all(container.ready for container in candidate.situation.pod.fact.containers)
    return pod_disruption_budgets.objection(cluster.disruption_budgets, begun=cluster.stopping, ready=ready)


def _counts(candidate: Candidate, cluster: ClusterSituation) -> ReplicaCounts:
    """The pods that have the same direct controller."""
    return cluster.groups[candidate.situation.pod.fact.controller]


def owner_of(counts: ReplicaCounts) -> str:
    """ReplicaSet 'api-7d9f'."""
    kind, _, name = counts.controller.partition("/")
    return f"{kind} '{name}'" if name else "the workload"


def _group(candidate: Candidate, cluster: ClusterSituation) -> ReplicaGroup | None:
    """The pod's group. One with an open plan that stops a container counts as begun."""
    counts, unboosts = _counts(candidate, cluster), bool(candidate.situation.unboosts)
    rules, mode = cluster.settings.disruption, candidate.situation.policy.policy.update_mode
    down = not serves(candidate.situation.pod.fact)
    return eviction_tolerance.group(counts, mode, rules, boosted=unboosts or (rules.strict and counts.boosted), down=down)


def _spared(candidate: Candidate, headcount: Headcount, *, own: bool = False) -> int:
    """How many of those that are away do not hold the change back. `own`: they are the workload's own pods."""
    if not disrupts(candidate):
        # A change that stops no container takes nothing away, whatever is missing.
        return headcount.missing + headcount.down
    if serves(candidate.situation.pod.fact):
        return 0
    # A pod that serves nobody takes nothing away, and the others that serve nobody are like it. Where pods of its own workload do
    # not come, its successor may not come either; what other workloads lack says nothing about it.
    return headcount.down + (0 if own else headcount.missing)


def workload_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of its workload's share."""
    if candidate.harmless or candidate.raises:
        return None
    share = cluster.workload_budget(candidate.situation.policy.policy.guards.budget)
    return shared_guards.over_budget("workload", cluster.workload, share, spared=_spared(candidate, cluster.workload, own=True))


def namespace_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of its namespace's share."""
    if candidate.harmless or candidate.raises:
        return None
    return shared_guards.over_budget("namespace", cluster.namespace, cluster.budget, spared=_spared(candidate, cluster.namespace))


def cluster_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of its cluster's share."""
    if candidate.harmless or candidate.raises:
        return None
    return shared_guards.over_budget("cluster", cluster.cluster, cluster.budget, spared=_spared(candidate, cluster.cluster))
