"""Where no HPA follows from an EHPA, decisions tell the conditions that one would have, but not in every round."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf

import pytest

from agents.engine.turn import Decided
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from schemas.catalogue import Event
from schemas.decisions.replica_plans import HpaConditions, ReplicasPlanned, ReplicasRefused
from schemas.facts.pods import PodPhase
from schemas.facts.replica_scaling import HpaGone, HpaSeen
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import CronTrigger
from schemas.policies.vpa import TargetRef
from tests.support.replica_scene import CART, MONDAY, ForecasterScene, ehpa, plans, pods, refusals, resumed, scale, scrape

NOW = MONDAY + timedelta(hours=2)
MINUTE = timedelta(minutes=1)
DIRECT = ehpa(annotations={"ullage/scaling": "direct"}, prediction=None, max_replicas=6)
BY_HPA = ehpa(prediction=None, max_replicas=6)


def told(decided: Sequence[Decided]) -> list[tuple[object, ...]]:
    """The conditions of each decision."""
    found = [each.event for each in decided if isinstance(each.event, ReplicasPlanned | ReplicasRefused)][::2]
    return [(told.able, told.active, told.limited) for event in found if (told := event.conditions) is not None]


def minutes(scene: ForecasterScene, first: int, loads: Sequence[float]) -> list[Decided]:
    """A minute for each load, with five pods that use so many cores each."""
    found = list[Decided]()
    for n, cores in enumerate(loads, start=first):
        found += scene.run(NOW + n * MINUTE, 55, scrape(NOW + n * MINUTE, 5, cores))
    return found


def begun(policy: EhpaChanged) -> ForecasterScene:
    """Five pods that are to use half a core each, and do."""
    scene = ForecasterScene()
    [first] = plans(scene.run(NOW, 55, policy, *pods(NOW, 5), scale(NOW, 5), scrape(NOW, 5, 0.5)))
    told = HpaConditions("True/ReadyForNewScale", "True/ValidMetricFound", "False/DesiredWithinRange")
    assert first.conditions == (told if policy is DIRECT else None)
    return scene


def test_a_direct_plan_that_stays_tells_that_a_scale_down_waits_and_when_it_no_longer_does() -> None:
    scene = begun(DIRECT)
    assert told(minutes(scene, 1, [0.4])) == [("True/ScaleDownStabilized", "True/ValidMetricFound", "False/DesiredWithinRange")]
    assert minutes(scene, 2, [0.4, 0.4]) == []
    assert told(minutes(scene, 4, [0.5])) == [("True/ReadyForNewScale", "True/ValidMetricFound", "False/DesiredWithinRange")]


def test_a_direct_plan_at_the_maximum_tells_that_more_is_asked_for() -> None:
    scene = begun(DIRECT)
    [more] = plans(minutes(scene, 1, [0.9]))
    assert (more.replicas, more.because["limited"]) == (6, "True/TooManyReplicas")
    decided = scene.run(NOW + 2 * MINUTE, 55, scale(NOW + 2 * MINUTE, 6))
    assert told(decided) == [("True/ReadyForNewScale", "True/ValidMetricFound", "True/TooManyReplicas")]


def test_a_refusal_for_want_of_a_metric_tells_the_conditions_too() -> None:
    scene = begun(DIRECT)
    decided = scene.run(NOW + 20 * MINUTE, 55)  # the sample is too old
    [refused] = refusals(decided)
    assert told(decided) == [("True/SucceededGetScale", "False/FailedGetResourceMetric", "False/DesiredWithinRange")]
    assert refused.guard == "no-metric"


def test_where_an_hpa_scales_a_plan_that_stays_is_not_told_again() -> None:
    assert minutes(begun(BY_HPA), 1, [0.4, 0.5, 0.4, 0.5]) == []


def flapping(at: datetime, n: int, replicas: int) -> list[Event]:
    """In every second round the pods request nothing, so that no metric can be read."""
    return [*pods(at, replicas, 1.0 if n % 2 else None), scrape(at, replicas, 0.5)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_metric_that_comes_and_goes_in_each_round_makes_a_decision_a_minute(*, restarts: bool) -> None:
    scene, decided = begun(DIRECT), list[Decided]()
    for n in range(40):  # ten minutes
        at = NOW + MINUTE + n * timedelta(seconds=15)
        decided += scene.run(at, 10, *flapping(at, n, 5))
        scene = resumed(scene) if restarts else scene
    found = [each for each in decided if each.topic == "replica-plans"]
    assert 4 <= len(found) <= 10
    assert len(decided) == 2 * len(found)
    assert {"ReplicasPlanned", "ReplicasRefused"} == {type(each.event).__name__ for each in found}


def test_a_load_about_a_bound_in_each_round_makes_a_decision_a_minute() -> None:
    scene, decided = begun(DIRECT), list[Decided]()
    for n in range(40):
        at = NOW + MINUTE + n * timedelta(seconds=15)
        decided += scene.run(at, 10, scrape(at, 5, 0.4 if n % 2 else 0.5))
    assert len(decided) <= 2 * 10


def test_what_has_to_be_scaled_does_not_wait_for_the_minute() -> None:
    scene = begun(DIRECT)
    at = NOW + MINUTE
    [refused] = refusals(scene.run(at, 10, *pods(at, 5, None)))
    assert refused.guard == "no-metric"
    at += timedelta(seconds=15)
    [plan] = plans(scene.run(at, 10, *pods(at, 5), scrape(at, 5, 0.6)))
    assert plan.replicas == 6


@pytest.mark.parametrize("direct", [True, False])
def test_pods_that_have_ended_keep_no_others_there_but_as_an_hpa_has_it(direct: bool) -> None:
    """kubernetes#129866: an HPA takes a pod that ended well for one as busy as can be, and never scales down beside it."""
    scene = ForecasterScene(ForecasterSettings(downscale_window=0.0))  # type: ignore[arg-type]  # a unit
    policy = ehpa(prediction=None, annotations={"ullage/scaling": "direct"} if direct else {})
    ended = [replace(each, phase=PodPhase.SUCCEEDED) for each in pods(NOW, 10)[5:]]
    decided = scene.run(NOW, 60, policy, *pods(NOW, 5), *ended, scrape(NOW, 5, 0.1), scale(NOW, 5))
    assert plans(decided)[-1].replicas == (1 if direct else 5)


