"""What a stage must not take in, and the sentence that says why."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cluster_events import API, START, pod, scrape, turn, when

from agents.logic.refusal import refuse
from schemas.facts import ContainerOOMKilled, ContainerSeen, PodDeleted
from schemas.names import Amounts, PodName
from schemas.policies import ContainerPolicy, ControlChanged, Mode, VerticalPolicyChanged

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
            ContainerOOMKilled(when(START), API, PodName("w", "a", "u"), "app", 1, -1, None),
            "memory_request is -1; an amount cannot be negative",
        ),
        (
            VerticalPolicyChanged(when(START), "*", "1", containers=(ContainerPolicy("*", Amounts(math.inf)),)),
            "containers[0].min_allowed.cpu is inf, which is not a finite number",
        ),
        (ControlChanged(when(START), "demo", Mode.APPLY, budget=7.0), "budget is 7.0; more than 1 is not possible"),
    ],
)
def test_a_bad_amount_is_refused_with_its_value_and_place(event: Any, said: Any) -> None:
    assert refuse(event) == said


def test_columns_of_unequal_length_are_refused() -> None:
    said = refuse(replace(GOOD, pods=("a",)))
    assert said is not None
    assert "'pods': 1" in said
    assert "'cores': 2" in said
