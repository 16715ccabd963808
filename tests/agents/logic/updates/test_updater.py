"""The updater as a stage: which pods it plans for, in which way and order, and each guard that holds it back."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest

from agents.logic.stage_rules import StageRules
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import BoostedContainer, ContainerSeen, PodDeleted, PodPhase, ResizeState
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import HpaTargetChanged
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, ControlSchedule, Mode, StageRulesChanged, rules_version
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import (
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    GuardOverrides,
    UpdateMode,
    VerticalPolicyChanged,
)
from tests.support.cluster_events import API, GIB, MINUTE, START, oom_killed, pod, turn, vpa, when

Json = dict[str, Any]


LATER = START + 10 * MINUTE
"""After the warm-up."""


def recommend(number: int, workload: Any = API, low: float = 0.1, target: Any = 0.2, high: float = 0.5, **more: Any) -> Any:
    memory = (GIB // 2, more.pop("memory", GIB), 2 * GIB)
    container = ContainerRecommendation(
        "app", Amounts(low, memory[0]), Amounts(target, memory[1]), Amounts(high, memory[2]), Amounts(target, memory[1])
    )
    return RequestsRecommended(
        f"recommender/0/{number}/requests/{workload.key}", when(number), workload, (container,), {}, **more
    )


def policy(mode: Any = UpdateMode.IN_PLACE_OR_RECREATE, target: Any = "*") -> Any:
    return VerticalPolicyChanged(when(START), target, "1", mode)


def apply(**changed: Any) -> Any:
    return ControlChanged(when(START), "demo", **{"mode": Mode.APPLY, "budget": 1.0, **changed})


def open_stage(*pods: Any, control: Any = None, mode: Any = UpdateMode.IN_PLACE_OR_RECREATE, **changed: Any) -> Any:
    """A stage that has seen pods and switches, and is past its warm-up."""
    stage = Updater(replace(UpdateSettings(), **changed), 0)
    facts = list(pods) or [pod(name, START) for name in "abc"]
    first = stage.step(turn(START, policies=[policy(mode)], control=[control or apply()], pod_changes_by_cluster=facts))
    assert first == []
    return stage


def look(stage: Any, number: int = LATER, **inputs: Json) -> Any:
    return [d.event for d in stage.step(turn(number, **inputs))]


def at_once(stage: Any, number: int = LATER, **said: Any) -> Any:
    return look(stage, number, recommendations_by_cluster=[recommend(number, **said)])


def finished(plan: Any, result: Result, action: Action = Action.RESIZE) -> Any:
    return ActionFinished("o", plan.at, plan.id, action, result, "so", plan.subject)


def only_guard(decided: list[Any]) -> Any:
    assert {type(d) for d in decided} == {UpdateRefused}
    [guard] = {d.guard for d in decided}
    return guard


def test_a_pod_outside_its_bounds_is_resized_in_place_and_its_limits_keep_their_ratio() -> None:
    [first] = at_once(open_stage())[:1]
    assert isinstance(first, ResizePlanned)
    assert first.pod.name == "a"
    assert first.id == f"updater/0/{LATER}/resize/uid-a"
    assert first.requests == {"app": Amounts(0.2, GIB)}
    assert first.limits == {"app": Amounts(0.4, 2 * GIB)}  # 2 cores * 0.2 / 1; memory as before
    assert first.expect == {"app": Amounts(1.0, GIB)}
    assert first.expires - first.at == timedelta(minutes=5)
    assert first.because["why"] == ["outside its bounds"]
    assert first.because["mode"] == "apply"
    assert first.because["difference"] == pytest.approx(0.8)  # |1 - 0.2| / 1, memory is as recommended


def test_a_plan_names_the_places_it_rests_on() -> None:
    decided = open_stage().step(turn(LATER, recommendations_by_cluster=[recommend(LATER)]))
    topics = [place.topic for place in decided[0].cause]
    assert topics == [
        "ullage.pod-changes-by-cluster.v1",
        "ullage.recommendations-by-cluster.v1",
        "ullage.policies.v1",
        "ullage.control.v1",
    ]
    assert (decided[0].topic, decided[0].key) == ("pod-updates", "demo")


def test_a_pod_inside_its_bounds_is_left_alone_until_it_is_old_and_far_from_its_target() -> None:
    stage = open_stage()
    inside = {"low": 0.1, "target": 0.5, "high": 2.0}
    assert at_once(stage, **inside) == []
    old = START + 12 * 60 * MINUTE
    facts = [pod(name, START, at=when(old)) for name in "abc"]
    found = look(stage, old, pod_changes_by_cluster=facts, recommendations_by_cluster=[recommend(old, **inside)])
    assert [type(f) for f in found][:1] == [ResizePlanned]
    assert found[0].because["why"] == ["old enough and far from its target"]


MORE: Json = {"low": 0.1, "target": 0.5, "high": 2.0, "memory": GIB * 3 // 2}
"""Within the bounds of a pod, and more memory than it has."""


def three(number: int, container: str = "app", ran: int = MINUTE, **changed: Any) -> list[Any]:
    """Three pods, of which the last has a container that was killed at a turn."""
    pods = [pod(name, START, **changed) for name in "abc"]
    return [*pods[:2], oom_killed(pods[2], number, container, ran)]


def with_side(number: int, **said: Any) -> Any:
    """A recommendation for `app` and `side`, the second of which lacks memory."""
    event = recommend(number, **{**MORE, "memory": GIB}, **said)
    side = replace(event.containers[0], container="side", target=Amounts(None, GIB * 3 // 2), lower=Amounts(), upper=Amounts())
    return replace(event, containers=(*event.containers, side))


def test_a_pod_killed_soon_after_its_start_is_changed_inside_its_bounds_and_first() -> None:
    found = at_once(open_stage(*three(START + 5 * MINUTE)), **MORE)
    assert [(f.pod.name, f.because["why"]) for f in found] == [("c", ["quick OOM"])]


def test_each_pod_is_judged_by_its_own_containers_last_runs_and_not_by_its_age() -> None:
    day = START + 24 * 60 * MINUTE
    pods = [oom_killed(pod(name, START, at=when(day)), day - minutes * MINUTE) for minutes, name in enumerate("abc", 1)]
    found = look(open_stage(*pods), day, pod_changes_by_cluster=pods, recommendations_by_cluster=[recommend(day, **MORE)])
    assert [each.pod.name for each in found if "quick OOM" in each.because["why"]] == ["a", "b", "c"]


def test_a_killed_pod_is_given_more_between_two_intervals_and_the_others_wait_for_the_next() -> None:
    second, stage = 1000, open_stage(*three(START + 5 * MINUTE))
    assert look(stage, LATER) == []
    outside = {**MORE, "low": 1.5, "target": 1.7}  # all three pods are to be changed
    found = look(stage, LATER + second, recommendations_by_cluster=[recommend(LATER + second, **outside)])
    assert [each.pod.name for each in found] == ["c"]
    assert look(stage, LATER + 2 * second) == [], "nothing new of the workload has come"
    assert look(stage, LATER + MINUTE), "the two others are planned for or refused"


def test_a_pod_that_is_killed_between_two_intervals_is_given_what_is_recommended_already() -> None:
    second, stage = 1000, open_stage()
    assert at_once(stage, LATER, **MORE) == []
    *_, killed = three(LATER)
    assert [each.pod.name for each in look(stage, LATER + second, pod_changes_by_cluster=[killed])] == ["c"]


def test_upstream_waits_for_its_interval_with_killed_pods_too() -> None:
    second, stage = 1000, open_stage(*three(START + 5 * MINUTE), profile="upstream")
    look(stage, LATER)
    assert look(stage, LATER + second, recommendations_by_cluster=[recommend(LATER + second, **MORE)]) == []
    assert [each.pod.name for each in look(stage, LATER + MINUTE)] == ["c"]


def test_a_kill_after_a_long_run_is_a_reason_too_except_for_upstream() -> None:
    pods, day = three(LATER - MINUTE, ran=60 * MINUTE), LATER
    assert [each.because["why"] for each in at_once(open_stage(*pods), day, **MORE)] == [["OOM kill"]]
    assert at_once(open_stage(*pods, profile="upstream"), day, **MORE) == []


def test_a_kill_is_no_reason_to_take_memory_away_or_to_change_anything_else() -> None:
    less = {**MORE, "memory": GIB // 2 + 1}
    assert at_once(open_stage(*three(LATER - MINUTE)), **less) == []
    assert len(at_once(open_stage(*three(LATER - MINUTE), profile="upstream"), **less)) == 1


def test_the_end_of_a_run_that_was_no_oom_kill_moves_no_pod() -> None:
    pods = three(LATER - MINUTE)
    [seen] = pods[2].containers
    run = replace(seen.last_run, reason="Error")
    pods[2] = replace(pods[2], containers=(replace(seen, last_run=run),))
    assert at_once(open_stage(*pods), **MORE) == []


@pytest.mark.parametrize(("mode", "expected"), [(ContainerMode.AUTO, ["c"]), (ContainerMode.OFF, [])])
def test_a_kill_of_a_container_whose_policy_is_off_moves_no_pod(mode: ContainerMode, expected: list[str]) -> None:
    stage = open_stage(*three(START + 5 * MINUTE, "side"))
    off = replace(policy(), version="2", containers=(ContainerPolicy("side", mode=mode),))
    look(stage, START + MINUTE, policies=[off])
    found = look(stage, LATER, recommendations_by_cluster=[with_side(LATER)])
    assert [each.pod.name for each in found] == expected


@pytest.mark.parametrize(("observed", "expected"), [("app, side", ["c"]), ("app", []), ("no name!", ["c"])])
def test_a_kill_of_a_container_that_admission_has_not_seen_moves_no_pod(observed: str, expected: list[str]) -> None:
    stage = open_stage(*three(START + 5 * MINUTE, "side", observed=observed))
    found = look(stage, LATER, recommendations_by_cluster=[with_side(LATER)])
    assert [each.pod.name for each in found] == expected


def test_a_pod_whose_kill_is_long_ago_is_left_alone() -> None:
    assert at_once(open_stage(*three(START + 5 * MINUTE)), START + 15 * MINUTE, **MORE) == []


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
def test_mode_recreate_evicts(mode: Any) -> None:
    [first, *_] = at_once(open_stage(mode=mode))
    assert isinstance(first, EvictionPlanned)
    assert first.expect == {"app": Amounts(1.0, GIB)}


def test_a_change_of_service_class_needs_an_eviction() -> None:
    bare = [pod(name, START, containers=(ContainerSeen("app"),)) for name in "abc"]
    assert isinstance(at_once(open_stage(*bare))[0], EvictionPlanned)


def test_mode_in_place_asks_again_for_what_was_infeasible_only_when_less_is_wanted() -> None:
    stage = open_stage(pod("a", START), mode=UpdateMode.IN_PLACE, min_replicas=1, cool_down=0.0)
    [plan] = at_once(stage)
    failed = replace(finished(plan, Result.FAILED), detail=OutcomeDetail.INFEASIBLE)
    seen = pod("a", START, resize=ResizeState.INFEASIBLE)
    same = look(stage, LATER + MINUTE, outcomes=[failed], pod_changes_by_cluster=[seen])
    assert [(type(d), d.guard) for d in same] == [(UpdateRefused, "resizing")]
    assert same[0].reason == "the pod's node could never hold what was asked for, and no less is asked for now"
    [less] = at_once(stage, LATER + 2 * MINUTE, target=0.15)
    assert isinstance(less, ResizePlanned)


@pytest.mark.parametrize(
    ("state", "minutes", "target", "asked"),
    [
        (ResizeState.DEFERRED, 1, 0.15, True),
        (ResizeState.DEFERRED, 10, 6.0, False),  # less does not fit either
        (ResizeState.INFEASIBLE, 1, 0.15, True),
        (ResizeState.INFEASIBLE, 10, 6.0, False),
        (ResizeState.ERROR, 1, 6.0, True),
        (ResizeState.UNKNOWN, 1, 6.0, True),
        (ResizeState.IN_PROGRESS, 59, 0.15, False),
        (ResizeState.IN_PROGRESS, 61, 6.0, True),
    ],
)
def test_a_pod_whose_resize_is_open_is_asked_for_other_amounts_when_that_may_help(
    state: ResizeState, minutes: int, target: float, asked: bool
) -> None:
    stage = open_stage(mode=UpdateMode.IN_PLACE)
    look(stage, LATER, pod_changes_by_cluster=[pod(name, START, resize=state) for name in "abc"])
    [first, *_] = at_once(stage, LATER + minutes * MINUTE, low=target, target=target, high=target)
    if asked:
        assert isinstance(first, ResizePlanned)
    else:
        assert (type(first), first.guard) == (UpdateRefused, "resizing")
    upstream = open_stage(mode=UpdateMode.IN_PLACE, profile="upstream")
    look(upstream, LATER, pod_changes_by_cluster=[pod(name, START, resize=state) for name in "abc"])
    assert only_guard(at_once(upstream, LATER + minutes * MINUTE, low=target, target=target, high=target)) == "resizing"


@pytest.mark.parametrize("state", [ResizeState.DEFERRED, ResizeState.INFEASIBLE])
@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
def test_a_killed_pod_whose_resize_waits_for_cpu_is_given_memory_alone(state: ResizeState, mode: UpdateMode) -> None:
    stage = open_stage(mode=mode)
    waits = {"asked": {"app": Amounts(6.0, GIB)}, "resize": state}
    facts = [replace(each, **waits) for each in three(LATER + 9 * MINUTE)]
    look(stage, LATER + 9 * MINUTE, pod_changes_by_cluster=facts)
    more = {"low": 6.0, "target": 6.0, "high": 6.0, "memory": 3 * GIB // 2}
    plans = [each for each in at_once(stage, LATER + 10 * MINUTE, **more) if isinstance(each, ResizePlanned)]
    assert [(plan.pod.name, plan.requests, plan.asked) for plan in plans] == [
        ("c", {"app": Amounts(1.0, 3 * GIB // 2)}, {"app": Amounts(6.0, GIB)})
    ]
    assert plans[0].limits == {"app": Amounts(2.0, 3 * GIB)}
    # What waits for memory gets no further by being asked for the same again.
    other = [replace(each, asked={"app": Amounts(1.0, 9 * GIB)}) for each in facts]
    stage = open_stage(mode=mode)
    look(stage, LATER + 9 * MINUTE, pod_changes_by_cluster=other)
    decided = at_once(stage, LATER + 10 * MINUTE, low=1.0, target=1.0, high=1.0, memory=9 * GIB)
    assert not [each for each in decided if isinstance(each, ResizePlanned)]


@pytest.mark.parametrize(
    ("asked", "state", "mode", "back"),
    [
        (Amounts(6.0, GIB), ResizeState.DEFERRED, UpdateMode.IN_PLACE, True),
        (Amounts(6.0, GIB), ResizeState.INFEASIBLE, UpdateMode.IN_PLACE_OR_RECREATE, True),
        (Amounts(1.0, 9 * GIB), ResizeState.DEFERRED, UpdateMode.IN_PLACE, True),
        (Amounts(1.4, GIB), ResizeState.DEFERRED, UpdateMode.IN_PLACE, False),  # within the bounds
        (Amounts(0.1, GIB), ResizeState.DEFERRED, UpdateMode.IN_PLACE, False),  # no more than is recommended
        (Amounts(6.0, GIB), ResizeState.IN_PROGRESS, UpdateMode.IN_PLACE, False),
        (Amounts(6.0, GIB), ResizeState.DEFERRED, UpdateMode.RECREATE, False),
    ],
)
def test_what_a_waiting_resize_asks_for_beyond_what_is_recommended_is_taken_back(
    asked: Amounts, state: ResizeState, mode: UpdateMode, back: bool
) -> None:
    stage = open_stage(mode=mode)
    look(stage, LATER, pod_changes_by_cluster=[pod("a", START, resize=state, asked={"app": asked})])
    decided = at_once(stage, LATER + MINUTE, low=0.5, target=1.1, high=1.5)
    assert [(type(each), each.pod.name, each.asked) for each in decided] == (
        [(ResizePlanned, "a", {"app": asked})] if back else []
    )


def test_mode_in_place_resizes_and_never_evicts() -> None:
    [first, *_] = at_once(open_stage(mode=UpdateMode.IN_PLACE))
    assert isinstance(first, ResizePlanned)
    bare = [pod(name, START, containers=(ContainerSeen("app"),)) for name in "abc"]
    assert only_guard(at_once(open_stage(*bare, mode=UpdateMode.IN_PLACE))) == "service-class"
    stuck = [pod(name, START, resize=ResizeState.INFEASIBLE) for name in "abc"]
    assert only_guard(at_once(open_stage(*stuck, mode=UpdateMode.IN_PLACE), low=6.0, target=6.0, high=6.0)) == "resizing"


def test_pods_that_want_more_come_first_and_then_those_further_off() -> None:
    requested = {"a": 1.0, "b": 0.05, "c": 4.0, "d": 0.02}
    pods = [pod(n, START, containers=(ContainerSeen("app", Amounts(c, GIB), Amounts(c, GIB)),)) for n, c in requested.items()]
    found = at_once(open_stage(*pods, eviction_tolerance=1.0))
    assert [each.pod.name for each in found] == ["d", "b", "c", "a"]  # differences of 9, 3, 0.95 and 0.8


@pytest.mark.parametrize(
    ("state", "minutes", "expected"),
    [
        (ResizeState.INFEASIBLE, 1, EvictionPlanned),
        (ResizeState.DEFERRED, 4, UpdateRefused),
        (ResizeState.DEFERRED, 6, EvictionPlanned),
        (ResizeState.IN_PROGRESS, 59, UpdateRefused),
        (ResizeState.IN_PROGRESS, 61, EvictionPlanned),
    ],
)
def test_a_stuck_resize_becomes_an_eviction(state: Any, minutes: int, expected: Any) -> None:
    stage = open_stage()
    look(stage, LATER, pod_changes_by_cluster=[pod(name, START, resize=state) for name in "abc"])
    [first, *_] = at_once(stage, LATER + minutes * MINUTE, low=6.0, target=6.0, high=6.0)
    assert isinstance(first, expected)
    if expected is UpdateRefused:
        assert first.guard == "resizing"


def test_a_resize_that_failed_becomes_an_eviction_after_the_cool_down() -> None:
    stage = open_stage()
    plan = at_once(stage)[0]
    refused = look(stage, LATER + MINUTE, outcomes=[finished(plan, Result.FAILED)])
    assert [(r.pod.name, r.guard) for r in refused if r.pod == plan.pod] == [("a", "cool-down")]
    later = look(stage, LATER + 16 * MINUTE)
    assert [type(d) for d in later if d.pod == plan.pod] == [EvictionPlanned]


MORE_OF_BOTH = {"low": 2.0, "target": 3.0, "high": 4.0, "memory": 2 * GIB}
MORE_CPU_LESS_MEMORY = {"low": 2.0, "target": 3.0, "high": 4.0, "memory": GIB // 2}
LESS = {"low": 0.01, "target": 0.1, "high": 0.15}
ON_RAISES = pytest.mark.parametrize(
    ("said", "given"),
    [(MORE_OF_BOTH, Amounts(3.0, 2 * GIB)), (MORE_CPU_LESS_MEMORY, Amounts(3.0)), (LESS, None)],  # type: ignore[arg-type]  # units
    ids=["more of both", "more of one, less of the other", "less"],
)


@ON_RAISES
def test_what_a_pod_needs_more_of_waits_for_no_cool_down(said: Json, given: Amounts | None) -> None:
    stage = open_stage()
    [plan, *_] = at_once(stage)
    resized = pod("a", START, containers=(ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.4, 2 * GIB)),))  # type: ignore[arg-type]  # units
    look(stage, LATER + 1000, outcomes=[finished(plan, Result.DONE)], pod_changes_by_cluster=[resized])
    decided = [each for each in at_once(stage, LATER + MINUTE, **said) if each.pod == plan.pod]
    assert [each.requests["app"] for each in decided if isinstance(each, ResizePlanned)] == ([] if given is None else [given])
    assert [each.guard for each in decided if isinstance(each, UpdateRefused)] == (["cool-down"] if given is None else [])


@ON_RAISES
@pytest.mark.parametrize("restarts_on", [(), ("cpu",)], ids=["no restart", "a restart"])
def test_what_pods_need_more_of_is_within_no_budget_unless_a_container_stops(
    said: Json, given: Amounts | None, restarts_on: tuple[str, ...]
) -> None:
    app = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), restarts_on=restarts_on)  # type: ignore[arg-type]  # units
    stage = open_stage(*(pod(name, START, containers=(app,)) for name in "abcde"), control=apply(budget=0.2))
    plans = [each.requests["app"] for each in at_once(stage, **said) if isinstance(each, ResizePlanned)]
    free = given is not None and not restarts_on
    assert len(plans) == (5 if free else 1)  # one of five in an interval
    assert not free or plans[1:] == [given] * 4


def test_an_outcome_about_another_kind_of_subject_changes_no_pod() -> None:
    stage = open_stage()
    plan = at_once(stage)[0]
    before = stage.clusters.histories.get(plan.pod.uid)
    look(
        stage, LATER + MINUTE, outcomes=[replace(finished(plan, Result.DONE), subject=Subject.of_node("demo", "n", plan.pod.uid))]
    )
    assert stage.clusters.histories.get(plan.pod.uid) == before


def test_a_pod_has_one_plan_at_a_time_and_another_when_it_expired() -> None:
    stage = open_stage(cool_down=0.0)
    plan = at_once(stage)[0]
    assert all(d.pod != plan.pod for d in look(stage, LATER + 5 * MINUTE))
    again = [d for d in look(stage, LATER + 6 * MINUTE) if d.pod == plan.pod]
    assert [type(d) for d in again] == [ResizePlanned]
    assert again[0].id != plan.id


@pytest.mark.parametrize(
    ("fact", "age", "void"),
    [
        ("recommendation", 120, 1),  # two hours on the next minute
        ("recommendation", 116, 5),
        ("pod fact", 360, 1),  # six hours
        ("pod fact", 358, 3),
    ],
)
def test_a_plan_made_at_the_end_of_a_window_ends_with_it(fact: str, age: int, void: int) -> None:
    stage = open_stage(warm_up=0.0)
    now = LATER + 360 * MINUTE
    seen = now - MINUTE * (age - 1) if fact == "pod fact" else now
    taken = now - MINUTE * (age - 1) if fact == "recommendation" else now
    inside = {"low": 0.5, "target": 1.0, "high": 2.0}
    look(stage, seen if seen < now else now - 2 * MINUTE, pod_changes_by_cluster=[pod(n, START, at=when(seen)) for n in "abc"])
    if taken < now:
        look(stage, taken, recommendations_by_cluster=[recommend(taken, **inside)])
        changed = [narrow(name, now) for name in "abc"]
        [plan, *_] = look(stage, now, pod_changes_by_cluster=changed)
    else:
        [plan, *_] = look(stage, now, recommendations_by_cluster=[recommend(now)])
    assert plan.expires == when(now + 5 * MINUTE)
    assert plan.void_after == when(now + void * MINUTE)


def test_a_plan_for_a_quick_oom_alone_ends_when_the_kill_is_no_longer_recent() -> None:
    [plan] = at_once(open_stage(*three(START + 5 * MINUTE)), START + 14 * MINUTE, **MORE)
    assert (plan.expires, plan.void_after) == (when(START + 19 * MINUTE), when(START + 15 * MINUTE))


def test_the_updater_keeps_a_plan_open_for_as_long_as_a_consumer_may_carry_it_out() -> None:
    stage = open_stage(cool_down=0.0, expires=400.0004, recommendation_within=301.5)
    plan = at_once(stage)[0]
    assert plan.void_after == when(LATER + 301_500)
    history = stage.clusters.histories.get(plan.pod.uid)
    assert [history.has_plan(LATER + 301_500), history.has_plan(LATER + 301_501)] == [True, False]


def test_an_older_recommendation_that_comes_later_is_nothing() -> None:
    stage = open_stage()
    both = [recommend(LATER, low=0.5, target=1.0, high=2.0), recommend(LATER - MINUTE)]
    assert look(stage, recommendations_by_cluster=both) == []


def test_without_a_policy_nothing_is_planned_or_refused() -> None:
    stage = Updater(UpdateSettings(), 0)
    look(stage, START, pod_changes_by_cluster=[pod("a", START)])
    assert at_once(stage) == []


def test_shadow_decides_the_same_and_says_so() -> None:
    shadow = at_once(open_stage(control=apply(mode=Mode.SHADOW)))
    real = at_once(open_stage())
    assert [d.because["mode"] for d in shadow] == ["shadow"] * len(real)
    assert [replace(d, because={}) for d in shadow] == [replace(d, because={}) for d in real]


# the guards


@pytest.mark.parametrize("mode", [UpdateMode.OFF, UpdateMode.INITIAL])
def test_guard_mode(mode: Any) -> None:
    assert only_guard(at_once(open_stage(mode=mode))) == "mode"


def test_guard_paused() -> None:
    refused = at_once(open_stage(control=apply(paused=True, reason="night shift")))
    assert only_guard(refused) == "paused"
    assert refused[0].reason == "cluster 'demo' is paused: night shift"


def test_a_schedule_pauses_from_its_first_turn_to_its_last_also_after_a_resumption_within_it() -> None:
    """Seen at 00:10 (UTC), when the stage looks first; the schedule is a fact in the log, and the turn's time decides."""
    night = ControlSchedule("10 0 * * *", 2, paused=True, reason="night shift")
    stage = open_stage(control=apply(schedules=(night,)))
    assert only_guard(at_once(stage)) == "paused"
    stage = resumed(stage)
    assert at_once(stage, LATER + MINUTE) == []  # said already
    assert ResizePlanned in {type(d) for d in at_once(stage, LATER + 2 * MINUTE)}


