"""The conditions of a VPA as upstream sets them, and times that move only when a condition flips."""

from datetime import timedelta
from typing import Any

from agents.logic.conditions.condition_rules import TargetKnowledge, conditions, shown
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from schemas.policies.vertical import ContainerMode, ContainerPolicy
from tests.support.cluster_events import START, vpa, when

NOW = when(START)
APP = ContainerRecommendation("app", Amounts(), Amounts(0.1), Amounts(), Amounts())  # type: ignore[arg-type]  # units


def of(target: TargetKnowledge, before: Any = (), at: Any = NOW, **changed: Any) -> Any:
    return conditions(vpa(**changed), target, before, at)


def told(found: Any) -> Any:
    """Conditions with their reasons; those that are False and always left out of an object are left out here too."""
    return [(c.type.value, c.status.value, c.reason) for c in found if c.status.value != "False" or c.type.value == PROVIDED]


PROVIDED, NO_PODS = "RecommendationProvided", "NoPodsMatched"


def test_a_recommendation_is_provided() -> None:
    assert told(of(TargetKnowledge(2, (APP,)))) == [(PROVIDED, "True", "")]


def test_no_pods_and_no_recommendation_have_one_reason_and_pods_take_it_away() -> None:
    empty = of(TargetKnowledge(0))
    assert told(empty) == [(NO_PODS, "True", NO_PODS), (PROVIDED, "False", NO_PODS)]
    assert {c.message for c in empty if c.reason} == {"No pods match this VPA object"}
    assert told(of(TargetKnowledge(1), empty)) == [(PROVIDED, "False", "")]


def test_a_recommendation_outlives_its_pods() -> None:
    assert told(of(TargetKnowledge(0, (APP,)))) == [(NO_PODS, "True", NO_PODS), (PROVIDED, "True", "")]


def test_an_unsupported_target_says_why_and_matches_nothing() -> None:
    found = of(TargetKnowledge(5, ()), unsupported="the ReplicaSet 'api-7d' is owned by the Deployment 'api'")
    assert told(found) == [("ConfigUnsupported", "True", ""), (NO_PODS, "True", NO_PODS), (PROVIDED, "False", NO_PODS)]
    assert found[0].message == "the ReplicaSet 'api-7d' is owned by the Deployment 'api'"


def test_a_second_vpa_of_a_workload_says_which_one_governs_it() -> None:
    found = of(TargetKnowledge(0, (), "web/older"))
    assert found[0].message == "The targetRef 'Deployment/api' is governed by the VPA 'web/older' already"
    assert told(found) == [("ConfigUnsupported", "True", ""), (PROVIDED, "False", "")]
    assert told(of(TargetKnowledge(crowded=True))) == [("ConfigUnsupported", "True", ""), (PROVIDED, "False", "")]


def test_what_nobody_can_know_is_unknown_until_it_was_known_once() -> None:
    assert told(of(TargetKnowledge(None, None))) == [(NO_PODS, "Unknown", ""), (PROVIDED, "Unknown", "")]
    empty = of(TargetKnowledge(0))
    assert told(of(TargetKnowledge(None), empty)) == [(NO_PODS, "True", NO_PODS), (PROVIDED, "False", NO_PODS)]
    full = of(TargetKnowledge(3))
    assert told(of(TargetKnowledge(None), full)) == [(PROVIDED, "False", "")]


def test_a_condition_keeps_the_time_of_its_last_flip() -> None:
    later = NOW + timedelta(hours=1)
    first = of(TargetKnowledge(0))
    again = of(TargetKnowledge(0), first, later)
    assert {c.since for c in again} == {NOW}
    flipped = of(TargetKnowledge(1, (APP,)), again, later + timedelta(microseconds=7))
    assert [(c.type.value, c.since) for c in flipped] == [("ConfigUnsupported", NOW), (NO_PODS, later), (PROVIDED, later)]


def test_a_container_that_its_vpa_switched_off_is_not_shown() -> None:
    side = ContainerRecommendation("a-side", Amounts(), Amounts(), Amounts(), Amounts())
    off = ContainerMode.OFF
    assert shown(vpa(), (APP, side)) == (side, APP)
    assert shown(vpa(containers=(ContainerPolicy("app", mode=off),)), (APP, side)) == (side,)
    assert shown(vpa(containers=(ContainerPolicy("*", mode=off), ContainerPolicy("app"))), (APP, side)) == (APP,)
