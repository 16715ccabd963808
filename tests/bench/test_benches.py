"""The measurements that need no broker still run: in small, for their figures are `make bench`'s alone."""

from collections.abc import Callable

import pytest

from streams.log.record_format import MOST_RECORDS
from tests.bench import (
    hostile_batches,
    hostile_nodes,
    hostile_tenant,
    kube_source,
    machine,
    node_arrivals,
    node_scaling,
    one_partition,
    policy_costs,
    received_usage,
    updater_pass,
    vertical,
)

pytestmark = pytest.mark.slow


class Figures:
    """What a measurement puts into the table."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, name: str, value: float, _unit: str, _goal: str) -> None:
        """Take one in."""
        assert name not in self.values
        self.values[name] = value


def test_the_recommender_alone() -> None:
    found = Figures()
    vertical.measure(found.put, 1_000)
    assert len(found.values) == 9
    assert min(found.values.values()) > 0


def test_what_the_kube_source_keeps_of_a_pod() -> None:
    found = Figures()
    kube_source.measure(found.put, 100)
    assert found.values["kube source: memory a pod"] > 0


def test_what_adaptive_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_costs, "SCRAPES", 3)
    found = Figures()
    policy_costs.measure(found.put, 100)
    assert len(found.values) == 3


def test_what_a_policy_of_fifteen_lines_costs_a_backtest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_costs, "CONTAINER_DAYS", (2, 1))
    found = Figures()
    policy_costs.backtests(found.put)
    assert min(found.values.values()) > 0


def test_the_speed_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STEPS", 50_000)
    found = Figures()
    machine.measure(found.put)
    assert len(found.values) == 2
    assert min(found.values.values()) > 0


def test_a_pass_of_the_updater(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updater_pass, "WORKLOADS", 200)
    found = Figures()
    updater_pass.measure(found.put)
    assert len(found.values) == 4


def test_the_partition_that_carries_a_clusters_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_partition, "MINUTES", 1)
    found = Figures()
    one_partition.measure(found.put, 1_000)
    assert len(found.values) == 5
    assert min(found.values.values()) > 0


@pytest.mark.parametrize(
    "work",
    [
        node_scaling.scale_up(20),
        node_scaling.scale_down(20),
        node_scaling.filter_out(20, 50, 100),
        node_scaling.filter_out(20, 5, 65_000),
    ],
)
def test_decisions_about_nodes(work: Callable[[], object]) -> None:
    work()  # each asserts what it decides


def test_a_cluster_in_steady_state() -> None:
    found = Figures()
    node_scaling.steady(found.put, 20, 200)
    assert found.values


def test_hostile_objects_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_nodes, "LOOKS", 3)
    took = [hostile_nodes.affinity(20, 2), hostile_nodes.volumes(20)]
    assert min(took) >= 0


def test_hostile_objects_of_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_tenant, "MANY", 50)
    found = Figures()
    hostile_tenant.measure(found.put)
    assert len(found.values) >= len(hostile_tenant.CASES)


def test_hostile_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    # The other two take half a minute to make; what they are read as is held by test_malformed_batches.
    quick = {name: case for name, case in hostile_batches.CASES.items() if case[1] in {1, MOST_RECORDS}}
    monkeypatch.setattr(hostile_batches, "CASES", quick)
    found = Figures()
    hostile_batches.measure(found.put, 10_000)
    assert len(found.values) == len(quick) == 8


@pytest.mark.parametrize("version", [1, 2])
def test_the_receiver_of_usage(version: int) -> None:
    found = Figures()
    received_usage.measure(found.put, 100, version)
    assert len(found.values) == 6
    assert found.values[f"remote-write {version}.0, 100 containers: containers in it"] == 100


def test_arrivals_are_played_until_every_pod_has_run() -> None:
    pod = (1000, 1 << 30, 0)
    arrivals = [node_arrivals.Arrival(10.0 * number, 600.0 + number, "k", pod) for number in range(6)]
    run = node_arrivals.Arrivals({"a": {"cpu": 4000, "memory": 16 << 30}}, {"k": pod}, {})
    run.play(arrivals, 3600.0)
    assert len(run.waits) == 6 + run.evicted
    assert run.started >= 2
    assert run.pods == {}
    assert run.nodes == {}
