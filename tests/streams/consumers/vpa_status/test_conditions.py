"""What should stand in a VPA's status: conditions as upstream sets them, and times that move only when a condition flips."""

from datetime import timedelta
from typing import Any

import msgspec

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from streams.clients.kube.vpa_status_client import VpaCondition, VpaStatus
from streams.consumers.vpa_status.conditions import ConditionInputs, Judging
from tests.support.cluster_events import START, vpa, when

NOW = when(START)
SAID = ContainerRecommendation(
    "app", Amounts(0.025, 262144000), Amounts(0.126, 628694953), Amounts(1.0, None), Amounts(0.126, 628694953)
)  # type: ignore[arg-type]  # units


def of(known: ConditionInputs, before: Any = (), at: Any = NOW, **changed: Any) -> Any:
    return Judging().status(vpa(**changed), known, VpaStatus(tuple(before)), at)


def said(found: Any) -> Any:
    return [(c.type, c.status == "True", c.reason) for c in found.conditions]


def test_a_recommendation_is_provided_in_upstreams_texts() -> None:
    found = of(ConditionInputs(pods=2, containers=(SAID,)), generation=7)
    assert said(found) == [("RecommendationProvided", True, "")]
    assert found.observed_generation == 7
    assert msgspec.to_builtins(found.recommendation)["containerRecommendations"] == (
        {
            "containerName": "app",
            "lowerBound": {"cpu": "25m", "memory": "250Mi"},
            "target": {"cpu": "126m", "memory": "628694953"},
            "uncappedTarget": {"cpu": "126m", "memory": "628694953"},
            "upperBound": {"cpu": "1"},
        },
    )


def test_no_pods_and_no_recommendation_have_one_reason_and_pods_take_it_away() -> None:
    empty = of(ConditionInputs(pods=0))
    assert said(empty) == [("NoPodsMatched", True, "NoPodsMatched"), ("RecommendationProvided", False, "NoPodsMatched")]
    assert empty.recommendation is None
    assert said(of(ConditionInputs(pods=1), empty.conditions)) == [("RecommendationProvided", False, "")]


def test_a_recommendation_outlives_its_pods() -> None:
    assert said(of(ConditionInputs(pods=0, containers=(SAID,)))) == [
        ("NoPodsMatched", True, "NoPodsMatched"),
        ("RecommendationProvided", True, ""),
    ]


def test_an_unsupported_target_says_why_and_matches_nothing() -> None:
    found = of(ConditionInputs(pods=5), unsupported="the ReplicaSet 'api-7d' is owned by the Deployment 'api'")
    by_type = {c.type: c for c in found.conditions}
    assert sorted(by_type) == ["ConfigUnsupported", "NoPodsMatched", "RecommendationProvided"]
    assert by_type["ConfigUnsupported"].message == "the ReplicaSet 'api-7d' is owned by the Deployment 'api'"


def test_a_second_vpa_of_a_workload_says_which_one_governs_it() -> None:
    found = of(ConditionInputs(pods=5, containers=(SAID,), rival="web/older"))
    assert found.conditions[0].message == "The targetRef 'Deployment/api' is governed by the older VPA 'web/older' already"
    assert found.recommendation is None


def test_a_condition_keeps_the_time_of_its_last_flip() -> None:
    later = NOW + timedelta(hours=1)
    first = of(ConditionInputs(pods=0))
    again = of(ConditionInputs(pods=0), first.conditions, later)
    assert {c.last_transition_time for c in again.conditions} == {NOW}
    flipped = of(ConditionInputs(pods=1, containers=(SAID,)), again.conditions, later)
    assert [(c.type, c.last_transition_time) for c in flipped.conditions] == [("RecommendationProvided", later)]


def test_conditions_of_others_stay_and_the_deprecated_one_goes() -> None:
    others = [VpaCondition(kind, "True", NOW) for kind in ("LowConfidence", "ConfigDeprecated")]
    found = said(of(ConditionInputs(pods=1, containers=(SAID,)), others))
    assert found == [("LowConfidence", True, ""), ("RecommendationProvided", True, "")]