def test_guard_warm_up() -> None:
    assert only_guard(at_once(open_stage(), START + 4 * MINUTE)) == "warm-up"


def test_guard_blind() -> None:
    assert only_guard(at_once(open_stage(), START + 6 * 60 * MINUTE + MINUTE)) == "blind"


def report(number: int, *sees: str) -> Any:
    return SourceReported(when(number), "demo", "kube", sees)


def test_what_a_stopped_source_saw_is_acted_on_for_ten_minutes() -> None:
    stage = open_stage()
    look(stage, LATER - MINUTE, cluster_changes=[report(LATER - MINUTE, "pod-changes")])
    assert isinstance(at_once(stage, LATER + 8 * MINUTE)[0], ResizePlanned)
    stage = open_stage()
    look(stage, LATER - MINUTE, cluster_changes=[report(LATER - MINUTE, "pod-changes")])
    refused = at_once(stage, LATER + 10 * MINUTE)
    assert only_guard(refused) == "blind"
    assert refused[0].reason == "no report of a source that sees pods of this cluster for 660 s; more than 600 s is flying blind"


def test_a_source_that_goes_on_and_no_longer_sees_pods_is_blind_and_one_that_comes_back_is_not() -> None:
    stage, minutes = open_stage(), range(0, 15 * MINUTE, MINUTE)
    look(stage, LATER - MINUTE, cluster_changes=[report(LATER - MINUTE, "pod-changes")])
    for minute in minutes:
        look(stage, LATER + minute, cluster_changes=[report(LATER + minute, "oom-events")])
    assert only_guard(at_once(stage, LATER + 15 * MINUTE)) == "blind"
    back = LATER + 16 * MINUTE
    [plan, *_] = look(stage, back, cluster_changes=[report(back, "pod-changes")], recommendations_by_cluster=[recommend(back)])
    assert isinstance(plan, ResizePlanned)


