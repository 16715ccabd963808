"""The guards of the updater that bound how many pods are away at once, and those that wait for successors of evicted pods.

The first go by replicas, tolerance, disruption budgets and shares; the others by what became of the pods that were evicted.
"""

from collections.abc import Iterable

from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Headcount
from agents.logic.updates import eviction_tolerance, missing_pods, pod_disruption_budgets
from agents.logic.updates.candidate import Candidate, disrupts
from agents.logic.updates.eviction_tolerance import ReplicaCounts, ReplicaGroup, serves
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_priority import UpdateReason
from agents.logic.updates.update_settings import UpdaterProfile
from schemas.facts.pods import PodPhase
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode
from schemas.units import counted


def serves_nobody(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether an eviction costs nothing, as upstream has it: its pod has a node, but has not begun."""
    situation = candidate.situation
    fact, mode = situation.pod.fact, situation.policy.policy.update_mode
    upstream = cluster.settings.profile == UpdaterProfile.UPSTREAM and mode in (UpdateMode.RECREATE, UpdateMode.AUTO)
    return upstream and candidate.action is Action.EVICT and fact.phase is PodPhase.PENDING and fact.node is not None


def replicas(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because too few of its controller are there."""
    if candidate.harmless or candidate.raises:
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
    return f"{owner_of(counts)} has {counted(counts.live, 'pod')}; fewer than {cluster.settings.min_replicas} are left alone"


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
    # A sidecar that is not ready makes its pod so.
    ready = all(container.ready for container in candidate.situation.pod.fact.running_together)
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
    spared = _spared(candidate, cluster.workload, own=not _awaited(candidate, cluster))
    return shared_guards.over_budget("workload", cluster.workload, share, spared=spared)


def _awaited(candidate: Candidate, cluster: ClusterSituation) -> bool:
    """Whether the pods of its workload that are missing may well wait for this one."""
    # A StatefulSet makes its next pod once those before it are ready. If the first of them is killed at each start, all others
    # are missing for ever. Where a pod that we evicted does not come, it is something else.
    ordered = candidate.situation.pod.fact.controller.startswith("StatefulSet/")
    return ordered and candidate.rescue and bool(candidate.looping) and cluster.short is None


def namespace_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of its namespace's share."""
    if candidate.harmless or candidate.raises:
        return None
    return shared_guards.over_budget("namespace", cluster.namespace, cluster.budget, spared=_spared(candidate, cluster.namespace))


def cluster_budget(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because of its cluster's share."""
    if candidate.harmless or candidate.raises:
        return None
    # What a namespace lacks beyond its own budget counts there alone: else one tenant's pods that never come, as many as it likes
    # to ask for, would hold back everybody.
    beyond = cluster.beyond_shares(cluster.budget)
    spared = max(beyond, _spared(candidate, cluster.cluster))
    objection = shared_guards.over_budget("cluster", cluster.cluster, cluster.budget, spared=spared)
    return (
        f"{objection}, beside {beyond} that are away beyond the budgets of their namespaces"
        if objection and beyond
        else objection
    )


def unchanged(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because evictions of its workload changed nothing."""
    # After an eviction in vain one pod is tried at a time, and later after each: nobody knows when the reason is gone.
    evicted = cluster.evicted
    if candidate.action is not Action.EVICT or evicted is None or not evicted.vain:
        return None
    pause = evicted.pause(cluster.settings.unchanged_pause)
    since = evicted.at if evicted.judged is None else evicted.judged
    if (cluster.now - since) / 1000 < pause:
        why = evicted.fault or "the successor of the last evicted pod is not known yet"
        return f"{why}; the next pod is evicted after {pause:g} s, after {evicted.vain} in vain"
    # `acting` has the pods that serve, and `begun` the others as well.
    if pause and (cluster.workload.acting or any(counts.begun for counts in cluster.groups.values())):
        return "another pod of the workload is evicted, to see whether that changes anything now"
    return None


def successor(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because its workload gets no new pods, or its Job would fail."""
    # A pod that is evicted from a workload whose new pods do not come is one more that is missing.
    if candidate.action is not Action.EVICT or cluster.settings.profile == UpdaterProfile.UPSTREAM:
        return None
    groups = cluster.groups.values()
    refused = next((counts for counts in groups if counts.wanted is not None and counts.wanted.refusal), None)
    if refused is not None and refused.wanted is not None:
        return f"{owner_of(refused)} cannot make new pods: {refused.wanted.refusal}"
    own = cluster.groups.get(candidate.situation.pod.fact.controller)
    if own is not None and (failure := _failure(own)):
        return failure
    if cluster.short is None or cluster.evicted is None or _is_lost(candidate, groups):
        return None
    seconds = (cluster.now - cluster.short) / 1000
    if seconds < cluster.settings.successor_within:
        return None
    late = "has not come for" if any(counts.missing for counts in groups) else "is not ready after"
    return f"the successor of an evicted pod {late} {seconds:g} s: {missing_pods.shortage(groups, cluster.evicted)}"


def _failure(own: ReplicaCounts) -> str:
    """Why the Job of a pod may fail without it; empty where it does not."""
    owner = owner_of(own)
    if own.wanted is None:
        # Where no source may see Jobs, each of them may be one that fails.
        return f"nothing is known of {owner}, which may fail when a pod of it is evicted" if own.kind == "Job" else ""
    return f"{owner} would fail: {own.wanted.last_failure}" if own.wanted.last_failure else ""


def _is_lost(candidate: Candidate, groups: Iterable[ReplicaCounts]) -> bool:
    """Whether the pod is killed for want of memory again and again, and new pods do come: another one takes nothing away."""
    if UpdateReason.QUICK_OOM not in candidate.why or serves(candidate.situation.pod.fact):
        return False
    return all(counts.running == counts.should_be for counts in groups)


def unpatched(candidate: Candidate, cluster: ClusterSituation) -> str | None:
    """What keeps a pod because the webhook leaves new pods of its workload as they are."""
    # The webhook would leave the successor as it is, and the eviction would be in vain.
    pause = cluster.unpatched
    if candidate.action is not Action.EVICT or pause is None or cluster.settings.profile == UpdaterProfile.UPSTREAM:
        return None
    return pause.says(candidate.situation.workload)
