"""Pods with a startup boost: left alone while it lasts, given less CPU in place when it has ended, and evicted for it never."""

import random
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from agents.logic.updates import pending_updates
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.pods import BoostedContainer, ContainerSeen, PodDeleted
from schemas.facts.update_facts import HpaTargetChanged
from schemas.names import Amounts
from schemas.outcomes import Result
from schemas.policies.vertical import BoostKind, ContainerMode, ContainerPolicy, ControlledValues, StartupBoost, UpdateMode
from tests.agents.logic.updates.test_updater import LATER, at_once, finished, look, open_stage, recommend
from tests.support.cluster_events import GIB, MINUTE, START, pod, vpa, when

TEMPLATE = Amounts(0.1, GIB), Amounts(0.3, 2 * GIB)
"""Requests and limits of the pod's template."""
RUNNING = ContainerSeen("app", Amounts(1.0, GIB), Amounts(3.0, 2 * GIB), ready=True)
"""The container, boosted to ten times its CPU."""
FACTOR = StartupBoost(BoostKind.FACTOR, factor=10.0, duration=300.0)  # type: ignore[arg-type]  # seconds


def boosted(name: str, ready: datetime | None, seen: ContainerSeen = RUNNING) -> Any:
    return pod(name, START, containers=(seen,), boosted=(BoostedContainer("app", *TEMPLATE),), ready_since=ready)


def stage_of(*pods: Any, **changed: Any) -> Any:
    """A stage with a VPA that boosts for five minutes after its pods are ready."""
    stage = open_stage(*pods, mode=UpdateMode.OFF)
    look(stage, START + MINUTE, policies=[vpa(**{"boost": FACTOR, "update_mode": UpdateMode.RECREATE, **changed})])
    return stage


def three(ready: datetime | None, **changed: Any) -> Any:
    return [boosted(name, ready, **changed) for name in "abc"]


def test_a_boosted_pod_is_left_alone_until_its_boost_has_ended() -> None:
    ready = when(LATER - 5 * MINUTE)  # so that the boost lasts up to and including LATER
    stage = stage_of(*three(ready))
    assert at_once(stage) == []
    planned = look(stage, LATER + MINUTE)
    assert {type(each) for each in planned} >= {ResizePlanned}


def test_a_pod_that_is_not_ready_keeps_its_boost() -> None:
    stage = stage_of(*three(None))
    assert at_once(stage) == []
    assert look(stage, LATER + 60 * MINUTE, recommendations_by_cluster=[recommend(LATER + 60 * MINUTE)]) == []


def test_the_end_of_a_boost_is_a_resize_to_the_recommended_cpu_whatever_the_mode() -> None:
    [first] = [each for each in at_once(stage_of(*three(when(START)))) if isinstance(each, ResizePlanned)]
    assert first.requests == {"app": Amounts(cpu=0.2)}  # as recommended; memory is left as it is
    assert first.limits == {"app": Amounts(cpu=0.6)}  # the template's limit is three times its request
    assert first.because["why"] == ["its startup boost has ended"]


def test_one_pod_at_a_time_as_upstreams_tolerance_asks() -> None:
    decided = at_once(stage_of(*three(when(START))))
    # of three pods int(3 * 0.5) = 1 may be disturbed
    assert [type(each) for each in decided] == [ResizePlanned, UpdateRefused]
    assert (decided[1].guard, decided[1].pods) == ("tolerance", 2)


@pytest.mark.parametrize("mode", [UpdateMode.OFF, UpdateMode.INITIAL])
def test_a_boost_ends_in_modes_that_leave_running_pods_alone(mode: UpdateMode) -> None:
    stage = stage_of(*three(when(START)), update_mode=mode)
    [first] = [each for each in at_once(stage) if isinstance(each, ResizePlanned)]
    # in mode Off nothing was recommended at admission, so the template's CPU comes back
    assert first.requests == {"app": Amounts(cpu=0.1 if mode is UpdateMode.OFF else 0.2)}