def test_a_plan_that_waits_for_its_node_is_not_ended_by_what_reports_say_when_it_is_made() -> None:
    stage = open_stage()
    look(stage, LATER - MINUTE, cluster_changes=[report(LATER - MINUTE, "pod-changes")])
    plan = at_once(stage, LATER + 8 * MINUTE)[0]
    assert plan.void_after == plan.expires


def test_guard_stale() -> None:
    stage = open_stage()
    look(stage, LATER - MINUTE, recommendations_by_cluster=[recommend(LATER, low=0.5, target=1.0, high=2.0)])
    late = LATER + 121 * MINUTE
    assert only_guard(look(stage, late, pod_changes_by_cluster=[narrow(name, late) for name in "abc"])) == "stale"


def narrow(name: str, number: int) -> Any:
    return pod(name, number, containers=(ContainerSeen("app", Amounts(0.1, GIB), Amounts(0.2, 2 * GIB)),))


def test_guard_phase() -> None:
    pods = [pod(name, START, phase=PodPhase.PENDING) for name in "abc"]
    assert only_guard(at_once(open_stage(*pods))) == "phase"


def test_guard_replicas() -> None:
    assert only_guard(at_once(open_stage(pod("a", START)))) == "replicas"


def test_a_single_replica_may_be_resized_if_the_settings_say_so() -> None:
    [plan] = at_once(open_stage(pod("a", START), in_place_skips_disruption=True))
    assert isinstance(plan, ResizePlanned)


