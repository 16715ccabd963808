"""The updater's decisions: a plan for one pod, or a refusal for the pods of a workload, with the numbers that it rests on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Decided, Turn
from agents.logic.governing_policies import body
from agents.logic.guards.guard_records import LASTING, SAID_AGAIN
from agents.logic.guards.shared_guards import Headcount, Objection, plan_expiry
from agents.logic.updates import cap_sentences
from agents.logic.updates.candidate import Candidate, PodSituation, changes
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_priority import UpdateReason
from agents.logic.updates.update_settings import NAME
from agents.logic.updates.updater_records import NONE_REFUSED, NewestRecommendation, RefusedPods
from schemas import times
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.pods import ContainerSeen
from schemas.ids import DecisionId
from schemas.names import Amounts, Place
from schemas.outcomes import Action
from schemas.policies.scaling import UtilizationMetric
from schemas.policies.vpa import VpaChanged
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard that holds back `pods` pods of a workload, with the most urgent of them and its objection."""

    candidate: Candidate
    situation: ClusterSituation
    objection: Objection
    pods: int = 1


def plan(candidate: Candidate, cluster: ClusterSituation, turn: Turn, partition: int) -> ResizePlanned | EvictionPlanned:
    """The plan for a pod that no guard holds back."""
    situation = candidate.situation
    fact = situation.pod.fact
    requests, limits = changes(situation)
    expiry = plan_expiry(turn, lifetime=cluster.settings.expires, inputs=_fresh_inputs(candidate, cluster))
    eviction = EvictionPlanned(
        id=str(DecisionId(NAME, partition, turn.number, candidate.action.value, fact.pod.uid)),
        at=turn.at,
        expires=expiry.expires,
        workload=fact.workload,
        pod=fact.pod,
        expect={c.name: c.requests for c in fact.containers if c.name in requests},
        because=_because(candidate, cluster) | _moved(situation, requests),
        recommendation=situation.recommended.id,
        stale_after=expiry.stale_after,
        vpa=_vpa(situation.policy.policy.vpa),
    )
    if candidate.action is Action.EVICT:
        return eviction
    return ResizePlanned(
        id=eviction.id,
        at=eviction.at,
        expires=eviction.expires,
        workload=eviction.workload,
        pod=eviction.pod,
        requests=requests,
        limits=limits,
        expect=eviction.expect,
        because=eviction.because,
        recommendation=eviction.recommendation,
        stale_after=eviction.stale_after,
        asked={name: amounts for name, amounts in fact.asked.items() if name in requests},
    )


def refusal(refused: Refusal, turn: Turn, partition: int) -> UpdateRefused:
    """The refusal for the pods of a workload that one guard holds back."""
    situation, guard = refused.candidate.situation, refused.objection.guard
    return UpdateRefused(
        id=str(DecisionId(NAME, partition, turn.number, f"refuse-{refused.objection.name}", situation.workload)),
        at=turn.at,
        workload=situation.pod.fact.workload,
        pod=situation.pod.fact.pod,
        guard=guard,
        reason=refused.objection.reason,
        because=_because(refused.candidate, refused.situation) | _caps(refused),
        recommendation=situation.recommended.id,
        pods=refused.pods,
    )


def _caps(refused: Refusal) -> dict[str, object]:
    """In words what caps each container, where that is why the pod is held back."""
    caps = refused.candidate.caps if refused.objection.guard == "capped" else {}
    return {"caps": cap_sentences.words(caps)} if caps else {}


def decided(event: ResizePlanned | EvictionPlanned | UpdateRefused, candidate: Candidate, cluster: ClusterSituation) -> Decided:
    """A decision with its topic, its key and the places it rests on."""
    return Decided("pod-updates", event.workload.cluster, event, _cause(candidate, cluster))


def _fresh_inputs(candidate: Candidate, cluster: ClusterSituation) -> Iterator[tuple[int, Seconds]]:
    """The inputs that a plan may only rest on while they are fresh: their turns, and for how long."""
    settings, recommended = cluster.settings, candidate.situation.recommended
    yield recommended.turn, settings.recommendation_within
    # Not the reports of sources: each would end a plan that waits for its node ten minutes after it was made.
    yield cluster.facts.seen, settings.facts_within
    # A kill is a reason only while it is new.
    if candidate.why in ((UpdateReason.QUICK_OOM,), (UpdateReason.OOM,)) and (killed := candidate.situation.killed) is not None:
        yield times.to_ms(killed), settings.quick_oom


def _because(candidate: Candidate, cluster: ClusterSituation) -> dict[str, object]:
    situation = candidate.situation
    wanted = {c.container: c for c in situation.recommended.containers}
    seen = [c for c in situation.pod.fact.containers if c.name in wanted]
    return {
        "mode": cluster.mode.value,
        "action": candidate.action.value,
        "why": [reason.value for reason in candidate.why],
        "difference": situation.advice.difference,
        "scale_up": situation.priority.scale_up,
        "policy": body(situation.policy),
        **_reverted(situation.recommended),
        "containers": {
            c.name: {
                "requests": _amounts(c.requests),
                "lower": _amounts(wanted[c.name].lower),
                "target": _amounts(wanted[c.name].target),
                "upper": _amounts(wanted[c.name].upper),
            }
            for c in seen
        },
        "pods": {"cluster": _count(cluster.cluster), "workload": _count(cluster.workload)},
        "budget": cluster.budget,
    }