def test_a_container_that_is_off_gets_the_templates_cpu_back() -> None:
    off = ContainerPolicy("app", mode=ContainerMode.OFF)  # since it was boosted
    stage = stage_of(*three(when(START)), containers=(off,))
    [first] = [each for each in at_once(stage) if isinstance(each, ResizePlanned)]
    assert first.requests == {"app": Amounts(cpu=0.1)}


def test_without_a_recommendation_the_templates_cpu_comes_back() -> None:
    [first, *_] = look(stage_of(*three(when(START))), LATER)
    assert (first.requests, first.limits) == ({"app": Amounts(cpu=0.1)}, {"app": Amounts(cpu=0.3)})


def test_cpu_that_an_hpa_scales_by_comes_back_as_the_template_has_it() -> None:
    hpa = HpaTargetChanged(when(START), "demo", "web", "api", "Deployment", "api", ("cpu",))
    stage = stage_of(*three(when(START)))
    [first, *_] = look(stage, LATER, pod_changes_by_cluster=[hpa], recommendations_by_cluster=[recommend(LATER)])
    assert first.requests == {"app": Amounts(cpu=0.1)}


def test_limits_stay_where_the_policy_says_so() -> None:
    entry = ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY)
    [first, *_] = at_once(stage_of(*three(when(START)), containers=(entry,)))
    assert first.limits == {"app": Amounts()}


def test_one_pod_alone_is_brought_down_though_fewer_than_two_are_left_alone_otherwise() -> None:
    [only] = at_once(stage_of(boosted("a", when(START))))
    assert isinstance(only, ResizePlanned)


def test_a_boost_is_ended_once_and_then_the_pod_is_updated_as_any_other() -> None:
    stage = stage_of(boosted("a", when(START)), min_replicas=1)
    [first] = at_once(stage)
    lowered = boosted("a", when(START), ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.6, 2 * GIB), ready=True))
    done = finished(first, Result.DONE)
    assert look(stage, LATER + MINUTE, outcomes=[done], pod_changes_by_cluster=[lowered]) == []
    after = LATER + 30 * MINUTE  # after the cool-down
    [again] = look(stage, after, recommendations_by_cluster=[recommend(after, low=0.01, target=0.05, high=0.1)])
    assert isinstance(again, EvictionPlanned)
    assert again.because["why"] == ["outside its bounds"]


def test_a_failed_end_of_a_boost_evicts_nobody() -> None:
    stage = stage_of(boosted("a", when(START)))
    [first] = at_once(stage)
    look(stage, LATER + MINUTE, outcomes=[finished(first, Result.FAILED)])
    after = LATER + 20 * MINUTE  # after the cool-down
    [again] = look(stage, after, recommendations_by_cluster=[recommend(after)])
    assert isinstance(again, ResizePlanned)
    assert again.because["why"] == ["its startup boost has ended"]


def test_a_boost_that_lowers_nothing_is_no_reason() -> None:
    seen = ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.6, 2 * GIB), ready=True)
    assert at_once(stage_of(*three(when(START), seen=seen))) == []


def test_ending_a_boost_resumes_from_a_checkpoint() -> None:
    stage = stage_of(boosted("a", when(START)))
    [first] = at_once(stage)
    look(stage, LATER + MINUTE, outcomes=[finished(first, Result.DONE)])
    other = open_stage()
    for chunk in stage.chunks():
        other.load(chunk, stage.dump(chunk))
    assert other.clusters.histories.get("uid-a").unboosted == ("app",)


@pytest.mark.parametrize(("ready", "until"), [(None, "its pod is ready"), (when(LATER - MINUTE), "00:14:00")])
def test_why_not_says_how_long_a_boost_lasts(ready: datetime | None, until: str) -> None:
    stage = stage_of(*three(ready))
    at_once(stage)
    assert pending_updates.not_wanted(stage, "uid-a") == f"it has a startup boost, which lasts until {until}"