@pytest.mark.parametrize(("pods", "planned"), [(2, 1), (3, 1), (4, 2), (5, 2), (10, 5)])
def test_guard_tolerance(pods: Any, planned: Any) -> None:
    decided = at_once(open_stage(*[pod(f"p{i}", START) for i in range(pods)]))
    assert [type(d) for d in decided].count(ResizePlanned) == planned
    assert {d.guard for d in decided if isinstance(d, UpdateRefused)} == {"tolerance"}


def test_guard_budget_of_the_workload() -> None:
    decided = at_once(open_stage(*[pod(f"p{i}", START) for i in range(10)], control=apply(budget=0.2)))
    assert [getattr(d, "guard", "") for d in decided].count("") == 2  # 20 % of 10
    assert {d.guard for d in decided if isinstance(d, UpdateRefused)} == {"workload-budget"}


def test_guard_budget_of_the_cluster() -> None:
    other = [Workload("demo", "web", "Deployment", f"w{i}") for i in range(10)]
    pods = [pod(f"p{i}-{j}", START, workload=w) for i, w in enumerate(other) for j in range(2)]
    stage = open_stage(*pods, control=apply(budget=0.25))
    decided = look(stage, recommendations_by_cluster=[recommend(LATER, w) for w in other])
    assert [type(d) for d in decided].count(ResizePlanned) == 5  # 25 % of 20
    guards = [d.guard for d in decided if isinstance(d, UpdateRefused)]
    assert set(guards) == {"workload-budget", "tolerance", "budget"} - ({"workload-budget"} if "tolerance" in guards else set())


