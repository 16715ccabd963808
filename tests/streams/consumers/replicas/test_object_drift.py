"""What counts as drift of an object that we keep."""

from typing import Any

import pytest

from streams.consumers.replicas.desired_objects import covers, first_difference, foreign_behavior

WANTED: dict[str, Any] = {"spec": {"maxReplicas": 10, "metrics": [{"target": {"averageValue": "500m"}}]}}


def test_an_object_that_says_more_and_amounts_in_another_spelling_are_no_drift() -> None:
    there = {"spec": {"maxReplicas": 10, "minReplicas": 1, "metrics": [{"selector": {}, "target": {"averageValue": "0.5"}}]}}
    assert covers(there, WANTED)
    assert first_difference(there, WANTED) == ""


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"spec": {**WANTED["spec"], "maxReplicas": 50}}, "spec.maxReplicas was 50"),
        ({"spec": {"metrics": WANTED["spec"]["metrics"]}}, "spec.maxReplicas was not there"),
        ({"spec": {**WANTED["spec"], "metrics": WANTED["spec"]["metrics"] * 2}}, "spec.metrics was ["),
        ({"spec": {**WANTED["spec"], "metrics": [{"target": {"averageValue": "501m"}}]}}, "spec.metrics was ["),
        ({"spec": {**WANTED["spec"], "metrics": [{"target": {"averageValue": "500m"}, "more": 1}]}}, "spec.metrics was ["),
        ({"spec": {**WANTED["spec"], "metrics": [{"target": {"averageValue": "500m", "value": 1}}]}}, "spec.metrics was ["),
    ],
)
def test_a_difference_is_named_with_its_place(there: dict[str, Any], says: str) -> None:
    assert first_difference(there, WANTED).startswith(says)


def test_what_somebody_added_to_the_behaviour_is_taken_out_and_nothing_else() -> None:
    full = {"scaleUp": {"selectPolicy": "Max"}, "scaleDown": {"selectPolicy": "Max"}}
    assert foreign_behavior({"spec": {"behavior": full}}, {"spec": {"behavior": full}}) is None
    assert foreign_behavior({"spec": {"behavior": full}}, {"spec": {}}) == {"spec": {"behavior": None}}
    assert foreign_behavior({"spec": {}}, {"spec": {}}) is None
    more = {**full, "scaleDown": {**full["scaleDown"], "tolerance": "0.5"}}
    wanted = {"spec": {"behavior": {"scaleDown": {"tolerance": None}}}}
    assert foreign_behavior({"spec": {"behavior": more}}, {"spec": {"behavior": full}}) == wanted