def test_a_cron_holds_the_replicas_still() -> None:
    """keda#6709: between 47 and 50 replicas, up and down, where a cron asked for 45."""
    cron = CronTrigger("day", "0 1 * * *", "0 5 * * *", 45)
    policy = ehpa(prediction=None, crons=(cron,), max_replicas=56, annotations={"ullage/scaling": "direct"})
    scene, now, asked = ForecasterScene(), 56, []
    for minute in range(60):
        at = NOW + minute * MINUTE
        events = (*pods(NOW, 56), policy) if minute == 0 else ()
        for plan in plans(scene.run(at, 55, *events, scrape(at, 56, 0.1), scale(at, now))):
            now = plan.replicas
        asked.append(now)
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] == 45


def tries(back_after: float, *, hours: int, times: int = 1_000_000) -> tuple[list[float], list[ReplicasRefused]]:
    """The seconds at which replicas are asked for that somebody sets back after so many seconds, so many times; refusals."""
    scene, have, reset_at, asked = ForecasterScene(), 1, inf, list[float]()
    refused: list[ReplicasRefused] = []
    scene.step(NOW, DIRECT, *pods(NOW, 1), scale(NOW, 1), scrape(NOW, 1, 2.0))
    for number in range(1, hours * 720):
        seconds, at = 5.0 * number, NOW + timedelta(seconds=5 * number)
        events: list[Event] = [*pods(at, 1), scrape(at, 1, 2.0)] if number % 12 == 0 else []
        if seconds >= reset_at and len(asked) <= times:
            have, reset_at = 1, inf
            events.append(scale(at, have))
        decided = scene.step(at, *events)
        refused += refusals(decided)
        for plan in plans(decided):
            if plan.replicas != have:
                asked.append(seconds)
                have, reset_at = plan.replicas, seconds + back_after
                scene.step(at + timedelta(seconds=1), scale(at + timedelta(seconds=1), have))
    return asked, refused


