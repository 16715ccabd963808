"""How many pods may be disturbed at a time, against upstream's own and worked cases."""

from datetime import timedelta
from typing import Any

import pytest

from agents.logic.updates import disruption
from agents.logic.updates.disruption import (
    DisruptionRules,
    GroupReplica,
    InPlace,
    PodDisruptionBudget,
    ReplicaCounts,
    ReplicaGroup,
)
from schemas.facts.pods import ResizeState
from schemas.policies.vertical import UpdateMode
from tests.support.vectors import vectors

Json = dict[str, Any]

STATES = {
    "": ResizeState.NONE,
    "Deferred": ResizeState.DEFERRED,
    "Infeasible": ResizeState.INFEASIBLE,
    "PendingOther": ResizeState.UNKNOWN,
    "InProgress": ResizeState.IN_PROGRESS,
    "InProgressError": ResizeState.ERROR,
    "InProgressOther": ResizeState.UNKNOWN,
}
RUNNING, PENDING = GroupReplica(), GroupReplica(pending=True)


def group_of(
    kind: str, replicas: int | None, pods: list[GroupReplica], mode: UpdateMode, rules: DisruptionRules
) -> ReplicaGroup | None:
    """The group of a controller that says how many replicas it should have."""
    configured = disruption.configured_replicas(kind, replicas, len(pods))
    if configured is None:
        return None
    counts = ReplicaCounts(configured, len(pods), sum(not pod.pending for pod in pods))
    return disruption.group(counts, mode, rules)


def replicas(inputs: Json) -> dict[str, GroupReplica]:
    states = inputs["resize_states"] or []
    restarts = inputs.get("resize_policy") == "RestartContainer"
    found = {
        f"r{i}": GroupReplica(resize=STATES[states[i]] if i < len(states) else ResizeState.NONE, restarts=restarts)
        for i in range(inputs["running"])
    }
    waiting = {f"q{i}": PENDING for i in range(inputs["pending"])}
    return waiting | found if inputs["pending_first"] else found | waiting


@pytest.mark.parametrize("vector", vectors("updater_eviction"))
def test_evictions_and_resizes_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    pods, mode = replicas(inputs), UpdateMode(inputs["update_mode"])
    least = inputs["min_replicas"] if inputs["vpa_min_replicas"] is None else inputs["vpa_min_replicas"]
    rules = DisruptionRules(least, inputs["eviction_tolerance"], inputs["in_place_skip_disruption_budget"])
    group = group_of(inputs["owner_kind"], inputs["configured"], list(pods.values()), mode, rules)
    assert list(pods) == expected["pods"]
    assert [disruption.in_place(group, pod, mode) for pod in pods.values()] == expected["in_place_decision_at_start"]
    assert [group is not None and group.may_evict(pod) for pod in pods.values()] == expected["can_evict_at_start"]
    evicted = [group is not None and group.evict(pod) for pod in pods.values()]
    assert evicted == expected["evicted_in_order"]
    assert sum(evicted) == expected["evictions"]


def evictions(configured: int, live: int, tolerance: float, least: int = 2, kind: str = "ReplicaSet") -> int:
    pods = [RUNNING] * live
    group = group_of(kind, configured, pods, UpdateMode.RECREATE, DisruptionRules(least, tolerance))
    return sum(group is not None and group.evict(pod) for pod in pods)


@pytest.mark.parametrize(
    ("configured", "live", "tolerance", "expected"),
    [
        (3, 3, 0.5, 1),
        (4, 4, 0.5, 2),
        (5, 5, 0.8, 4),
        (3, 3, 0.1, 1),
        (10, 10, 0.5, 5),
        (5, 5, 0.1, 1),
        (4, 3, 0.5, 1),
        (3, 2, 0.1, 0),
        (3, 2, 0.5, 0),
    ],
)
def test_the_tolerance_says_how_many_go_in_one_loop(configured: int, live: int, tolerance: float, expected: int) -> None:
    assert evictions(configured, live, tolerance) == expected


def test_a_single_replica_goes_only_if_one_is_enough() -> None:
    assert evictions(1, 1, 0.5) == 0
    assert evictions(1, 1, 0.5, least=1) == 1
    assert evictions(10, 5, 0.5, least=10) == 0


def test_nothing_but_a_budget_holds_back_evictions_of_an_unknown_kind() -> None:
    assert evictions(7, 7, 0.5, kind="CustomThing") == 7
    assert evictions(0, 7, 0.5) == 0


def test_a_resize_that_was_begun_takes_its_place_in_the_tolerance() -> None:
    group = group_of("ReplicaSet", 4, [RUNNING] * 4, UpdateMode.IN_PLACE_OR_RECREATE, DisruptionRules())
    assert group
    group.begun += 1
    assert [group.evict(RUNNING), group.evict(RUNNING)] == [True, False]


