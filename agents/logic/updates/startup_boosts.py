"""Startup boosts of running pods: until when each lasts, and what its container requests without it.

Admission gives a starting container more CPU and notes the normal amounts in an annotation. When its pod has been ready for long
enough, the CPU is lowered in place, once; even if that fails, no pod is evicted for it. Sources: upstream's pkg/updater/logic and
pkg/updater/restriction.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import limit_amounts
from agents.logic.updates.pod_advice import AlikePods, PodAdvice
from agents.logic.updates.updater_records import NewestRecommendation, PodHistory, PodRecord
from schemas import times
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import BoostedContainer, PodChanged
from schemas.names import Amounts
from schemas.policies.vertical import ContainerMode, ControlledValues, UpdateMode


@dataclass(frozen=True, slots=True)
class BoostedPod:
    """A pod with boosts that are still set: those that are `over`, and the first turn in which another may be, if any."""

    over: tuple[BoostedContainer, ...]
    next: int | None


def boosted(fact: PodChanged, history: PodHistory, policy: PolicyRecord, now: int) -> BoostedPod | None:
    """The boosts of a pod in turn `now`; None if it has none, or none any more."""
    # Upstream removes the annotation afterwards. We remember that it was done, so that no right to change pods is needed.
    standing = [container for container in fact.boosted if container.name not in history.unboosted]
    if not standing:
        return None
    if fact.ready_since is None:
        return BoostedPod((), None)
    ready = times.to_ms(fact.ready_since)
    ends = {container: ready + _duration_ms(policy, container.name) for container in standing}
    ahead = [end for end in ends.values() if end > now]
    return BoostedPod(tuple(container for container, end in ends.items() if end <= now), min(ahead, default=None))


def ends(fact: PodChanged, history: PodHistory, policy: PolicyRecord) -> Sequence[int]:
    """The turns in which a pod's boosts that are still set end; none while it is not ready."""
    if fact.ready_since is None or policy.policy.foreign:
        return ()
    ready = times.to_ms(fact.ready_since)
    return [ready + _duration_ms(policy, boost.name) for boost in fact.boosted if boost.name not in history.unboosted]


def without_boosts(
    over: Sequence[BoostedContainer], pod: PodRecord, policy: PolicyRecord, advice: PodAdvice | None, now: int
) -> PodAdvice | None:
    """What a pod should request without these boosts: the recommended CPU, else the normal one.

    None where that lowers nothing. `advice` is None where nothing is recommended; it lacks CPU where that is left to an HPA.
    """
    lowered = dict(_lowered(over, pod.fact, policy, advice))
    if not lowered:
        return None
    targets = {name: Amounts(cpu=request.cpu) for name, (request, _) in lowered.items()}
    containers = tuple(ContainerRecommendation(name, cpu, cpu, cpu, cpu) for name, cpu in targets.items())
    recommended = (
        NewestRecommendation("", now, times.from_ms(now), pod.place, containers)
        if advice is None
        # As of now, so that it is never stale: the boost has ended, however old the recommendation.
        else replace(advice.recommended, containers=containers, turn=now)
    )
    exact = tuple(map(resource_lists.of_recommendation, containers))
    return PodAdvice(AlikePods(pod.fact.containers, None), recommended, exact, lambda seen, _: lowered[seen.name][1])


def _lowered(
    over: Sequence[BoostedContainer], fact: PodChanged, policy: PolicyRecord, advice: PodAdvice | None
) -> Iterator[tuple[str, tuple[Amounts, Amounts]]]:
    """By container the request and the limit to be set."""
    recommends = policy.policy.update_mode is not UpdateMode.OFF and advice is not None
    targets = advice.targets if advice is not None and recommends else {}
    now = {container.name: container for container in fact.containers}
    for boost in over:
        entry = bounds(policy, boost.name)
        target = targets.get(boost.name, Amounts()) if entry.mode is not ContainerMode.OFF else Amounts()
        seen = now.get(boost.name)
        cpu, before = boost.requests.cpu if target.cpu is None else target.cpu, None if seen is None else seen.requests.cpu
        if cpu is not None and before is not None and cpu < before:
            follows = entry.controlled_values is not ControlledValues.REQUESTS_ONLY
            # In proportion to the normal amounts, as the boosted limit was raised along with the request.
            limit = limit_amounts(boost.requests, boost.limits, Amounts(cpu=cpu)) if follows else Amounts()
            yield boost.name, (Amounts(cpu=cpu), limit)


def _duration_ms(policy: PolicyRecord, container: str) -> int:
    """How long the boost of a container lasts after its pod is ready: as its policy says, else the VPA, else not at all."""
    vpa = policy.policy.vpa
    boost = bounds(policy, container).boost or (None if vpa is None else vpa.boost)
    return int(boost.duration * 1000) + 1 if boost is not None and boost.duration else 0


EndsOf = Callable[[str], Sequence[int]]
"""The turns in which the boosts of a pod end, by its uid."""


class BoostEnds:
    """The turns in which boosts end, the first one first, so that they end in that very turn, whatever the updater's interval.

    They follow from the state, and are found again after a restart.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[int, str]] | None = None
        self._seen: set[str] = set()

    def note(self, uid: str) -> None:
        """A fact about a boosted pod has come in this turn."""
        self._seen.add(uid)

    def forget(self) -> None:
        """Policies, or the whole state, have changed."""
        self._ends = None

    def due(self, after: int, now: int, uids: Iterable[str], ends_of: EndsOf) -> set[str]:
        """The pods with a boost that ended after the turn `after`, until `now`, or is only now known to have ended.

        `uids` are all pods; it is called once in each turn.
        """
        if self._ends is None:
            self._ends = [(end, uid) for uid in uids for end in ends_of(uid) if end > after]
            heapq.heapify(self._ends)
        else:
            for uid in self._seen:
                for end in ends_of(uid):
                    heapq.heappush(self._ends, (end, uid))
        # From the state before and the facts of this turn alone, so that a restart in between changes nothing.
        due = {uid for uid in self._seen if any(end <= now for end in ends_of(uid))}
        self._seen.clear()
        while self._ends and self._ends[0][0] <= now:
            _, uid = heapq.heappop(self._ends)
            # The end may have moved since it was entered, as when the pod was not ready for a while.
            if any(after < end <= now for end in ends_of(uid)):
                due.add(uid)
        return due
