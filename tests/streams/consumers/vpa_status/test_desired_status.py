"""A decision over what stands in a VPA object: upstream's texts, times that stay, and conditions of others."""

from datetime import timedelta
from typing import Any

import msgspec

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.names import Amounts
from streams.clients.kube.vpa_status_client import VpaCondition, VpaStatus
from streams.consumers.vpa_status_writer import desired_status
from tests.support.cluster_events import START, when

NOW = when(START)
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
APP = ContainerRecommendation(
    "app", Amounts(0.025, 262144000), Amounts(0.126, 628694953), Amounts(1.0, None), Amounts(0.126, 628694953)
)  # type: ignore[arg-type]  # units


def decided(
    unsupported: ConditionStatus = FALSE,
    no_pods: ConditionStatus = FALSE,
    provided: ConditionStatus = TRUE,
    *,
    containers: Any = (APP,),
    at: Any = NOW,
) -> VpaConditionsDecided:
    conditions = (
        DecidedCondition(ConditionType.UNSUPPORTED, unsupported, at, "", "why"),
        DecidedCondition(ConditionType.NO_PODS, no_pods, at, "NoPodsMatched", "No pods match this VPA object"),
        DecidedCondition(ConditionType.PROVIDED, provided, at, "NoPodsMatched", "No pods match this VPA object"),
    )
    return VpaConditionsDecided("d", at, "demo", "web", "api", "u1", 7, conditions, containers, {})


def told(status: VpaStatus) -> Any:
    return [(c.type, c.status, c.reason) for c in status.conditions]


def test_a_recommendation_is_shown_in_upstreams_texts() -> None:
    found = desired_status(decided(), VpaStatus())
    assert told(found) == [("RecommendationProvided", "True", "")]
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
    [humanized] = desired_status(decided(), VpaStatus(), humanize=True).recommendation.container_recommendations  # type: ignore[union-attr]  # there is one
    assert humanized.target["memory"] == "628694712320m"  # 628694953 / 2**20 = 599.57..., times 2**20


def test_conditions_are_true_or_not_there_and_provided_is_always_there() -> None:
    found = desired_status(decided(TRUE, TRUE, FALSE, containers=()), VpaStatus())
    assert [c.message for c in found.conditions] == ["why", "No pods match this VPA object", "No pods match this VPA object"]
    assert told(found) == [
        ("ConfigUnsupported", "True", ""),
        ("NoPodsMatched", "True", "NoPodsMatched"),
        ("RecommendationProvided", "False", "NoPodsMatched"),
    ]
    assert found.recommendation is None
    assert told(desired_status(decided(), found)) == [("RecommendationProvided", "True", "")]


def test_a_condition_keeps_its_time_until_it_flips_whoever_wrote_it() -> None:
    later = NOW + timedelta(hours=1)
    first = desired_status(decided(no_pods=TRUE, provided=FALSE, containers=()), VpaStatus())
    again = desired_status(decided(no_pods=TRUE, provided=FALSE, containers=(), at=later), first)
    assert {c.last_transition_time for c in again.conditions} == {NOW}
    flipped = desired_status(decided(at=later), again)
    assert [(c.type, c.last_transition_time) for c in flipped.conditions] == [("RecommendationProvided", later)]


def test_conditions_of_others_stay_and_the_deprecated_one_goes() -> None:
    others = tuple(VpaCondition(kind, "True", NOW) for kind in ("LowConfidence", "ConfigDeprecated"))
    found = told(desired_status(decided(), VpaStatus(others)))
    assert found == [("LowConfidence", "True", ""), ("RecommendationProvided", "True", "")]


def test_while_nobody_can_know_what_stands_in_the_object_for_this_generation_stays() -> None:
    unknown = decided(no_pods=UNKNOWN, provided=UNKNOWN, containers=None)
    before = desired_status(decided(no_pods=TRUE), VpaStatus())
    assert desired_status(unknown, before) == before
    older = msgspec.structs.replace(before, observed_generation=6)
    found = desired_status(unknown, older)
    assert (told(found), found.recommendation) == (
        [("NoPodsMatched", "True", "NoPodsMatched"), ("RecommendationProvided", "False", "NoPodsMatched")],
        None,
    )
    assert told(desired_status(unknown, VpaStatus())) == [("RecommendationProvided", "False", "NoPodsMatched")]