def test_the_boost_of_a_container_that_is_not_there_lowers_nothing() -> None:
    gone = pod("a", START, containers=(RUNNING,), boosted=(BoostedContainer("gone", *TEMPLATE),), ready_since=when(START))
    assert not [each for each in at_once(stage_of(gone)) if isinstance(each, ResizePlanned)]


def test_the_end_of_a_boost_waits_for_no_cool_down_of_another_containers() -> None:
    two = (RUNNING, replace(RUNNING, name="side"))
    entries = (ContainerPolicy("side", boost=replace(FACTOR, duration=900.0)),)  # type: ignore[arg-type]  # seconds
    marks = tuple(BoostedContainer(name, *TEMPLATE) for name in ("app", "side"))
    ready = when(LATER - 6 * MINUTE)
    stage = stage_of(pod("a", START, containers=two, boosted=marks, ready_since=ready), containers=entries)
    [first] = [each for each in at_once(stage) if isinstance(each, ResizePlanned)]
    assert list(first.requests) == ["app"]
    look(stage, LATER + MINUTE, outcomes=[finished(first, Result.DONE)])
    [second] = [each for each in look(stage, LATER + 10 * MINUTE) if isinstance(each, ResizePlanned)]
    assert "side" in second.requests
    look(stage, LATER + 11 * MINUTE, outcomes=[finished(second, Result.FAILED)])
    assert not [each for each in look(stage, LATER + 12 * MINUTE) if isinstance(each, ResizePlanned)]  # it cools down


def test_a_stale_recommendation_keeps_no_boost() -> None:
    stage = stage_of(boosted("a", when(LATER)))
    assert at_once(stage) == []
    later = LATER + 600 * MINUTE
    [plan] = look(stage, later, pod_changes_by_cluster=[boosted("a", when(LATER))])
    assert isinstance(plan, ResizePlanned)
    assert plan.void_after > plan.at


SECOND = 1000
MIDDLE = LATER + 20 * SECOND
"""A turn between two intervals, in which the boosts of pods end that were ready five minutes before."""
FIRST = LATER + 10 * SECOND
"""Another one before it."""


