"""Containers that are killed for lack of memory: when, after how long, and whether more memory is on its way to them.

Each container is judged by its own last run, as upstream does: a pod that has served for a month may have a container that dies
within a minute of each start, and of ten pods each may be killed at another time.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources.resource_lists import MEMORY
from agents.logic.resources.target_caps import OF_RANGES, beyond_advice, memory_bound, unhelped
from agents.logic.updates import cap_sentences
from agents.logic.updates.pod_advice import PodAdvice
from agents.logic.updates.update_priority import RecentOomKill
from schemas.decisions.recommendations import TargetCuts
from schemas.facts.pods import ContainerRun, ContainerSeen, PodChanged
from schemas.policies.vertical import ContainerMode

# One kill may be an accident.
LEAST_RESTARTS = 2
"""Restarts from which on kills are a loop of which a bound is told."""
# The kubelet has waited five minutes in all by then: 10, 20, 40, 80 and 160 seconds.
MANY_RESTARTS = 6
"""Restarts from which on whatever holds a pod back is a bound."""
ANSWERED = timedelta(minutes=2)
"""A container that was started so long after a plan runs with what that gave it."""
CountingContainers = Callable[[str], bool]
"""Whether a container counts, by name: admission saw it, and its policy is not Off."""


def recently_killed(pod: PodChanged, at: datetime, within: timedelta) -> list[ContainerSeen]:
    """The containers whose last run ended by an OOM kill less than this long before `at`."""
    # `abs`, because a node's clock may be ahead of ours, but not by any length of time.
    return [seen for seen in pod.containers if (run := _killed_run(seen)) is not None and abs(at - run.ended) < within]


def kill(pod: PodChanged, seen: ContainerSeen, at: datetime) -> RecentOomKill:
    """The OOM kill that ended a container's last run: how long it had run, and how long ago that was at the time `at`."""
    run = _killed_run(seen)
    if run is None:
        raise ValueError(f"the last run of container '{seen.name}' did not end by an OOM kill")
    return RecentOomKill(seen.name, run.ended - (run.started or pod.started or pod.created), at - run.ended)


def last_kill(pod: PodChanged, *, init: bool = False) -> datetime | None:
    """When a container of the pod, or an init container, was killed last; None where no last run ended by an OOM kill."""
    runs = map(_killed_run, (*pod.containers, *pod.init_containers) if init else pod.containers)
    return max((run.ended for run in runs if run is not None), default=None)


def short(seen: ContainerSeen, advice: PodAdvice) -> bool:
    """Whether more memory is recommended to a container than it requests."""
    wanted = advice.requests.get(seen.name)
    if wanted is None or wanted.memory is None:
        return False
    return seen.requests.memory is None or wanted.memory > seen.requests.memory


def bound(  # noqa: PLR0913  # what a loop of kills is judged by
    pod: PodChanged,
    killed: Iterable[ContainerSeen],
    advice: PodAdvice,
    policy: PolicyRecord,
    counts: CountingContainers,
    *,
    acted: datetime | None,
) -> str:
    """What keeps a container that is killed again and again from getting more, as a sentence; empty where nothing does.

    `acted` is when the pod's last plan was made.
    """
    for seen in killed:
        run = seen.last_run
        # A recommendation that was made before the kill may still grow.
        if run is None or seen.restarts < LEAST_RESTARTS or advice.recommended.at < run.ended or short(seen, advice):
            continue
        # A run that began before the last plan was carried out may have had less memory than the container has now.
        if acted is not None and (run.started or run.ended) - acted < ANSWERED:
            continue
        if bounds(policy, seen.name).mode is not ContainerMode.OFF and not counts(seen.name):
            reason = "it was added to the pod after admission had seen it"
        else:
            reason = _bound(seen, advice, policy, pod.pod.namespace)
        return f"{unhelped(seen.name)}: {reason}"
    return ""


def bound_beyond_advice(pod: PodChanged, at: datetime, within: timedelta) -> str:
    """What keeps a container that is killed again and again from getting more, whatever is recommended; empty where none is.

    That is so of init containers, and where the limit is the pod's own.
    """
    for seen in (*pod.containers, *pod.init_containers):
        run = _killed_run(seen)
        if run is None or seen.restarts < LEAST_RESTARTS or abs(at - run.ended) >= within:
            continue
        beyond = beyond_advice(pod.limit_beside(seen), init=seen in pod.init_containers)
        if beyond is not None:
            return f"{unhelped(seen.name)}: {beyond.clause}"
    return ""


def bound_without_advice(pod: PodChanged, policy: PolicyRecord, at: datetime, within: timedelta) -> str:
    """What keeps a container in such a loop from getting more where nothing is recommended for its pod; empty where none is."""
    name = looping(killed := recently_killed(pod, at, within))
    seen = next((seen for seen in killed if seen.name == name), None)
    if seen is None:
        return ""
    return f"{unhelped(name)}: {memory_bound(None, bounds(policy, name), seen.limits.memory, TargetCuts()).clause}"


def looping(killed: Iterable[ContainerSeen], restarts: int = LEAST_RESTARTS) -> str:
    """The first of the killed containers that has had so many restarts, by its name; empty where none has."""
    return next((seen.name for seen in killed if seen.restarts >= restarts), "")


def _killed_run(seen: ContainerSeen) -> ContainerRun | None:
    run = seen.last_run
    return run if run is not None and run.killed_for_memory else None


def _bound(seen: ContainerSeen, advice: PodAdvice, policy: PolicyRecord, namespace: str) -> str:
    """The nearest bound, as a clause that says what to change where something cut the target."""
    advised = next((container for container in advice.recommended.containers if container.container == seen.name), None)
    steps = tuple(step for step in advice.caps.get(seen.name, ()) if step.resource == MEMORY)
    # A LimitRange comes after all that a recommendation says of itself.
    if steps and steps[-1].by in OF_RANGES:
        return cap_sentences.of_caps({seen.name: steps}, policy, namespace)
    return memory_bound(advised, bounds(policy, seen.name), seen.limits.memory, advice.recommended.cuts).clause