@pytest.mark.parametrize(
    ("resize", "minutes", "expected"),
    [
        (ResizeState.INFEASIBLE, 0, InPlace.EVICT),
        (ResizeState.ERROR, 0, InPlace.EVICT),
        (ResizeState.UNKNOWN, 0, InPlace.EVICT),
        (ResizeState.DEFERRED, 4, InPlace.DEFERRED),
        (ResizeState.DEFERRED, 5, InPlace.DEFERRED),
        (ResizeState.DEFERRED, 6, InPlace.EVICT),
        (ResizeState.IN_PROGRESS, 59, InPlace.DEFERRED),
        (ResizeState.IN_PROGRESS, 61, InPlace.EVICT),
    ],
)
def test_a_resize_that_fails_or_takes_too_long_is_given_up(resize: ResizeState, minutes: int, expected: InPlace) -> None:
    pod = GroupReplica(resize=resize, resizing_for=timedelta(minutes=minutes))
    group = group_of("ReplicaSet", 3, [pod, RUNNING, RUNNING], UpdateMode.IN_PLACE_OR_RECREATE, DisruptionRules())
    assert disruption.in_place(group, pod, UpdateMode.IN_PLACE_OR_RECREATE) == expected
    assert disruption.in_place(group, pod, UpdateMode.IN_PLACE) in (InPlace.DEFERRED, InPlace.INFEASIBLE)


def test_what_did_not_fit_is_tried_again_only_when_less_is_asked() -> None:
    group = group_of("ReplicaSet", 3, [RUNNING] * 3, UpdateMode.IN_PLACE, DisruptionRules())
    assert disruption.in_place(group, RUNNING, UpdateMode.IN_PLACE, tried_in_vain=True) == InPlace.INFEASIBLE_CACHED
    assert disruption.in_place(group, RUNNING, UpdateMode.IN_PLACE) == InPlace.APPROVED


@pytest.mark.parametrize(("restarts", "expected"), [(False, 5), (True, 1)])
def test_the_budget_is_skipped_for_resizes_that_restart_nothing(restarts: bool, expected: int) -> None:
    rules, pods = DisruptionRules(tolerance=0.1, skip_budget=True), [GroupReplica(restarts=restarts)] * 5
    group = group_of("ReplicaSet", 5, pods, UpdateMode.IN_PLACE_OR_RECREATE, rules)
    assert group
    approved = 0
    for pod in pods:
        if disruption.in_place(group, pod, UpdateMode.IN_PLACE_OR_RECREATE) is InPlace.APPROVED:
            group.begun += 1
            approved += 1
    assert approved == expected


def test_a_group_below_its_minimum_is_only_changed_in_place() -> None:
    rules = DisruptionRules(min_replicas=2, skip_budget=True)
    group = group_of("ReplicaSet", 1, [RUNNING], UpdateMode.IN_PLACE, rules)
    assert group
    assert not group.may_evict(RUNNING)
    assert disruption.in_place(group, RUNNING, UpdateMode.IN_PLACE) is InPlace.APPROVED


def test_a_boosted_pod_keeps_a_small_group_in_sight() -> None:
    one, boosted = ReplicaCounts(1, 1, 1), ReplicaCounts(1, 1, 1, boosted=True)
    assert disruption.group(boosted, UpdateMode.RECREATE, DisruptionRules()) is not None
    assert disruption.group(one, UpdateMode.RECREATE, DisruptionRules()) is None


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        (PodDisruptionBudget(5, 5, min_available=4), 1),
        (PodDisruptionBudget(5, 4, min_available=4), 0),
        (PodDisruptionBudget(7, 7, min_available="50%"), 3),  # half of 7 is 3.5, so 4 stay
        (PodDisruptionBudget(400, 400, min_available="100%"), 0),
        (PodDisruptionBudget(400, 400, min_available="99%"), 4),
        (PodDisruptionBudget(7, 7, max_unavailable="50%"), 4),  # and here 4 may go
        (PodDisruptionBudget(3, 3, max_unavailable=1), 1),
        (PodDisruptionBudget(3, 2, max_unavailable=1), 0),
        (PodDisruptionBudget(2, 2, max_unavailable=5), 2),
        (PodDisruptionBudget(0, 0, max_unavailable=1), 0),
        (PodDisruptionBudget(3, 3), 3),
    ],
)
def test_a_budget_allows_what_is_healthy_beyond_what_is_to_stay(budget: PodDisruptionBudget, allowed: int) -> None:
    assert budget.allowed == allowed
    assert budget.may_evict(healthy=True) == (allowed > 0)


def test_an_unhealthy_pod_may_go_when_enough_others_are_healthy_or_it_is_said_so() -> None:
    assert PodDisruptionBudget(3, 2, min_available=2).may_evict(healthy=False)
    assert not PodDisruptionBudget(3, 1, min_available=2).may_evict(healthy=False)
    assert PodDisruptionBudget(3, 1, min_available=2, always_evict_unhealthy=True).may_evict(healthy=False)


def test_a_bound_that_is_no_number_and_no_percentage_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'half'"):
        _ = PodDisruptionBudget(3, 3, min_available="half").allowed