def test_guard_protected() -> None:
    dns = Workload("demo", "kube-system", "Deployment", "dns")
    pods = [pod(name, START, workload=dns, pod=PodName("kube-system", name, f"uid-{name}")) for name in "abc"]
    assert only_guard(look(open_stage(*pods), recommendations_by_cluster=[recommend(LATER, dns)])) == "protected"
    allowed = open_stage(*pods, protected_namespaces="kube-node-lease, other-*")
    assert isinstance(look(allowed, recommendations_by_cluster=[recommend(LATER, dns)])[0], ResizePlanned)


@pytest.mark.parametrize("kind", ["StatefulSet", "Pod"])
@pytest.mark.parametrize("least", [None, 2])
def test_a_single_pod_gets_more_in_place_where_nothing_stops_for_it(kind: str, least: int | None) -> None:
    """autoscaler#8720: minReplicas keeps the only pod from evictions, and kept it from resizes, too."""
    only = Workload("demo", "web", kind, "db")
    for restarts_on, mode, target, planned in [
        ((), UpdateMode.IN_PLACE, 3.0, True),
        (("cpu",), UpdateMode.IN_PLACE, 3.0, False),
        ((), UpdateMode.IN_PLACE, 0.2, False),
        ((), UpdateMode.RECREATE, 3.0, False),
    ]:
        app = ContainerSeen("app", Amounts(1.0, GIB), restarts_on=restarts_on)  # type: ignore[arg-type]  # units
        governing = VerticalPolicyChanged(when(START), "*", "2", mode, guards=GuardOverrides(min_replicas=least))
        stage = open_stage(pod("a", START, workload=only, containers=(app,)), mode=mode)
        look(stage, START + MINUTE, policies=[governing])
        decided = at_once(stage, workload=only, low=target, target=target, high=target)
        assert any(isinstance(each, ResizePlanned) for each in decided) is planned
        assert planned or only_guard(decided) == "replicas"