def test_a_boost_ends_in_its_turn_and_not_in_the_next_interval() -> None:
    stage = stage_of(boosted("a", when(MIDDLE - 300 * SECOND)))
    assert at_once(stage) == []
    assert look(stage, MIDDLE) == []  # it lasts up to and including this turn
    [plan] = look(stage, MIDDLE + SECOND // 2)
    assert (type(plan), plan.requests) == (ResizePlanned, {"app": Amounts(cpu=0.2)})
    assert look(stage, MIDDLE + SECOND) == []


def test_a_boost_that_is_known_to_have_ended_only_now_ends_now() -> None:
    stage = stage_of(boosted("a", None))
    assert at_once(stage) == []
    [plan] = look(stage, FIRST, pod_changes_by_cluster=[boosted("a", when(FIRST - 301 * SECOND))])
    assert isinstance(plan, ResizePlanned)


def test_what_a_guard_holds_back_at_the_end_of_a_boost_waits_for_the_interval_and_is_said_there() -> None:
    stage = stage_of(*three(when(MIDDLE - 301 * SECOND)))
    assert at_once(stage) == []
    [plan] = look(stage, MIDDLE)
    assert isinstance(plan, ResizePlanned)  # of three pods one may be disturbed
    assert look(stage, MIDDLE + 10 * SECOND) == []
    [second, refused] = look(stage, LATER + MINUTE)
    assert isinstance(second, ResizePlanned)
    assert (refused.guard, refused.pods) == ("tolerance", 1)


def test_ends_of_boosts_count_for_the_rate_of_their_interval() -> None:
    ready = {"a": FIRST, "b": FIRST, "c": MIDDLE}
    pods = [boosted(name, when(end - 301 * SECOND)) for name, end in ready.items()]
    stage = open_stage(*pods, mode=UpdateMode.OFF, resize_rate=1, eviction_tolerance=1.0, budget=1.0)
    look(stage, START + MINUTE, policies=[vpa(boost=FACTOR, update_mode=UpdateMode.RECREATE)])
    assert at_once(stage) == []
    assert [each.pod.name for each in look(stage, FIRST)] == ["a"]
    assert look(stage, MIDDLE) == []
    plans = [each for each in look(stage, LATER + MINUTE) if isinstance(each, ResizePlanned)]
    assert [each.pod.name for each in plans] == ["b"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_resize_counts_for_the_rate_of_its_interval_though_its_pod_is_gone_and_an_eviction_does_not(restarted: bool) -> None:
    rates = {"rate": 1, "resize_rate": 1, "eviction_tolerance": 1.0, "budget": 1.0}
    ends = {"c": FIRST, "d": MIDDLE}
    pods = [pod("a", START), pod("b", START), *(boosted(name, when(end - 301 * SECOND)) for name, end in ends.items())]
    stage = open_stage(*pods, mode=UpdateMode.OFF, **rates)
    look(stage, START + MINUTE, policies=[vpa(boost=FACTOR, update_mode=UpdateMode.RECREATE)])
    assert len([each for each in at_once(stage) if isinstance(each, EvictionPlanned)]) == 1
    [resized] = look(stage, FIRST)
    gone = PodDeleted(when(MIDDLE), resized.workload, resized.pod)
    if restarted:
        stage = _restarted(stage, **rates)
    assert look(stage, MIDDLE, pod_changes_by_cluster=[gone]) == []
    plans = [each for each in look(stage, LATER + MINUTE) if isinstance(each, ResizePlanned)]
    assert [each.pod.name for each in plans] == ["d"]  # the next interval has a rate of its own


def test_a_policy_that_shortens_a_boost_ends_it_in_the_next_interval() -> None:
    stage = stage_of(boosted("a", when(LATER - MINUTE)))
    assert at_once(stage) == []
    short = replace(FACTOR, duration=30.0)
    assert look(stage, FIRST, policies=[vpa(boost=short, update_mode=UpdateMode.RECREATE)]) == []
    [plan] = look(stage, LATER + MINUTE)
    assert isinstance(plan, ResizePlanned)


@pytest.mark.parametrize("seed", range(8))
def test_ends_of_boosts_are_the_same_however_often_the_stage_is_restarted(seed: int) -> None:
    chance = random.Random(seed)
    stage = stage_of(*(boosted(name, None) for name in "abcdef"))
    restarted, planned = _restarted(stage), 0
    for number in range(LATER, LATER + 12 * MINUTE, 7 * SECOND):
        facts, policies = [], []
        if chance.random() < 0.2:
            ready = when(number - chance.randrange(400) * SECOND)
            facts.append(boosted(chance.choice("abcdef"), chance.choice((None, ready, ready))))
        if chance.random() < 0.05:
            duration = chance.choice((30.0, 100.0, 300.0))
            policies.append(vpa(boost=replace(FACTOR, duration=duration), update_mode=UpdateMode.RECREATE))
        given = {"pod_changes_by_cluster": facts, "policies": policies}
        if number == LATER or chance.random() < 0.05:
            given["recommendations_by_cluster"] = [recommend(number)]
        decided = look(stage, number, **given)
        assert look(restarted, number, **given) == decided
        restarted = _restarted(restarted) if chance.random() < 0.5 else restarted
        planned += sum(isinstance(each, ResizePlanned) for each in decided)
    assert planned > 2


def _restarted(stage: Any, **changed: Any) -> Any:
    other = open_stage(**changed)
    for chunk in stage.chunks():
        other.load(chunk, stage.dump(chunk))
    return other