@pytest.mark.parametrize(("back_after", "most"), [(5.0, 40), (30.0, 14), (180.0, 14), (300.0, 14)])
def test_replicas_that_somebody_sets_back_are_asked_for_more_and_more_seldom_and_it_is_said(back_after: float, most: int) -> None:
    """An operator, or GitOps (operator-sdk#3367, keda#5572); there were 36 to 360 scale-ups in three hours."""
    asked, refused = tries(back_after, hours=3)
    assert 6 <= len(asked) <= most
    assert asked[2] - asked[0] < 2 * (back_after + 180.0), "twice may be chance"
    assert {each.guard for each in refused} == {"set-back"}
    assert "somebody else sets the replicas back" in refused[0].reason


def test_replicas_that_hold_again_are_asked_for_at_once() -> None:
    asked, refused = tries(30.0, hours=2, times=5)
    assert len(asked) == 6
    assert len(refused) <= 4


def test_an_outage_of_the_scaler_delays_nobody_for_long_once_it_is_back() -> None:
    """Each plan of three hours is void; those of the last minutes are not half an hour apart."""
    scene, asked = ForecasterScene(), list[float]()
    scene.step(NOW, DIRECT, *pods(NOW, 1), scale(NOW, 1), scrape(NOW, 1, 2.0))
    for number in range(1, 3 * 720):
        at = NOW + timedelta(seconds=5 * number)
        events: list[Event] = [*pods(at, 1), scrape(at, 1, 2.0)] if number % 12 == 0 else []
        asked += [5.0 * number for plan in plans(scene.step(at, *events)) if plan.replicas != 1]
    assert max(later - earlier for earlier, later in pairwise(asked)) <= 420.0


def hpa(at: datetime, name: str = "keda-hpa-cart", owner: str = "") -> HpaSeen:
    return HpaSeen(
        at, CART, "shop", name, MONDAY, TargetRef("Deployment", "cart", "apps/v1"), max_replicas=2, owner_uid=owner, uid="h1"
    )


@pytest.mark.parametrize("kept", [False, True])
def test_beside_an_hpa_of_others_a_direct_ehpa_plans_nothing_and_names_it(kept: bool) -> None:
    """keda#5572: by turns they scaled the target up and down, 24 times in two hours."""
    scene = ForecasterScene()
    loads = (DIRECT, *pods(NOW, 5), scale(NOW, 5), scrape(NOW, 5, 0.9))
    decided = scene.run(NOW, 55, hpa(NOW), hpa(NOW, "other"), HpaGone(NOW, CART, "shop", "other"), *loads)
    [refused] = refusals(decided)
    assert (plans(decided), refused.guard) == ([], "hpa")
    assert "the HorizontalPodAutoscaler 'shop/keda-hpa-cart', which is not ours, scales the same target" in refused.reason
    scene = resumed(scene) if kept else scene
    assert minutes(scene, 1, [0.9, 0.9]) == []
    at = NOW + 3 * MINUTE
    decided = scene.run(at, 55, HpaGone(at, CART, "shop", "keda-hpa-cart"), scrape(at, 5, 0.9))
    assert [plan.replicas for plan in plans(decided)] == [6]


@pytest.mark.parametrize(("policy", "owner"), [(DIRECT, DIRECT.uid), (BY_HPA, "")])
def test_an_hpa_that_follows_from_the_ehpa_or_stands_beside_one_is_no_hindrance(policy: EhpaChanged, owner: str) -> None:
    decided = ForecasterScene().run(NOW, 55, hpa(NOW, owner=owner), policy, *pods(NOW, 5), scale(NOW, 5), scrape(NOW, 5, 0.9))
    assert (len(plans(decided)), refusals(decided)) == (1, [])