def test_a_static_pod_is_changed_in_no_way() -> None:
    """autoscaler#7378: a VPA that selects them. The API server answers "static pods cannot be resized"."""
    static = Workload("demo", "web", "Pod", "proxy-n1")
    stage = open_stage(pod("proxy-n1", START, workload=static, controller="Node/n1"), mode=UpdateMode.IN_PLACE)
    [refused] = at_once(stage, workload=static, low=3.0, target=3.0, high=3.0)
    reason = "it is a static pod, which can be neither evicted nor resized: its manifest on node 'n1' has its amounts"
    assert (refused.guard, refused.reason) == ("acceptance", reason)


OPTED_OUT = "karpenter.sh/do-not-disrupt=true"


def test_guard_opt_out() -> None:
    pods = [pod(name, START, opted_out=OPTED_OUT) for name in "abc"]
    [refused] = at_once(open_stage(*pods, mode=UpdateMode.RECREATE))
    assert (refused.guard, refused.pods) == ("opt-out", 3)
    assert refused.reason == f"the pod is annotated '{OPTED_OUT}', which asks that nobody evicts it"
    assert isinstance(at_once(open_stage(*pods))[0], ResizePlanned)
    assert isinstance(at_once(open_stage(*pods, mode=UpdateMode.RECREATE, honor_opt_outs=False))[0], EvictionPlanned)


RESTARTED = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), restarts_on=("cpu",))  # type: ignore[arg-type]  # units


def test_a_resize_that_restarts_a_container_counts_as_a_disruption() -> None:
    pods = [pod(name, START, containers=(RESTARTED,)) for name in "abcd"]
    skipping = open_stage(*pods, in_place_skips_disruption=True)
    decided = at_once(skipping)
    assert [getattr(each, "guard", type(each).__name__) for each in decided] == ["ResizePlanned"] * 2 + ["tolerance"]
    opted_out = [pod(name, START, containers=(RESTARTED,), opted_out=OPTED_OUT) for name in "abcd"]
    assert only_guard(at_once(open_stage(*opted_out))) == "opt-out"
    memory = replace(RESTARTED, restarts_on=("memory",))  # which stays as it is
    pods = [pod(name, START, containers=(memory,)) for name in "abcd"]
    assert len(at_once(open_stage(*pods, in_place_skips_disruption=True))) == 4


def test_guard_budget_of_the_namespace() -> None:
    busy = [Workload("demo", "web", "Deployment", f"w{i}") for i in range(10)]
    quiet = Workload("demo", "quiet", "Deployment", "q")
    pods = [pod(f"p{i}-{j}", START, workload=w) for i, w in enumerate(busy) for j in range(4)]
    pods += [pod(f"q{i}", START, workload=quiet) for i in range(160)]
    decided = look(open_stage(*pods, control=apply(budget=0.1)), recommendations_by_cluster=[recommend(LATER, w) for w in busy])
    assert [type(d) for d in decided].count(ResizePlanned) == 4  # 10 % of the namespace's 40; the cluster's 200 would allow 20
    assert (
        "4 of the namespace's 40 pods" in {d.guard: d.reason for d in decided if isinstance(d, UpdateRefused)}["namespace-budget"]
    )


def after_an_eviction(back: Any) -> Any:
    """A stage that evicted one of three pods, whose successor is `back`; the cool-down is over."""
    stage = open_stage(mode=UpdateMode.RECREATE, cool_down=0.0, budget=1.0)
    plan = at_once(stage)[0]
    look(stage, LATER + MINUTE, outcomes=[finished(plan, Result.DONE, Action.EVICT)])
    gone = PodDeleted(when(LATER + 2 * MINUTE), API, plan.pod)
    look(stage, LATER + 2 * MINUTE, pod_changes_by_cluster=[gone, back])
    return stage


def requesting(cpu: float) -> Any:
    seen = ContainerSeen("app", Amounts(cpu, GIB), Amounts(2.0, 2 * GIB))  # type: ignore[arg-type]  # units
    return pod("new", LATER + 2 * MINUTE, containers=(seen,))


@pytest.mark.parametrize(
    ("cpu", "says"),
    [(1.0, "came back as the evicted one was"), (3.0, "came back with requests that nobody recommended")],
)
def test_guard_unchanged(cpu: float, says: str) -> None:
    stage = after_an_eviction(requesting(cpu))
    said = stage.clusters.evictions.get(API.key)
    assert says in said.fault
    decided = look(stage, LATER + 30 * MINUTE, recommendations_by_cluster=[recommend(LATER + 30 * MINUTE)])
    assert [type(each) for each in decided if each.at == when(LATER + 30 * MINUTE)] == []  # said at once, and nothing since
    [planned, *_] = look(stage, LATER + 63 * MINUTE, recommendations_by_cluster=[recommend(LATER + 63 * MINUTE)])
    assert isinstance(planned, EvictionPlanned)


@pytest.mark.parametrize("order", ["all at once", "the pods first", "the pods first, gracefully"])
def test_guard_unchanged_whatever_comes_first_of_pods_and_outcome(order: str) -> None:
    """A pod without grace is gone, and its successor there, before the evictor has told that the cluster accepted."""
    stage = open_stage(mode=UpdateMode.RECREATE, cool_down=0.0, budget=1.0)
    plan = at_once(stage)[0]
    at, outcome = LATER + MINUTE, finished(plan, Result.DONE, Action.EVICT)
    leaving = replace(pod(plan.pod.name, START), pod=plan.pod, leaving=True)
    gone, back = PodDeleted(when(at), API, plan.pod), pod("new", at)
    if order == "all at once":
        look(stage, at, pod_changes_by_cluster=[gone, back], outcomes=[outcome])
    else:
        look(stage, at, pod_changes_by_cluster=[leaving if "gracefully" in order else gone, back])
        look(stage, at + 1000, outcomes=[outcome])
    assert "came back as the evicted one was" in stage.clusters.evictions.get(API.key).fault
    assert [type(each) for each in look(stage, at + 30 * MINUTE, recommendations_by_cluster=[recommend(at + 30 * MINUTE)])] == []


