"""The judge of what was done to replicas: what is right passes, and each thing that must not happen is found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.decisions.replica_plans import LoadForecast, MetricForecast, ReplicasPlanned, ScalingMode
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, ObjectChange, ObjectWritten, OutcomeDetail, Result
from schemas.policies.ehpa import EHPA_KIND, ehpa_key
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from tests.support.scaled_world import Written
from tests.torture.replica_api import ScaleSet
from tests.torture.replica_judge import Answer, ReplicaEvidence, judge, values

AT = datetime(2026, 1, 5, tzinfo=UTC)
ZERO = AT.timestamp()
WEB = Workload("c", "shop", "Deployment", "web")
KEY = ehpa_key("c", "shop", "web")
HPA = "HorizontalPodAutoscaler"


def plan(number: int, before: int, after: int) -> ReplicasPlanned:
    return ReplicasPlanned(
        f"p{number}", AT, AT + timedelta(seconds=100), WEB, KEY, "u", 1, ScalingMode.DIRECT, TargetRef("Deployment", "web"),
        before, after, 1, 20, (), None, {},
    )  # fmt: skip


def outcome(number: int, result: Result = Result.DONE, detail: OutcomeDetail = OutcomeDetail.APPLIED) -> ActionFinished:
    at = AT + timedelta(seconds=10)
    return ActionFinished(f"p{number}/x", at, f"p{number}", Action.SCALE, result, "because", plan(1, 1, 1).subject, detail)


def written(version: str = "7", change: ObjectChange = ObjectChange.CREATED) -> ObjectWritten:
    return ObjectWritten(
        f"{KEY}/{HPA}/{change}/{version}", AT, "c", HPA, "shop", "ehpa-web", KEY, 1, change, Result.DONE, "because"
    )


METRIC = MetricForecast("pods.http_requests", "s", AT, Seconds(300.0), (10.0, 30.0, 20.0, 50.0, 1.0))
FORECAST = LoadForecast(
    "f", AT, AT + timedelta(seconds=600), WEB, EHPA_KIND, "shop", "web", "u", 1, Seconds(600.0), (METRIC,), {}
)
RATE = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": {"type": "AverageValue", "averageValue": "10"}}}
EHPA: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "shop", "annotations": {}},
    "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "scaleStrategy": "Auto", "minReplicas": 1, "maxReplicas": 20,
        "metrics": [RATE], "prediction": {},
    },
}  # fmt: skip
LABELS = {"targetKind": "Deployment", "targetName": "web", "targetNamespace": "shop", "resourceIdentifier": "pods.http_requests"}
AHEAD = {
    "type": "External",
    "external": {
        "metric": {"name": "crane_autoscaling_prediction", "selector": {"matchLabels": LABELS}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}
SPEC = {
    "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 20, "metrics": [RATE, AHEAD],
}  # fmt: skip
RIGHT = ReplicaEvidence(
    sets=[ScaleSet(ZERO + 5, "web", 3, 4), ScaleSet(ZERO + 8, "web", 4, 6)],
    written=[Written(HPA, "ehpa-web", "7", at=ZERO)],
    plans=[plan(1, 3, 4), plan(2, 4, 6), plan(3, 3, 3)],
    outcomes=[outcome(1), outcome(2), outcome(3, detail=OutcomeDetail.ALREADY_DONE)],
    objects=[written()],
    forecasts=[FORECAST],
    answers=[
        Answer(0, KEY, "pods.http_requests", ZERO + 10, 30_000),
        Answer(1, KEY, "pods.http_requests", ZERO + 700, None, "outdated"),
    ],
    ehpas={"web": EHPA},
    hpas={"ehpa-web": {"spec": SPEC}},
    end=ZERO + 500,
    epoch=ZERO,
    origin=ZERO,
    speed=1.0,
    pauses=[(ZERO + 40, ZERO + 50)],
    started={"web": 3},
)


def test_what_is_right_passes() -> None:
    figures, wrong = judge(RIGHT)
    assert not wrong
    assert (figures["scaled"], figures["answers"], figures["outdated"]) == (2, 1, 1)


def test_a_forecast_is_read_as_the_steps_that_touch_the_window() -> None:
    # from 10 s to 610 s the steps that begin at 0, 300 and 600 s count; from 300 s on that of 900 s does as well
    assert values(FORECAST, "pods.http_requests", ZERO + 10) == {30_000}
    assert values(FORECAST, "pods.http_requests", ZERO + 299) == {30_000, 50_000}
    assert values(FORECAST, "pods.http_requests", ZERO + 310) == {50_000}
    assert values(FORECAST, "pods.http_requests", ZERO + 1600) == set()
    assert values(FORECAST, "resource.cpu", ZERO) == set()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "twice": ({"sets": [*RIGHT.sets, ScaleSet(ZERO + 21, "web", 6, 6), ScaleSet(ZERO + 22, "web", 6, 6)]}, "nobody decided"),
    "undecided": ({"sets": [ScaleSet(ZERO + 5, "web", 3, 5)]}, "nobody decided"),
    "late": ({"sets": [RIGHT.sets[0], ScaleSet(ZERO + 104, "web", 4, 6)]}, "after it had expired"),
    "not done": ({"sets": RIGHT.sets[:1]}, "the API never saw 'web' go from 4 to 6"),
    "never so": ({"plans": [plan(1, 3, 4), plan(2, 4, 6), plan(3, 3, 9)]}, "never asked for 9"),
    "no outcome": ({"outcomes": RIGHT.outcomes[:2]}, "p3 has no outcome"),
    "two outcomes": ({"outcomes": [*RIGHT.outcomes, outcome(1, Result.EXPIRED)]}, "p1 has several outcomes"),
    "foreign outcome": ({"outcomes": [*RIGHT.outcomes, outcome(9)]}, "an outcome names p9"),
    "paused": ({"pauses": [(ZERO + 2, ZERO + 30)]}, "2 scales were written under a pause"),
    "unsaid": ({"objects": []}, "and no outcome says so"),
    "unwritten": ({"objects": [written(), written("8")]}, "which the API never saw"),
    "expired": ({"answers": [Answer(0, KEY, "pods.http_requests", ZERO + 605, 50_000)]}, "had expired 5 s before"),
    "made up": ({"answers": [Answer(0, KEY, "pods.http_requests", ZERO + 10, 31_000)]}, "which no forecast says"),
    "withdrawn": ({"forecasts": [replace(FORECAST, withdrawn=True)]}, "which no forecast says"),
    "another HPA": ({"hpas": {"ehpa-web": {"spec": {**SPEC, "maxReplicas": 99}}}}, "the HPA of 'web' says"),
    "outdated HPA": ({"end": ZERO + 601}, "the HPA of 'web' says"),
    "orphan": ({"hpas": {**RIGHT.hpas, "ehpa-x": {"spec": {}}}}, "follows from nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_must_not_happen_is_found(name: str) -> None:
    changes, says = WRONG[name]
    assert any(says in one for one in judge(replace(RIGHT, **changes))[1])


def test_a_holder_that_was_frozen_may_be_late_once_and_a_dead_consumer_owes_its_last_outcome() -> None:
    late = [RIGHT.sets[0], ScaleSet(ZERO + 104, "web", 4, 6)]
    assert not judge(replace(RIGHT, sets=late, freezes=1))[1]
    assert not judge(replace(RIGHT, objects=[], deaths=[ZERO + 1]))[1]
    assert judge(replace(RIGHT, objects=[], deaths=[ZERO - 1]))[1]
