"""Whole passes on examples worked out by hand."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.replicas import hpa_reconcile
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaMemory
from agents.logic.replicas.replica_calculator import MetricError, ReplicaProposal
from schemas.decisions.replica_plans import HpaConditions
from tests.support.hpa_scenes import behavior

DEFAULT = {"scaleUp": {"selectPolicy": "Max"}}
FAILED = ("FailedGetExternalMetric", MetricError("metric 'external.q' has no reading"))


def passes(bounds: HpaBounds, current: int, wanted: list[Any], *, every: float = 15) -> list[int]:
    """Replicas after each pass; each wants a count, or a list of answers."""
    memory, found = HpaMemory(), []
    for number, want in enumerate(wanted):
        answers = want if isinstance(want, list) else [ReplicaProposal(want, 0)]
        decision, memory = hpa_reconcile.decide(bounds, current, answers, memory, now=1000 + number * every)
        current = decision.replicas
        found.append(current)
    return found


def test_without_a_behaviour_the_count_doubles_at_most_and_four_are_free() -> None:
    assert passes(HpaBounds(1, 100), 1, [20] * 5) == [4, 8, 16, 20, 20]


@pytest.mark.parametrize(("every", "expected"), [(15, [5, 10, 20, 20]), (7, [5, 5, 5, 10])])
def test_the_default_behaviour_adds_four_or_doubles_each_15_seconds(every: float, expected: list[int]) -> None:
    assert passes(HpaBounds(1, 100, behavior(DEFAULT)), 1, [20] * 4, every=every) == expected


def test_the_highest_recommendation_of_five_minutes_counts_and_one_exactly_as_old_still_does() -> None:
    assert passes(HpaBounds(1, 100), 10, [10, 4, 4, 4], every=150) == [10, 10, 10, 4]


def test_with_a_behaviour_one_exactly_as_old_no_longer_counts() -> None:
    assert passes(HpaBounds(1, 100, behavior(DEFAULT)), 10, [10, 4, 4, 4], every=150) == [10, 10, 4, 4]


def test_a_change_takes_the_place_of_the_last_old_one_and_those_before_it_still_count_the_other_way() -> None:
    """At 60 s the 2 added at 15 s give way, those at 0 s stay: down to 9 - (2 + 1) - 2 within 15 minutes."""
    rules = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]},
        "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 900}]},
    }
    assert passes(HpaBounds(1, 100, behavior(rules)), 4, [6, 8, 8, 8, 9, 1]) == [6, 8, 8, 8, 9, 4]


def test_of_several_metrics_the_highest_counts_and_a_broken_one_prevents_only_scaling_down() -> None:
    bounds = HpaBounds(1, 50, window=0)
    assert passes(bounds, 6, [[ReplicaProposal(4, 0), ReplicaProposal(8, 0)]]) == [8]
    assert passes(bounds, 6, [[FAILED, ReplicaProposal(8, 0)]]) == [8]
    assert passes(bounds, 6, [6, [FAILED, ReplicaProposal(4, 0)]]) == [6, 6]
    assert passes(bounds, 6, [6, [ReplicaProposal(4, 0)]]) == [6, 4]
    assert passes(bounds, 6, [[FAILED, FAILED]]) == [6]


def test_what_is_outside_the_bounds_is_brought_in_without_asking() -> None:
    assert passes(HpaBounds(2, 10), 20, [[FAILED]]) == [10]
    assert passes(HpaBounds(2, 10), 1, [[FAILED]]) == [2]


def test_a_workload_at_zero_is_left_alone_unless_the_autoscaler_brought_it_there() -> None:
    assert passes(HpaBounds(1, 10), 0, [5, 5]) == [0, 0]
    zero = HpaBounds(0, 10, window=0, to_zero=True)
    assert passes(zero, 0, [5]) == [0]
    assert passes(zero, 3, [0, 0, 5, 5]) == [3, 0, 4, 5]


def test_a_decision_carries_its_sum() -> None:
    decision, memory = hpa_reconcile.decide(HpaBounds(1, 10), 3, [ReplicaProposal(20, 0)], HpaMemory(), now=0)
    assert decision.sum == hpa_reconcile.ProposalSum(20, 20, 6)
    assert memory.conditions == HpaConditions("True/SucceededRescale", "True/ValidMetricFound", "True/ScaleUpLimit")


wants = st.lists(st.integers(-5, 500), min_size=1, max_size=12)


@given(wants, st.integers(1, 9), st.integers(9, 300), st.booleans())
def test_replicas_stay_within_the_bounds_whatever_is_proposed(wanted: list[int], least: int, most: int, ruled: bool) -> None:
    found = passes(HpaBounds(least, most, behavior(DEFAULT) if ruled else None), least, list(wanted))
    assert all(least <= count <= most for count in found)
    assert all(after <= max(2 * before, before + 4) for before, after in pairwise([least, *found]))


@given(wants, st.integers(0, 11))
def test_a_memory_that_went_through_a_checkpoint_goes_on_as_if_it_had_not(wanted: list[int], cut: int) -> None:
    bounds = HpaBounds(1, 200, behavior({"scaleDown": {"stabilizationWindowSeconds": 30}}))
    memory, current, found = HpaMemory(), 3, []
    for number, want in enumerate(wanted):
        if number == cut:
            memory = msgspec.json.decode(msgspec.json.encode(memory), type=HpaMemory)
        decision, memory = hpa_reconcile.decide(bounds, current, [ReplicaProposal(want, 0)], memory, now=number * 15.0)
        current = decision.replicas
        found.append(current)
    assert found == passes(bounds, 3, list(wanted))


def test_percents_are_of_the_count_when_the_period_began() -> None:
    rules = {
        "scaleUp": {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}]},
        "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 10, "periodSeconds": 15}]},
    }
    assert passes(HpaBounds(1, 9000, behavior(rules)), 2000, [9000, 1, 1]) == [3000, 2700, 2430]


def test_an_autoscaler_without_a_minimum_keeps_one_replica() -> None:
    assert hpa_reconcile.defaulted({"maxReplicas": 3, "metrics": [{}]})["minReplicas"] == 1
