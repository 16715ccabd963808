"""What would happen to pods if plans were carried out from now on, by the updater's own guards, without deciding anything.

The updater decides for one interval, but people want to know everything that is ahead: a pod that only waits for its turn, for a
budget or the end of a cool-down, will be changed, and a pod that another guard holds back will not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache

from agents.logic.governing_policies import PolicyRecord
from agents.logic.guards.guard_records import WAITING
from agents.logic.guards.shared_guards import Objection
from agents.logic.updates import cap_sentences, oom_loops, startup_boosts, successor_nodes, update_guards
from agents.logic.updates.candidate import Candidate
from agents.logic.updates.successor_nodes import SuccessorRoom
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.updater import Updater
from agents.logic.updates.updater_records import NO_HISTORY
from schemas import times
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodPhase
from schemas.policies.control import Mode


@dataclass(frozen=True, slots=True)
class PodOutlook:
    """A pod that should be changed, the guards' knowledge of its cluster, and all their objections, in order."""

    candidate: Candidate
    cluster: ClusterSituation
    objections: tuple[Objection, ...]

    @property
    def refused(self) -> Objection | None:
        """The first objection that does not pass by itself; None if the pod will be changed."""
        return next((objection for objection in self.objections if objection.guard not in WAITING), None)

    @property
    def waits(self) -> Objection | None:
        """What a pod waits for that will be changed later."""
        return self.objections[0] if self.objections and self.refused is None else None


def outlook(updater: Updater, cluster: str) -> Iterator[PodOutlook]:
    """Every pod of a cluster that should be changed, the most urgent first."""
    control = updater.clusters.control.get(cluster)
    applied = control is not None and control.event.mode is Mode.APPLY
    # While the mode is not apply nobody carries plans out, and those that were made hold nothing back.
    for candidates in updater.candidates(fresh=not applied):
        if candidates.cluster == cluster:
            for candidate, situation, objection in candidates.judged():
                objections = () if objection is None else tuple(update_guards.objections(candidate, situation))
                yield PodOutlook(candidate, situation, objections)


class NoChange(StrEnum):
    """Why a pod need not be changed, as in: 4 pods ..."""

    UNKNOWN = "are not known"
    ENDED = "have ended"
    LEAVING = "are being deleted"
    NODELESS = "wait for a node"
    UNGOVERNED = "have no policy and no VPA"
    FOREIGN = "have a VPA that another recommender serves"
    BOOSTED = "have a startup boost"
    KILLED = "are OOM-killed again and again"
    NOT_RECOMMENDED = "have no recommendation yet"
    PLANNED = "have a plan that is open"
    REVERTED = "request what a revert put back"
    FITTING = "request amounts within the recommended bounds"


_OF_ONE = {"are": "is", "have": "has", "request": "requests", "wait": "waits"}


def counted(why: NoChange, count: int) -> str:
    """How many pods need no change for this reason, as in: 4 have ended."""
    verb, _, rest = why.value.partition(" ")
    return f"{count} {_OF_ONE[verb] if count == 1 else verb} {rest}"


def no_change(updater: Updater, uid: str) -> NoChange:
    """Why a pod need not be changed, if `outlook` does not have it."""
    return next(_reasons(updater, uid))[0]


def not_wanted(updater: Updater, uid: str) -> str:
    """The same in a sentence."""
    why, sentence = next(_reasons(updater, uid))
    pod = updater.clusters.pods.get(uid)
    if pod is None or why is not NoChange.NODELESS:
        return sentence
    # Only for a sentence, because it looks at every node, and thousands of pods may wait.
    return f"{sentence}: {successor_nodes.waiting(pod.fact, _rooms(updater, pod.fact.workload.cluster, updater.turn))}"


def _reasons(updater: Updater, uid: str) -> Iterator[tuple[NoChange, str]]:
    """All that holds, the first first."""
    pod, now = updater.clusters.pods.get(uid), updater.turn
    if pod is None:
        yield NoChange.UNKNOWN, "the updater knows no such pod: no source has published it, or it is gone"
        return
    yield from _of_itself(pod.fact)
    workload = pod.fact.workload.key
    policy = updater.policies.of(workload)
    if policy is None:
        yield NoChange.UNGOVERNED, f"no policy and no VPA governs '{workload}'"
        return
    if policy.policy.foreign:
        yield NoChange.FOREIGN, f"another recommender serves the VPA of '{workload}', so it is not ours to change"
        return
    boosted = startup_boosts.boosted(pod.fact, updater.clusters.histories.get(uid) or NO_HISTORY, policy, now)
    if boosted is not None and not boosted.over:
        until = "its pod is ready" if boosted.next is None else f"{times.from_ms(boosted.next):%H:%M:%S}"
        yield NoChange.BOOSTED, f"it has a startup boost, which lasts until {until}"
    if loop := loop_without_advice(updater, pod.fact, policy):
        yield NoChange.KILLED, loop
    if updater.clusters.wanted(workload, now) is None:
        yield NoChange.NOT_RECOMMENDED, f"there is no recommendation for '{workload}' yet"
    if (planned := _planned(updater, uid)) is not None:
        yield NoChange.PLANNED, planned
    if workload in updater.clusters.reverts:
        yield NoChange.REVERTED, "its workload was reverted, and it requests what was put back"
    recommended = updater.clusters.wanted(workload, now)
    beyond = () if recommended is None else cap_sentences.of_bounds(recommended, policy)
    more = "".join(f"; {sentence}" for sentence in beyond)
    yield NoChange.FITTING, f"its requests lie within the recommended bounds, so it need not be changed{more}"


def loop_without_advice(updater: Updater, pod: PodChanged, policy: PolicyRecord) -> str:
    """What keeps a loop of OOM kills going that no recommendation can end, or where there is none; empty without such a loop."""
    at, within = times.from_ms(updater.turn), timedelta(seconds=updater.settings.quick_oom)
    if loop := oom_loops.bound_beyond_advice(pod, at, within):
        return loop
    advised = updater.clusters.wanted(pod.workload.key, updater.turn) is not None
    return "" if advised else oom_loops.bound_without_advice(pod, policy, at, within)


def _of_itself(pod: PodChanged) -> Iterator[tuple[NoChange, str]]:
    """What holds of a pod whatever is known besides."""
    if pod.phase in ENDED_PHASES:
        yield NoChange.ENDED, f"the pod has ended: it is {pod.phase.value}"
    if pod.leaving:
        yield NoChange.LEAVING, "the pod is being deleted"
    if pod.phase is PodPhase.PENDING and pod.node is None:
        yield NoChange.NODELESS, "it waits for a node"


# Somebody asks about one pod after the other, and the sum over all nodes is the same for each.
@lru_cache(maxsize=1)
def _rooms(updater: Updater, cluster: str, turn: int) -> Sequence[SuccessorRoom]:
    """What the nodes of a cluster have in this turn."""
    return updater.clusters.constraints.rooms.of(cluster, successor_nodes.daemons(updater.clusters.pods_of, cluster), turn)


def _planned(updater: Updater, uid: str) -> str | None:
    history = updater.clusters.histories.get(uid)
    if history is None or history.plan is None or not history.has_plan(updater.turn):
        return None
    state = "was carried out" if history.plan.done else f"may be carried out until {times.from_ms(history.plan.expires):%H:%M:%S}"
    return f"a plan for it is open and {state}: {history.plan.id}"