def test_a_pod_that_goes_in_shadow_was_not_evicted_by_us() -> None:
    stage = open_stage(mode=UpdateMode.RECREATE, cool_down=0.0, budget=1.0, control=apply(mode=Mode.SHADOW))
    plan = at_once(stage)[0]
    look(
        stage,
        LATER + MINUTE,
        pod_changes_by_cluster=[PodDeleted(when(LATER + MINUTE), API, plan.pod), pod("new", LATER + MINUTE)],
    )
    assert stage.clusters.evictions.get(API.key) is None


def test_after_a_successor_with_the_recommended_requests_the_next_pod_goes() -> None:
    stage = after_an_eviction(requesting(0.2))
    assert stage.clusters.evictions.get(API.key).fault == ""
    later = LATER + 10 * MINUTE
    assert EvictionPlanned in [type(each) for each in look(stage, later, recommendations_by_cluster=[recommend(later)])]


def test_guard_rate() -> None:
    other = [Workload("demo", "web", "Deployment", f"w{i}") for i in range(4)]
    pods = [pod(f"p{i}-{j}", START, workload=w) for i, w in enumerate(other) for j in range(2)]
    stage = open_stage(*pods, resize_rate=2, rate=0)  # a rate of their own, apart from that of evictions
    decided = look(stage, recommendations_by_cluster=[recommend(LATER, w) for w in other])
    assert [type(d) for d in decided].count(ResizePlanned) == 2
    assert "rate" in {d.guard for d in decided if isinstance(d, UpdateRefused)}
    assert [look(stage, LATER + seconds * 1000) for seconds in (1, 30, 59)] == [[], [], []], "an interval is a minute"
    assert [type(d) for d in look(stage, LATER + MINUTE)].count(ResizePlanned) == 2


@pytest.mark.parametrize("restarts", [(), ("cpu",)], ids=["no restart", "a restart"])
def test_a_resize_that_the_kubelet_defers_holds_nobody_else_back_unless_it_stops_a_container(restarts: tuple[str, ...]) -> None:
    app = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), restarts_on=restarts)
    pods = [pod(name, START, containers=(app,)) for name in "abcde"]
    stage = open_stage(*pods, control=apply(budget=0.2), expires=3600.0)
    planned = [each.pod.name for each in at_once(stage) if isinstance(each, ResizePlanned)]
    assert planned == ["a"]  # one of five in an interval
    deferred = replace(pods[0], resize=ResizeState.DEFERRED)
    later = look(stage, LATER + MINUTE, pod_changes_by_cluster=[deferred])
    planned = [each.pod.name for each in later if isinstance(each, ResizePlanned)]
    assert planned == ([] if restarts else ["b"])


def test_a_refusal_is_said_once_until_its_guard_changes() -> None:
    stage = open_stage(control=apply(paused=True))
    assert only_guard(at_once(stage)) == "paused"
    assert look(stage, LATER + MINUTE) == []
    assert only_guard(look(stage, LATER + 2 * MINUTE, policies=[policy(UpdateMode.OFF)])) == "mode"


def test_a_workload_has_one_refusal_for_each_guard_which_says_how_many_pods_it_holds_back() -> None:
    stage = open_stage(*[pod(f"p{i}", START) for i in range(10)], control=apply(budget=0.2))
    decided = at_once(stage)
    [refused] = [d for d in decided if isinstance(d, UpdateRefused)]
    assert (refused.id, refused.pods, refused.pod.name) == (f"updater/0/{LATER}/refuse-workload-budget/{API.key}", 8, "p2")
    assert refused.because["pods"]["workload"]["being_changed"] == 2


def test_a_refusal_is_said_again_when_twice_as_many_pods_are_held_back() -> None:
    pods = [pod(f"p{i}", START) for i in range(8)]
    stage = open_stage(*pods[:4], control=apply(paused=True))
    assert [d.pods for d in at_once(stage)] == [4]
    assert look(stage, LATER + MINUTE, pod_changes_by_cluster=pods[4:7]) == []
    assert [d.pods for d in look(stage, LATER + 2 * MINUTE, pod_changes_by_cluster=pods[7:])] == [8]
    gone = [PodDeleted(when(LATER), API, each.pod) for each in pods[3:]]
    assert look(stage, LATER + 3 * MINUTE, pod_changes_by_cluster=gone) == []


@pytest.mark.parametrize(("minutes", "said"), [(60, 0), (61, 1)])
def test_a_refusal_whose_guard_was_gone_for_an_hour_is_said_again(minutes: int, said: int) -> None:
    stage = open_stage(control=apply(paused=True), mode=UpdateMode.OFF)
    assert only_guard(at_once(stage)) == "mode"
    look(stage, LATER + MINUTE, recommendations_by_cluster=[recommend(LATER + MINUTE, low=0.5, target=1.0, high=2.0)])
    later = LATER + minutes * MINUTE
    assert len(look(stage, later, recommendations_by_cluster=[recommend(later)])) == said


def test_guards_that_take_turns_are_each_said_once() -> None:
    stage = open_stage(control=apply(paused=True))
    said = [only_guard(at_once(stage))]
    for number in range(1, 20):
        mode = UpdateMode.OFF if number % 2 else UpdateMode.IN_PLACE_OR_RECREATE
        said += [d.guard for d in look(stage, LATER + number * MINUTE, policies=[policy(mode)])]
    assert said == ["paused", "mode"]


def test_a_deleted_pod_is_forgotten() -> None:
    stage = open_stage()
    look(stage, LATER - MINUTE, pod_changes_by_cluster=[PodDeleted(when(LATER), API, pod(n, START).pod) for n in "abc"])
    assert at_once(stage) == []
    assert stage.clusters.pods_of == {}


def test_what_is_known_of_a_workload_goes_when_its_pods_are_gone_and_its_recommendation_is_too_old_to_act_on() -> None:
    stage = open_stage(recommendation_within=1800.0)
    at_once(stage)
    gone = [PodDeleted(when(LATER), API, pod(n, START).pod) for n in "abc"]
    look(stage, LATER + 20 * MINUTE, pod_changes_by_cluster=gone)
    assert (len(stage.clusters.recommended), len(stage.clusters.histories), len(stage._search.advice._shapes)) == (1, 0, 0)
    look(stage, LATER + 31 * MINUTE)
    assert (len(stage.clusters.recommended), list(stage.chunks())) == (0, list(resumed(stage).chunks()))


