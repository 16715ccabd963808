"""What a stage must not take in, and the sentence that says why."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents.logic.event_validation import refuse
from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import BoostedContainer, ContainerSeen, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import BoostKind, ContainerPolicy, StartupBoost, Tuning, VerticalPolicyChanged
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from tests.support.cluster_events import API, START, pod, scrape, turn, vpa, when

SUBJECT = Subject.of_node("demo", "node-1")
GOOD = scrape(START, [(API.key, "a", "app", 0.1, 1e6), (API.key, "b", "app", math.nan, math.nan)])


def test_good_events_are_taken() -> None:
    for event in (GOOD, scrape(START, []), pod("a", START), PodDeleted(when(START), API, PodName("w", "a", "u"))):
        assert refuse(event) is None
    assert len(turn(START, pod_metrics=[GOOD]).of("pod-metrics")) == 1


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (replace(GOOD, cores=np.array([0.1, -1.0])), "cores[1] is -1.0; an amount cannot be negative"),
        (replace(GOOD, cores=np.array([2e6, 1.0])), "cores[0] is 2000000.0; more than 1e+06 is not possible"),
        (replace(GOOD, memory=np.array([1.0, math.inf])), "memory[1] is inf, which is not a finite number"),
        (replace(GOOD, memory=np.array([1.0, 2e16])), "memory[1] is 2e+16; more than 1e+16 is not possible"),
        (
            replace(GOOD, workloads=(API.key, "api")),
            "workloads[1]: a workload key is 'cluster/namespace/Kind/name', not 'api'",
        ),
        (
            PodDeleted(when(START), replace(API, name=""), PodName("w", "a", "u")),
            "workload: a workload key is 'cluster/namespace/Kind/name', not 'demo/web/Deployment/'",
        ),
        (
            replace(GOOD, workloads=(API.key, f"demo/web/Deployment/{'a' * 1005}")),
            "workloads[1] has 1025 characters; more than 1024 are not possible",
        ),
        (
            PodDeleted(when(START), replace(API, name="a" * 4096), PodName("w", "a", "u")),
            "workload has 4116 characters; more than 1024 are not possible",
        ),
        (replace(GOOD, window=math.nan), "window is nan, which is no length of time"),
        (
            replace(GOOD, at=when(START).replace(year=9999)),
            "at is 9999-01-01T00:00:00+00:00, a time that no clock of ours shows",
        ),
        (
            pod("a", START, containers=(ContainerSeen("app", limits=Amounts(None, -5)),)),
            "containers[0].limits.memory is -5; an amount cannot be negative",
        ),
        (
            pod("a", START, boosted=(BoostedContainer("gone"),)),
            "boosted[0] is 'gone', which is none of the pod's containers",
        ),
        (
            ContainerOOMKilled(when(START), API, PodName("w", "a", "u"), "app", 1, -1, None),
            "memory_request is -1; an amount cannot be negative",
        ),
        (
            VerticalPolicyChanged(when(START), "*", "1", containers=(ContainerPolicy("*", Amounts(math.inf)),)),
            "containers[0].min_allowed.cpu is inf, which is not a finite number",
        ),
        (
            ActionFinished("i", when(START), "d", Action.EVICT, Result.DONE, "", replace(SUBJECT, workload="x")),
            "subject.workload: a workload key is 'cluster/namespace/Kind/name', not 'x'",
        ),
        (ControlChanged(when(START), "demo", Mode.APPLY, budget=7.0), "budget is 7.0; more than 1 is not possible"),
        (
            RequestsRecommended("0001-01-01T00:00:00Z", when(START), API, (), {}),
            "id: '0001-01-01T00:00:00Z' is no decision id (stage/partition/turn/kind/key)",
        ),
        (
            RequestsRecommended(f"recommender/0/{10**19}/requests/x", when(START), API, (), {}),
            f"id is 'recommender/0/{10**19}/requests/x', and turn {10**19} is no time that a clock of ours shows",
        ),
    ],
)
def test_a_bad_amount_is_refused_with_its_value_and_place(event: Any, said: Any) -> None:
    assert refuse(event) == said


def test_columns_of_unequal_length_are_refused() -> None:
    said = refuse(replace(GOOD, pods=("a",)))
    assert said is not None
    assert "'pods': 1" in said
    assert "'cores': 2" in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"min_replicas": 0}, "min_replicas is 0; it must be above 0"),
        ({"recommenders": ("a", "b")}, "recommenders are a, b; there may be one at most"),
        ({"selector": None}, "there is no selector, and nothing that says why"),
        (
            {"target_ref": TargetRef("Deployment", "a/b")},
            "workload: a workload key is 'cluster/namespace/Kind/name', not 'demo/web/Deployment/a/b'",
        ),
        (
            {"containers": (ContainerPolicy(), ContainerPolicy("a", controlled_resources=("gpu",)))},
            "containers[1].controlled_resources names 'gpu'; there are cpu and memory",
        ),
        ({"containers": (ContainerPolicy(oom_ratio=0.9),)}, "containers[0].oom_ratio is 0.9; it must be at least 1"),
        ({"containers": (ContainerPolicy(memory_window=0.0),)}, "containers[0].memory_window is 0.0; it must be at least 1"),
        (
            {"containers": (ContainerPolicy(tuning=Tuning(upper_cpu_percentile=1.5)),)},
            "containers[0].tuning.upper_cpu_percentile is 1.5; more than 1 is not possible",
        ),
        (
            {"containers": (ContainerPolicy(tuning=Tuning(cpu_half_life=0.0)),)},
            "containers[0].tuning.cpu_half_life is 0.0; it must be at least 1",
        ),
        ({"annotations": {"ullage/*.margin": "1e308"}}, "the annotation 'ullage/*.margin' is '1e308'; a margin is at most 100"),
        (
            {"annotations": {"ullage/*.memory_half_life": "1e-9"}},
            "the annotation 'ullage/*.memory_half_life' is '1e-9'; a half life is at least 1 s",
        ),
        ({"annotations": {"ullage/app.margin": "much"}}, "the annotation 'ullage/app.margin' is 'much', which is no amount"),
        (
            {"annotations": {"ullage/app.target_cpu_percentile": "90"}},
            "the annotation 'ullage/app.target_cpu_percentile' is '90'; a percentile is at most 1",
        ),
    ],
)
def test_a_vpa_that_cannot_be_meant_is_refused_with_its_value_and_place(changed: Any, said: str) -> None:
    assert refuse(vpa()) is None
    assert refuse(vpa(annotations={"ullage/*.margin": "0.2", "other": "x"})) is None
    assert refuse(vpa(**changed)) == said


@pytest.mark.parametrize(
    ("field", "value"),
    [("duration", 1e306), ("duration", math.nan), ("duration", -1.0), ("factor", math.inf), ("factor", -1.0), ("quantity", 2e6)],
)
def test_a_startup_boost_out_of_bounds_is_refused_of_a_vpa_and_of_a_policy(field: str, value: float) -> None:
    good = StartupBoost(BoostKind.FACTOR, 2.0, duration=Seconds(2.0**31 - 1))
    assert refuse(vpa(boost=good, containers=(ContainerPolicy("app", boost=good),))) is None
    bad = replace(good, **{field: value})
    entry = ContainerPolicy("app", boost=bad)
    for path, event in (
        ("boost", vpa(boost=bad)),
        ("containers[0].boost", vpa(containers=(entry,))),
        ("containers[0].boost", VerticalPolicyChanged(when(START), "*", "1", containers=(entry,))),
    ):
        assert (refuse(event) or "").startswith(f"{path}.{field} is {value}")


def test_an_annotation_that_sets_what_is_not_there_is_refused_with_the_names_that_are() -> None:
    said = refuse(vpa(annotations={"ullage/app.colour": "1"}))
    assert said is not None
    assert said.startswith("the annotation 'ullage/app.colour' sets 'colour', which is none of lower_cpu_percentile,")
