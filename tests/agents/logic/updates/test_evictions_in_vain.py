"""Where others change what new pods request, evictions change nothing: they become rare, and a loop of kills is said to go on."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodDeleted, PodPhase
from schemas.facts.scheduled_pods import LabelQuery
from schemas.facts.update_facts import PodDisruptionBudgetChanged, ReplicaControllerChanged
from schemas.names import Amounts
from schemas.outcomes import Action, OutcomeDetail, Result
from schemas.policies.vertical import UpdateMode
from tests.agents.logic.updates.test_updater import LATER, at_once, finished, look, open_stage, recommend
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, when

HOUR = 60 * MINUTE
RESET = (ContainerSeen("app", Amounts(3.0, GIB), Amounts(4.0, 2 * GIB)),)  # type: ignore[arg-type]  # units
"""What a webhook of others gives each new pod, after ours."""


def played(stage: Any, hours: int, containers: Any) -> list[int]:
    """The minutes of evictions, each carried out at once; the successors have these containers."""
    found, made = [], 0
    for minute in range(hours * 60):
        now = LATER + minute * MINUTE
        for plan in look(stage, now, recommendations_by_cluster=[recommend(now)] if minute % 30 == 0 else []):
            if isinstance(plan, EvictionPlanned):
                found.append(minute)
                made += 1
                facts = [
                    PodDeleted(when(now + 1), API, plan.pod),
                    pod(f"new-{made}", now + 1, containers=containers, started=when(now + 1)),
                ]
                look(stage, now + 1000, outcomes=[finished(plan, Result.DONE, Action.EVICT)], pod_changes_by_cluster=facts)
    return found


def reset_pods() -> Any:
    pods = [pod(name, START, containers=RESET) for name in "abcdef"]
    return open_stage(*pods, mode=UpdateMode.RECREATE, facts_within=1e9)


def kept_killed() -> Any:
    """Pods in a loop of kills, which serve nobody; the webhook does not answer in time, so new pods get what these have."""
    return open_stage(*(killed(name, LATER) for name in "abcdef"), mode=UpdateMode.RECREATE, facts_within=1e9)


@pytest.mark.parametrize("killing", [False, True])
def test_evictions_in_vain_become_rare_and_one_pod_is_tried_at_a_time(*, killing: bool) -> None:
    stage = kept_killed() if killing else reset_pods()
    minutes = played(stage, 72, killed("a", LATER).containers if killing else RESET)
    pauses = [later - earlier for earlier, later in pairwise(minutes) if later - earlier > 5]
    assert len(minutes) - len(pauses) <= 6
    assert pauses == sorted(pauses)
    assert len(pauses) <= 7
    assert pauses[0] >= 60


def test_evictions_that_are_denied_become_rare_and_the_reason_is_said() -> None:
    """An operator that rolls its pods itself denies each eviction by a webhook."""
    stage, planned, guards = reset_pods(), [], set()
    why = 'admission webhook "drain.example.com" denied the request'
    for minute in range(48 * 60):
        now = LATER + minute * MINUTE
        decided = look(stage, now, recommendations_by_cluster=[recommend(now)] if minute % 30 == 0 else [])
        guards |= {(each.guard, why in each.reason) for each in decided if isinstance(each, UpdateRefused)}
        denied = [
            replace(finished(plan, Result.FAILED, Action.EVICT), detail=OutcomeDetail.FORBIDDEN, reason=why)
            for plan in decided
            if isinstance(plan, EvictionPlanned)
        ]
        planned += [minute] * len(denied)
        look(stage, now + 1000, outcomes=denied)
    assert len(planned) <= 12
    assert ("unchanged", True) in guards
    pauses = [later - earlier for earlier, later in pairwise(planned) if later - earlier > 5]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 6 * 60


@pytest.mark.parametrize(("mode", "most"), [(UpdateMode.RECREATE, 12), (UpdateMode.IN_PLACE, 240)])
@pytest.mark.parametrize("detail", [OutcomeDetail.SERVER_ERROR, OutcomeDetail.MOVED])
def test_plans_that_the_api_server_refuses_until_they_expire_become_rare_and_the_reason_is_said(
    detail: OutcomeDetail, mode: UpdateMode, most: int
) -> None:
    """A webhook with failurePolicy Fail is away for a day (kyverno#3232); there were 576 plans for six pods, and not a word."""
    stage = open_stage(*[pod(name, START, containers=RESET) for name in "abcdef"], mode=mode, facts_within=1e9)
    why, planned, guards = "500: failed calling webhook", list[EvictionPlanned | ResizePlanned](), set()
    open_plans: list[EvictionPlanned | ResizePlanned] = []
    for minute in range(24 * 60):
        now = LATER + minute * MINUTE
        over = [plan for plan in open_plans if plan.expires <= when(now)]
        outcomes = [
            replace(
                finished(plan, Result.EXPIRED, Action.EVICT if isinstance(plan, EvictionPlanned) else Action.RESIZE),
                detail=detail,
                reason=why,
            )
            for plan in over
        ]
        recommended = [recommend(now)] if minute % 30 == 0 else []
        decided = look(stage, now, recommendations_by_cluster=recommended, outcomes=outcomes)
        guards |= {why in each.reason for each in decided if isinstance(each, UpdateRefused)}
        made = [each for each in decided if isinstance(each, EvictionPlanned | ResizePlanned)]
        planned, open_plans = planned + made, [plan for plan in open_plans if plan not in over] + made
    assert 3 <= len(planned) <= most
    assert True in guards


def test_once_a_new_pod_is_as_recommended_the_others_go_without_a_pause() -> None:
    stage = reset_pods()
    played(stage, 24, RESET)
    good = (ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.4, 2 * GIB)),)  # type: ignore[arg-type]  # units
    now = LATER + 24 * HOUR
    facts, advice = [pod("rolled", now, containers=good)], [recommend(now)]
    planned = look(stage, now, pod_changes_by_cluster=facts, recommendations_by_cluster=advice)
    assert stage.clusters.evictions.get(API.key).vain == 0
    assert [type(each) for each in planned].count(EvictionPlanned) > 1


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
def test_resizes_that_somebody_else_undoes_become_rare_until_one_holds(mode: UpdateMode) -> None:
    """A second autoscaler puts back each time what it wants, after the resize was in force."""
    before = [pod(name, START, containers=RESET) for name in "abcdef"]
    stage, minutes, says = open_stage(*before, mode=mode, facts_within=1e9), [], set()

    def play(since: int, hours: int, *, undone: bool) -> None:
        for minute in range(since, since + hours * 60):
            now = LATER + minute * MINUTE
            for plan in look(stage, now, recommendations_by_cluster=[recommend(now)] if minute % 30 == 0 else []):
                if isinstance(plan, UpdateRefused) and plan.guard == "refused":
                    says.add(plan.reason)
                if isinstance(plan, ResizePlanned):
                    minutes.append(minute)
                    given = tuple(replace(seen, requests=plan.requests[seen.name]) for seen in RESET)
                    pods = [replace(pod(plan.pod.name, now, containers=shows), pod=plan.pod) for shows in (given, RESET)]
                    # The fact that shows the resize comes after its outcome.
                    look(stage, now + 1000, outcomes=[finished(plan, Result.DONE, Action.RESIZE)])
                    for later, fact in enumerate(pods[: 2 if undone else 1]):
                        look(stage, now + 2000 + later * 20_000, pod_changes_by_cluster=[fact])

    play(0, 72, undone=True)
    tries = len(minutes) / len(before)
    assert 6 <= tries <= 14
    assert minutes[-1] - minutes[-1 - len(before)] > 12 * 60
    assert any("somebody else changed the requests again, as a second autoscaler would" in reason for reason in says)
    play(72 * 60, 48, undone=False)
    history = stage.clusters.histories.get(before[0].pod.uid)
    assert history.gave
    there = len(minutes)
    play(120 * 60, 24, undone=False)
    assert len(minutes) == there, "what holds is left alone"


