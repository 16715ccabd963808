"""What an EHPA's status says after a pass."""

from datetime import UTC, datetime
from typing import Any

from streams.consumers.replicas.ehpa_status import EhpaFindings, NotReady, desired_status

AT, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
HPA: dict[str, Any] = {
    "status": {
        "desiredReplicas": 7,
        "currentReplicas": 3,
        "lastScaleTime": "2025-12-31T00:00:00Z",
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m"},
            {"type": "Theirs", "status": "True", "reason": "x"},
        ],
    }
}


def by_type(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {each["type"]: (each["status"], each["reason"], each["lastTransitionTime"]) for each in status["conditions"]}


def test_it_shows_what_the_hpa_wants_and_its_conditions() -> None:
    forecast = {"type": "Ready", "status": "False", "reason": "PredictPartial", "message": "short"}
    status = desired_status({}, EhpaFindings(hpa=HPA, prediction=forecast), AT)
    assert (status["expectReplicas"], status["currentReplicas"], status["lastScaleTime"]) == (7, 3, "2025-12-31T00:00:00Z")
    assert by_type(status) == {
        "Ready": ("True", "EffectiveHorizontalPodAutoscalerReady", "2026-01-01T00:00:00Z"),
        "PredictionReady": ("False", "PredictPartial", "2026-01-01T00:00:00Z"),
        "AbleToScale": ("True", "ReadyForNewScale", "2026-01-01T00:00:00Z"),
    }


def test_a_second_pass_with_the_same_findings_changes_nothing() -> None:
    first = desired_status({}, EhpaFindings(hpa=HPA), AT)
    assert desired_status(first, EhpaFindings(hpa=HPA), LATER) == first


def test_a_condition_that_turns_gets_a_new_time_and_one_that_does_not_apply_goes() -> None:
    first = desired_status({}, EhpaFindings(hpa=HPA, prediction={"status": "True", "reason": "PredictSucceed"}), AT)
    second = desired_status(first, EhpaFindings(NotReady("FailedGetScale", "no Deployment")), LATER)
    assert by_type(second) == {"Ready": ("False", "FailedGetScale", "2026-01-02T00:00:00Z")}
    assert second["expectReplicas"] == 7


def test_what_a_person_should_know_is_in_the_message_of_ready() -> None:
    status = desired_status({}, EhpaFindings(left_out=["metric 'pods.x' has no query"]), AT)
    assert status["conditions"][0]["message"] == "Effective HPA is ready; metric 'pods.x' has no query"
