"""The guards of the updater that look at what came of earlier evictions: whether new pods come, and whether they are changed."""

from collections.abc import Iterable

from agents.logic.updates import disruption_guards, missing_pods
from agents.logic.updates.candidate import Candidate
from agents.logic.updates.eviction_tolerance import ReplicaCounts, serves
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_priority import UpdateReason
from agents.logic.updates.update_settings import UpdaterProfile
from schemas.outcomes import Action


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
        return f"{disruption_guards.owner_of(refused)} cannot make new pods: {refused.wanted.refusal}"
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
    owner = disruption_guards.owner_of(own)
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
