"""Replicas for what a workload uses, and nodes that may go: Crane's recommenders, with worked numbers."""

import numpy as np
import pytest

from agents.logic.replicas import fleet_recommendations
from agents.logic.replicas.fleet_recommendations import ReplicaNeeds
from schemas.names import Amounts
from schemas.units import Bytes, Cores

NEEDS = ReplicaNeeds()
NOTHING = np.array([])


def replicas(cpu: list[float], memory: list[float], request: Amounts, needs: ReplicaNeeds = NEEDS) -> tuple[int, str] | None:
    found = fleet_recommendations.replicas(np.array(cpu), np.array(memory), request, needs)
    return None if found is None else (found.replicas, found.by)


def test_ten_cores_at_half_of_five_a_pod_are_four_replicas() -> None:  # conformance 61
    assert replicas([10.0] * 20, [], Amounts(Cores(5.0), None)) == (4, "cpu")


def test_the_percentile_leaves_the_highest_twentieth_out() -> None:
    # of 100 totals the 95th is 2, the five above it do not count: 2 / (0.5 * 1) = 4
    assert replicas([2.0] * 95 + [50.0] * 5, [], Amounts(Cores(1.0), None)) == (4, "cpu")
    assert replicas([2.0] * 94 + [50.0] * 6, [], Amounts(Cores(1.0), None)) == (100, "cpu")


def test_the_resource_that_needs_more_decides() -> None:
    gib = 1 << 30
    # CPU 1 / 0.5 = 2; memory 3 GiB / (0.5 * 1 GiB) = 6
    assert replicas([1.0], [3.0 * gib], Amounts(Cores(1.0), Bytes(gib))) == (6, "memory")


def test_no_fewer_than_the_least_and_nothing_without_a_request_or_usage() -> None:
    assert replicas([0.001], [], Amounts(Cores(1.0), None), ReplicaNeeds(least=3)) == (3, "cpu")
    assert replicas([1.0], [1.0], Amounts()) is None
    assert replicas([], [], Amounts(Cores(1.0), Bytes(1))) is None


@pytest.mark.parametrize(
    ("owners", "idle"), [(["DaemonSet", "DaemonSet"], True), ([], True), (["DaemonSet", "ReplicaSet"], False), ([""], False)]
)
def test_a_node_whose_pods_all_belong_to_daemon_sets_may_go(owners: list[str], *, idle: bool) -> None:  # conformance 63
    assert fleet_recommendations.idle(owners) is idle
