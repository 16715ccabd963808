"""What a recommendation comes to for a running pod: within LimitRanges and limits that stay, as admission has it for new ones."""

from dataclasses import replace
from typing import Any

from agents.logic.updates import pending_updates
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.policies.vertical import ContainerPolicy, ControlledValues, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes
from tests.agents.logic.updates.test_updater import LATER, at_once, look, open_stage, recommend
from tests.support.cluster_events import GIB, MINUTE, START, pod, when

RANGE = LimitRangeChanged(when(START), "demo", "web", "small", (Limit(LimitType.CONTAINER, least=Amounts(0.8, None)),))
ONLY = ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY)


def requests_only(stage: Any) -> Any:
    policy = VerticalPolicyChanged(when(START), "*", "2", UpdateMode.IN_PLACE_OR_RECREATE, (ONLY,))
    look(stage, START + MINUTE, policies=[policy])
    return stage


def test_limits_stay_where_the_policy_controls_requests_only() -> None:
    [first, *_] = at_once(requests_only(open_stage()))
    assert isinstance(first, ResizePlanned)
    assert (first.requests, first.limits) == ({"app": Amounts(0.2, GIB)}, {"app": Amounts()})


def test_a_request_does_not_pass_a_limit_that_stays() -> None:
    seen = ContainerSeen("app", Amounts(0.1, GIB), Amounts(0.3, 2 * GIB))
    stage = requests_only(open_stage(*(pod(name, START, containers=(seen,)) for name in "abc")))
    [first, *_] = at_once(stage, low=0.5, target=0.6, high=0.7)
    assert first.requests == {"app": Amounts(0.3, GIB)}