def test_an_old_recommendation_of_a_workload_with_pods_is_kept_and_refused_as_stale() -> None:
    stage = open_stage(recommendation_within=1800.0, cool_down=0.0)
    at_once(stage)
    assert only_guard(look(stage, LATER + 31 * MINUTE)) == "stale"
    assert len(stage.clusters.recommended) == 1


def test_a_pod_whose_owner_became_known_later_belongs_to_that_one_alone_also_without_a_restart() -> None:
    stage = open_stage(pod("a", START, workload=Workload("demo", "web", "ReplicaSet", "api-1")), pod("b", START))
    look(stage, LATER - MINUTE, pod_changes_by_cluster=[pod("a", START)])
    assert {key: sorted(pods) for key, pods in stage.clusters.pods_of.items()} == {API.key: ["uid-a", "uid-b"]}
    assert stage.clusters.pods_of == resumed(stage).clusters.pods_of


def test_a_resumed_snapshot_is_as_if_it_had_never_stopped() -> None:
    def story() -> Any:
        yield turn(START, policies=[policy()], control=[apply()], pod_changes_by_cluster=[pod(f"p{i}", START) for i in range(5)])
        yield turn(LATER, recommendations_by_cluster=[recommend(LATER)])
        yield turn(LATER + MINUTE, pod_changes_by_cluster=[pod("p1", LATER, resize=ResizeState.DEFERRED)])
        for minute in range(2, 30, 3):
            gone = [PodDeleted(when(LATER), API, pod("p0", START).pod)] if minute == 14 else []
            yield turn(LATER + minute * MINUTE, pod_changes_by_cluster=[*gone, pod(f"p{minute}", LATER)])

    turns = list(story())
    for cut in range(len(turns)):
        through, stopped, written = open_empty(), open_empty(), {}
        for place, each in enumerate(turns):
            if place == cut:
                stopped = resumed(stopped)
            assert list(through.step(each)) == list(stopped.step(each))
            written |= {chunk: through.dump(chunk) for chunk in through.take_dirty()}
        whole = {chunk: through.dump(chunk) for chunk in through.chunks()}
        assert whole == {chunk: stopped.dump(chunk) for chunk in stopped.chunks()} == written


def open_empty() -> Any:
    return Updater(UpdateSettings(), 0)


def resumed(stage: Any) -> Any:
    fresh = open_empty()
    for chunk in sorted(stage.chunks()):
        fresh.load(chunk, stage.dump(chunk))
    return fresh


def successor(cpu: float, limit: float, *boosted: BoostedContainer) -> Any:
    seen = ContainerSeen("app", Amounts(cpu, GIB), Amounts(limit, 2 * GIB), ready=True)  # type: ignore[arg-type]  # units
    return pod("new", LATER, containers=(seen,), boosted=boosted)


OLD = ContainerSeen("app", Amounts(1.0, 4 * GIB), Amounts(2.0, 8 * GIB), ready=True)
HPA = HpaTargetChanged(when(START), "demo", "web", "api", "Deployment", "api", ("cpu",))
CAP = LimitRangeChanged(when(START), "demo", "web", "range", (Limit(LimitType.CONTAINER, most=Amounts(0.16)),))
ONLY_REQUESTS = VerticalPolicyChanged(
    when(START), "*", "2", UpdateMode.RECREATE, (ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY),)
)


@pytest.mark.parametrize(
    ("facts", "policies", "new"),
    [
        ([HPA], [], successor(1.0, 2.0)),
        ([], [], successor(2.0, 4.0, BoostedContainer("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB)))),
        ([], [CAP], successor(0.08, 0.16)),
        ([], [ONLY_REQUESTS], successor(0.05, 0.05)),
    ],
    ids=["CPU left to an HPA", "a startup boost", "a LimitRange", "limits that stay"],
)
def test_a_successor_as_admission_makes_it_is_no_fault(facts: Any, policies: Any, new: Any) -> None:
    stage = open_stage(*[pod(name, START, containers=(OLD,)) for name in "abc"], mode=UpdateMode.RECREATE)
    known = {"pod_changes_by_cluster": facts, "policies": policies}
    [plan, *_] = look(stage, LATER, recommendations_by_cluster=[recommend(LATER)], **known)
    look(stage, LATER + MINUTE, outcomes=[finished(plan, Result.DONE, Action.EVICT)])
    look(stage, LATER + 2 * MINUTE, pod_changes_by_cluster=[PodDeleted(when(LATER), API, plan.pod), new])
    judged = stage.clusters.evictions.get(API.key)
    assert (judged.judged, judged.fault) == (LATER + 2 * MINUTE, "")
    later = LATER + 10 * MINUTE
    assert EvictionPlanned in [type(each) for each in look(stage, later, recommendations_by_cluster=[recommend(later)])]


def test_a_limit_range_that_is_stated_again_makes_nobody_look_again() -> None:
    stage = open_stage()
    assert stage.clusters.constraints.ingest_policy(CAP) is True
    assert stage.clusters.constraints.ingest_policy(replace(CAP, at=when(LATER))) is False
    assert stage.clusters.constraints.ingest_policy(replace(CAP, limits=())) is True


@pytest.mark.parametrize("healed", [False, True])
def test_vpas_are_ours_or_not_by_the_rules_in_force(healed: bool) -> None:
    """Also where a program before this one left them judged by an old name: each program publishes its rules anew."""
    stage, recommended = open_stage(mode=UpdateMode.OFF), [recommend(LATER)]
    look(stage, LATER, policies=[vpa(recommenders=("theirs",))], recommendations_by_cluster=recommended)
    assert look(stage, LATER + MINUTE) == []
    if healed:
        stage.settings = stage._own = replace(stage.settings, recommender="theirs")
        stage.policies.recommender, stage.rules = "theirs", StageRules("updater", stage.settings)
    rules = asdict(replace(stage.settings, recommender="theirs"))
    changed = StageRulesChanged(when(LATER), "updater", 9, rules, rules_version("updater", 9, rules))
    assert EvictionPlanned in {type(each) for each in look(stage, LATER + 2 * MINUTE, rules=[changed])}


def test_pods_with_a_vpa_of_another_recommender_are_neither_planned_for_nor_refused() -> None:
    stage = open_stage()
    assert look(stage, LATER, policies=[vpa(recommenders=("theirs",))], recommendations_by_cluster=[recommend(LATER)]) == []
    assert look(stage, LATER + 2 * MINUTE) == []