def _moved(situation: PodSituation, requests: Mapping[str, Amounts]) -> dict[str, object]:
    """The factor (old requests over new ones) by which the plan changes each share of requests that the HPAs scale by."""
    moved: dict[str, float] = {}
    fact = situation.pod.fact
    for share in sorted(situation.scaled, key=lambda share: (share.resource, share.container)):
        # The HPA divides by what the pod requests as a whole, which the plan does not change.
        if not share.container and getattr(fact.requests, share.resource, None) is not None:
            continue
        # The HPA of a whole pod counts sidecars, too.
        counted = [container for container in fact.running_together if share.container in ("", container.name)]
        before, after = _sum(counted, share.resource, {}), _sum(counted, share.resource, requests)
        if before and after and before != after:
            moved[_named(share)] = before / after
    return {"hpa_utilization": moved} if moved else {}


def _sum(containers: Sequence[ContainerSeen], resource: str, planned: Mapping[str, Amounts]) -> float | None:
    """What containers request of a resource once a plan is carried out; None if one of them does not request it."""
    total = 0.0
    for container in containers:
        now, new = getattr(container.requests, resource, None), getattr(planned.get(container.name), resource, None)
        if now is None:
            return None
        total += now if new is None else new
    return total


def _named(share: UtilizationMetric) -> str:
    return f"{share.resource} of {share.container}" if share.container else share.resource


def _vpa(vpa: VpaChanged | None) -> Subject | None:
    if vpa is None:
        return None
    return Subject.of_object(vpa.cluster, "VerticalPodAutoscaler", vpa.namespace, vpa.name, vpa.uid)


def _reverted(recommended: NewestRecommendation) -> dict[str, object]:
    revert = recommended.reverted
    return {} if revert is None else {"reverted": {"since": times.rfc3339(revert.since), "reason": revert.reason}}


def _count(headcount: Headcount) -> dict[str, int]:
    return {"live": headcount.live, "running": headcount.running, "being_changed": headcount.acting}


def _amounts(amounts: Amounts) -> dict[str, float | None]:
    return {"cpu": amounts.cpu, "memory": amounts.memory}


def _cause(candidate: Candidate, cluster: ClusterSituation) -> tuple[Place, ...]:
    situation = candidate.situation
    control = () if cluster.control is None else (cluster.control.place,)
    rules = () if cluster.rules is None else (cluster.rules.place,)
    return (situation.pod.place, situation.recommended.place, situation.policy.place, *control, *rules)


_GROWTH = 2
"""How many times more pods are news."""
_FORGOTTEN = 3_600_000
"""Turns (milliseconds) after which a guard that comes back is news."""


class IntervalRefusals:
    """All refusals of one interval. `table` has the earlier ones: each is decided once, not in each interval.

    It is decided again when the guard comes back after it was gone for an hour, and when it holds back at least twice as many
    pods as before. So a roll-out of thousands of pods makes a few records, and neither alternating guards nor a varying number
    makes more.
    """

    def __init__(self, table: ObjectTable[RefusedPods]) -> None:
        self._table = table
        self._refusals: dict[str, dict[str, Refusal]] = {}
        self._pods: Counter[tuple[str, str]] = Counter()

    def add(self, candidate: Candidate, situation: ClusterSituation, objection: Objection) -> None:
        """A pod is held back. The most urgent pods come first."""
        workload, guard = candidate.situation.workload, objection.name
        guards = self._refusals.setdefault(workload, {})
        if guard not in guards:
            guards[guard] = Refusal(candidate, situation, objection)
        self._pods[workload, guard] += 1

    def news(self, now: int) -> Iterator[Refusal]:
        """The refusals to decide in turn `now`; updates the table accordingly."""
        # Those of the table, too: a guard that holds nothing back any more has to be noted as gone.
        for workload in [*self._refusals, *(key for key in list(self._table) if key not in self._refusals)]:
            refusals = {
                guard: replace(refusal, pods=self._pods[workload, guard])
                for guard, refusal in self._refusals.get(workload, {}).items()
            }
            before = self._table.get(workload) or NONE_REFUSED
            after, news = _news_of(before, refusals, now)
            if not after.guards:
                self._table.remove(workload)
            elif after != before:
                self._table.upsert(workload, after)
            yield from news


def _news_of(before: RefusedPods, refusals: Mapping[str, Refusal], now: int) -> tuple[RefusedPods, list[Refusal]]:
    """The new entry of a workload, and its refusals to decide now."""
    gone = {name: before.gone.get(name, now) for name in before.guards if name not in refusals}
    guards = {name: pods for name, pods in before.guards.items() if now - before.gone.get(name, now) < _FORGOTTEN}
    # What somebody has to put right is said again while it lasts, so that `status` can tell what is from what was.
    # So is what holds back a pod that is killed, by whichever guard, for the status of its VPA.
    again = {name for name, refusal in refusals.items() if refusal.objection.guard in LASTING or refusal.candidate.rescue}
    due = {name for name in again if now - before.said.get(name, 0) >= SAID_AGAIN}
    news = {name: refusal for name, refusal in refusals.items() if name in due or refusal.pods >= _GROWTH * guards.get(name, 0)}
    guards.update((name, refusal.pods) for name, refusal in news.items())
    said = {**before.said, **{name: now for name in news if name in again}}
    kept = {name: at for name, at in said.items() if name in guards}
    return RefusedPods(guards, {name: since for name, since in gone.items() if name in guards}, kept), [*news.values()]