def test_a_policy_that_is_newer_than_the_recommendation_bounds_it_as_admission_does() -> None:
    """Upstream's updater caps by the policy that is in force, too."""
    stage = open_stage()
    bounded = ContainerPolicy("*", max_allowed=Amounts(0.3), min_allowed=Amounts(memory=Bytes(GIB // 4)))
    policy = VerticalPolicyChanged(when(START), "*", "2", UpdateMode.IN_PLACE_OR_RECREATE, (bounded,))
    look(stage, START + MINUTE, policies=[policy])
    [first, *_] = at_once(stage, low=1.5, target=2.0, high=3.0)
    assert first.requests == {"app": Amounts(0.3, GIB)}
    assert first.because["containers"]["app"]["upper"]["cpu"] == 0.3


def test_a_limit_range_bounds_what_a_running_pod_is_given() -> None:
    stage = open_stage()
    look(stage, START + MINUTE, policies=[RANGE])
    [first, *_] = at_once(stage)
    # the limit is twice the request, so a request of 0.4 would have a limit of 0.8; the least holds for the request itself, too
    assert first.requests == {"app": Amounts(0.8, GIB)}


def test_a_pod_that_a_limit_range_holds_at_its_bound_is_not_changed_again_and_again() -> None:
    seen = ContainerSeen("app", Amounts(0.8, GIB), Amounts(1.6, 2 * GIB))
    pods = [pod(name, START, containers=(seen,)) for name in "abc"]
    stage = open_stage(*pods)
    look(stage, START + MINUTE, policies=[RANGE])
    [refused] = at_once(stage)  # 0.2 is recommended, and 0.8 is the least
    assert (type(refused), refused.guard, refused.pods) == (UpdateRefused, "capped", 3)
    assert "cpu of container 'app': 200m are recommended, but a LimitRange of namespace 'web' asks for 800m" in refused.reason
    assert refused.because["caps"] == {"app": ["LimitRange"]}
    assert at_once(stage, LATER + 2 * MINUTE) == []
    [again] = at_once(stage, LATER + 31 * MINUTE)  # it is said again, so that commands need the log's end alone
    assert (again.guard, again.reason) == ("capped", refused.reason)
    gone = LimitRangeRemoved(when(LATER), "demo", "web", "small")
    assert isinstance(look(stage, LATER + 32 * MINUTE, policies=[gone])[0], ResizePlanned)


def test_a_limit_range_is_known_after_a_restart() -> None:
    stage = open_stage()
    look(stage, START + MINUTE, policies=[RANGE])
    other = open_stage()
    for chunk in stage.chunks():
        other.load(chunk, stage.dump(chunk))
    [first, *_] = look(other, LATER, recommendations_by_cluster=[recommend(LATER)])
    assert first.requests == {"app": Amounts(0.8, GIB)}


BESIDE = ContainerSeen("side", Amounts(0.1, GIB // 8), Amounts(0.2, GIB // 4), ready=True)
BOTH = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), ready=True), BESIDE
POD_RANGE = LimitRangeChanged(when(START), "demo", "web", "pods", (Limit(LimitType.POD, most=Amounts(0.3)),))


def test_a_pod_whose_limit_range_has_no_answer_is_refused_with_the_reason_and_why_not_says_it() -> None:
    stage = open_stage(*(pod(name, START, containers=BOTH) for name in "abc"))
    look(stage, START + MINUTE, policies=[POD_RANGE])
    [refused] = at_once(stage)
    assert (type(refused), refused.guard, refused.pods) == (UpdateRefused, "limit-range", 3)
    assert "the pod's LimitRange asks to scale cpu of container 'side', for which nothing is recommended" in refused.reason
    [first, *_] = pending_updates.outlook(stage, "demo")
    assert first.refused is not None
    assert first.refused.guard == "limit-range"
    assert look(stage, LATER + MINUTE, recommendations_by_cluster=[recommend(LATER + MINUTE)]) == []


def test_a_limit_range_without_an_answer_refuses_no_pod_that_requests_what_is_recommended() -> None:
    fits = ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.4, 2 * GIB), ready=True)
    stage = open_stage(*(pod(name, START, containers=(fits, BESIDE)) for name in "abc"))
    look(stage, START + MINUTE, policies=[POD_RANGE])
    assert at_once(stage) == []


def test_a_pod_at_a_limit_that_stays_is_said_to_be_capped_and_what_to_change() -> None:
    """Killed for ever under a static limit, while every command said that it lies within its bounds (autoscaler#1574)."""
    seen = ContainerSeen("app", Amounts(0.2, GIB // 4), Amounts(None, GIB // 4), ready=True)
    stage = requests_only(open_stage(*(pod(name, START, containers=(seen,)) for name in "abc")))
    [refused] = at_once(stage)
    assert (refused.guard, refused.pods) == ("capped", 3)
    assert refused.reason == (
        "memory of container 'app': 1.00 GiB are recommended, but its limit is 256.0 MiB and stays, because policy '*' controls "
        "requests only; raise the limit in its template"
    )
    [first, *_] = pending_updates.outlook(stage, "demo")
    assert first.refused is not None
    assert first.refused.guard == "capped"


def test_a_pod_that_its_policy_holds_at_a_bound_is_said_to_be_so() -> None:
    stage = open_stage()
    bounded = VerticalPolicyChanged(
        when(START), "*", "2", UpdateMode.IN_PLACE_OR_RECREATE, (ContainerPolicy("*", max_allowed=Amounts(1.0)),)
    )
    look(stage, START + MINUTE, policies=[bounded])
    told = recommend(LATER, low=1.0, target=1.0, high=1.0)
    free = Amounts(3.0, GIB)
    told = replace(told, containers=tuple(replace(each, uncapped=free) for each in told.containers))
    assert look(stage, LATER, recommendations_by_cluster=[told]) == []
    sentence = pending_updates.not_wanted(stage, "uid-a")
    assert "cpu of container 'app' would be 3000m, but policy '*' allows 1000m at most" in sentence


def test_a_recommendation_of_the_log_whose_target_lies_outside_its_bounds_is_ordered_as_it_is_taken_in() -> None:
    """An older program wrote such; a pod that requests the target would be changed to what it has."""
    stage = open_stage()
    [first, *_] = at_once(stage, low=0.3, target=0.6, high=0.5)
    assert first.because["containers"]["app"]["upper"]["cpu"] == 0.6
    stage = open_stage()
    [first, *_] = at_once(stage, low=0.7, target=0.6, high=0.9)
    assert first.because["containers"]["app"]["lower"]["cpu"] == 0.6