def killed(name: str, now: int, restarts: int = 5, **more: Any) -> Any:
    """A pod whose container was killed a minute ago, soon after its start."""
    at = when(now)
    run = ContainerRun(at - timedelta(minutes=2), at - timedelta(minutes=1), "OOMKilled")
    seen = ContainerSeen("app", Amounts(0.2, GIB // 4), Amounts(0.4, GIB // 2), restarts=restarts, last_run=run)  # type: ignore[arg-type]  # units
    return replace(pod(name, START, **more), containers=(seen,))


def budget() -> Any:
    return PodDisruptionBudgetChanged(when(START), "demo", "web", "keep-all", LabelQuery(), 0, 0, 3, 3)


def opted_out(name: str) -> Any:
    return replace(killed(name, LATER), opted_out="karpenter.sh/do-not-disrupt")


HELD = [
    ("abc", lambda name: killed(name, LATER), [budget()], "PodDisruptionBudget 'keep-all' allows no eviction now"),
    ("abc", opted_out, [], "asks that nobody evicts it"),
]


@pytest.mark.parametrize(("names", "make", "facts", "says"), HELD, ids=["budget", "opt-out"])
def test_a_loop_of_kills_that_a_guard_keeps_going_is_said_with_the_guards_reason(
    names: str, make: Any, facts: Any, says: str
) -> None:
    stage = open_stage(*map(make, names), mode=UpdateMode.RECREATE)
    decided = look(stage, LATER, recommendations_by_cluster=[recommend(LATER)], pod_changes_by_cluster=facts)
    [refused] = decided
    assert isinstance(refused, UpdateRefused)
    assert refused.guard == "oom-bound"
    assert "container 'app' is OOM-killed again and again and gets no more memory: " in refused.reason
    assert says in refused.reason


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
@pytest.mark.parametrize("phase", [PodPhase.PENDING, PodPhase.RUNNING])
def test_a_loop_of_an_init_container_is_said_of_a_pod_within_its_bounds(mode: UpdateMode, phase: PodPhase) -> None:
    """Also of one that began long ago, whose workload was quiet until then: a sidecar may begin to be killed at any time."""
    run = ContainerRun(when(LATER - MINUTE), when(LATER - 2 * MINUTE), OOM_KILLED)
    within: dict[str, Any] = {"low": 0.5, "target": 1.0, "high": 2.0}
    quiet = [pod(name, START, phase=phase) for name in "abc"]
    looping = [replace(each, init_containers=(ContainerSeen("up", restarts=3, last_run=run),)) for each in quiet]
    stage = open_stage(*quiet, mode=mode)
    assert at_once(stage, LATER - MINUTE, **within) == []
    [refused] = look(stage, LATER, pod_changes_by_cluster=looping)
    assert (refused.guard, refused.pods) == ("oom-bound", 3)
    assert "container 'up' is OOM-killed again and again and gets no more memory: it is an init container" in refused.reason
    assert look(stage, LATER + 20 * MINUTE, pod_changes_by_cluster=quiet) == []


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("mode", "profile"), [(UpdateMode.RECREATE, "ullage"), (UpdateMode.RECREATE, "upstream"), (UpdateMode.IN_PLACE, "ullage")]
)
def test_a_job_that_an_eviction_would_fail_keeps_its_pods_and_they_are_still_resized(
    mode: UpdateMode, profile: str, *, known: bool
) -> None:
    """Where the source may not see Jobs, nobody knows which one would fail."""
    job = replace(API, kind="Job", name="load")
    stage = open_stage(
        *(pod(name, START, workload=job, controller="Job/load") for name in "abc"), mode=mode, profile=profile, warm_up=0.0
    )
    why = "an evicted pod counts as failed, 0 have failed, and its backoffLimit is 0"
    wanted = [ReplicaControllerChanged(when(LATER), "demo", "web", "Job", "load", 3, last_failure=why)] if known else []
    decided = look(
        stage, LATER, pod_changes_by_cluster=wanted, recommendations_by_cluster=[replace(recommend(LATER), workload=job)]
    )
    if mode is UpdateMode.IN_PLACE:
        assert any(isinstance(each, ResizePlanned) for each in decided)
    elif profile == "upstream":
        assert any(isinstance(each, EvictionPlanned) for each in decided)
    else:
        [refused] = decided
        unknown = "nothing is known of Job 'load', which may fail when a pod of it is evicted"
        assert (refused.guard, refused.reason) == ("successor", f"Job 'load' would fail: {why}" if known else unknown)


def test_one_kill_is_no_loop() -> None:
    stage = open_stage(*(killed(name, LATER, restarts=1) for name in "abc"), mode=UpdateMode.RECREATE)
    [refused] = look(stage, LATER, recommendations_by_cluster=[recommend(LATER)], pod_changes_by_cluster=[budget()])
    assert refused.guard == "disruption-budget"


def test_after_many_kills_even_a_guard_that_passes_by_itself_is_a_bound_of_the_loop() -> None:
    for restarts, guard in ((5, "tolerance"), (6, "oom-bound")):
        stage = open_stage(*(killed(name, LATER, restarts=restarts, node="n1") for name in "abc"), mode=UpdateMode.RECREATE)
        decided = look(stage, LATER, recommendations_by_cluster=[recommend(LATER)])
        assert [each.guard for each in decided if isinstance(each, UpdateRefused)] == [guard]


def test_a_pod_that_was_killed_after_its_recommendation_waits_for_the_next_one() -> None:
    """An eviction for less than the kill asks for would be one in vain."""
    stage = open_stage(*(killed(name, LATER + 90_000) for name in "abc"), mode=UpdateMode.RECREATE)
    before, after = LATER - 2 * MINUTE, LATER + 1000
    assert look(stage, LATER, recommendations_by_cluster=[recommend(before)]) == []
    assert any(isinstance(each, EvictionPlanned) for each in look(stage, after, recommendations_by_cluster=[recommend(after)]))
