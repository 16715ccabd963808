"""Section 9.6 of the inventory of the Cluster Autoscaler's behaviour: the state of groups. Times are seconds."""

from collections.abc import Sequence

import pytest

from agents.logic.nodes.autoscaler.cluster_state_registry import (
    ClusterStateRegistry,
    RegistrySnapshot,
    SeenInstance,
    StateSettings,
)
from agents.logic.nodes.autoscaler.group_backoff import Backoff, BackoffSettings, ScaleUpFailure
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from tests.support.node_scene import ScalerRun, group, instance, joined

STRICT = StateSettings(ok_unready=1, max_unready_percent=10)
OLD, YOUNG = -7200.0, -60.0
FAILED = ScaleUpFailure("Other", "x")


def a_registry(settings: StateSettings | None = None) -> ClusterStateRegistry:
    return ClusterStateRegistry(settings or StateSettings(), Backoff(BackoffSettings()))


def node(name: str, created: float = OLD, *, ready: bool = True, gone: bool = False) -> NodeRow:
    return NodeRow(0, SchedulingNode(name), "g", (), created, ready=ready, gone=gone)


def nodes(ready: int, unready: int = 0, created: float = OLD) -> list[NodeRow]:
    """Ready nodes that are old, and others of this age that are not ready."""
    old = [node(f"r{number}") for number in range(ready)]
    return [*old, *[node(f"u{number}", created, ready=False) for number in range(unready)]]


def missing(count: int) -> list[SeenInstance]:
    return [SeenInstance(f"i{number}", "g") for number in range(count)]


def look(target: int, seen: Sequence[NodeRow], without: Sequence[SeenInstance] = ()) -> RegistrySnapshot:
    return RegistrySnapshot({"g": target}, seen, without)


@pytest.mark.parametrize(
    ("target", "seen", "request_", "expected"),
    [
        pytest.param(7, nodes(1), 6, 6, id="C54"),
        pytest.param(2, nodes(0, 1), 1, 1, id="C55"),
        pytest.param(2, nodes(0, 1, YOUNG), 2, 2, id="C56"),
        pytest.param(7, nodes(1), 0, 0, id="C57 nothing was asked for"),
    ],
)
def test_nodes_are_on_their_way_while_a_scale_up_runs(target: int, seen: list[NodeRow], request_: int, expected: int) -> None:
    state = a_registry()
    if request_:
        state.scale_up("g", request_, 0.0)
    state.update(look(target, seen), 0.0)
    assert state.upcoming("g", 0.0) == expected
    assert len(state.groups["g"].registered) == 1


def test_c57_none_is_on_its_way_to_a_group_that_is_backed_off() -> None:
    state = a_registry()
    state.scale_up("g", 6, 0.0)
    state.fail("g", FAILED, 0.0)
    state.update(look(7, nodes(1)), 0.0)
    assert state.upcoming("g", 0.0) == 0


@pytest.mark.parametrize(("ready", "unready", "healthy"), [(0, 2, False), (1, 1, True)])
def test_c58_a_cluster_with_too_many_unready_nodes_is_not_healthy(ready: int, unready: int, healthy: bool) -> None:
    state = a_registry(STRICT)
    state.update(look(2, nodes(ready, unready)), 0.0)
    assert state.healthy() is healthy


def test_c59_a_group_that_lacks_nodes_nobody_asked_for_is_not_healthy_and_its_cluster_is() -> None:
    state = a_registry(STRICT)
    state.update(look(5, nodes(1)), 0.0)
    assert (state.healthy(), state.group_healthy("g")) == (True, False)


@pytest.mark.parametrize(("limit", "unready", "not_started"), [(900.0, 1, 0), (2100.0, 0, 1)])
def test_c60_a_node_that_is_not_ready_counts_by_its_age(limit: float, unready: int, not_started: int) -> None:
    state = a_registry(StateSettings(max_startup=limit))
    state.update(look(1, nodes(0, 1, -1800.0)), 0.0)
    assert (len(state.groups["g"].unready), len(state.groups["g"].not_started)) == (unready, not_started)


def test_c61_the_sizes_that_are_acceptable_follow_what_was_asked_for() -> None:
    asked, leaving, late, fresh = (a_registry() for _ in range(4))
    asked.scale_up("g", 3, 0.0)
    asked.update(look(10, nodes(7)), 0.0)
    for _ in range(2):
        leaving.scale_down("g", 0.0)
    leaving.update(look(10, nodes(10)), 0.0)
    late.update(look(10, nodes(8), missing(2)), 0.0)
    late.update(look(10, nodes(8), missing(2)), 901.0)
    fresh.update(look(10, nodes(8), missing(2)), 0.0)
    found = [(one.ranges["g"].least, one.ranges["g"].most) for one in (asked, leaving, late, fresh)]
    assert found == [(7, 10), (10, 12), (8, 10), (10, 10)]


def test_c62_a_scale_up_that_takes_too_long_fails_and_its_size_is_to_be_taken_back() -> None:
    state = a_registry()
    state.scale_up("g", 4, 0.0)
    assert state.update(look(5, nodes(1)), 900.0) == []
    [failed] = state.update(look(5, nodes(1)), 901.0)
    assert (failed.failure.kind, failed.failure.code, failed.delta) == ("Other", "timeout", 4)
    assert state.backoff.of("g", 901.0) is not None
    assert "g" not in state.requests


def test_c63_a_second_failure_after_a_backoff_doubles_it_and_a_success_between_does_not_lift_it() -> None:
    backoff = Backoff(BackoffSettings())
    backoff.fail("g", FAILED, 0.0)
    assert backoff.of("g", 299.0) is not None
    assert backoff.of("g", 301.0) is None
    backoff.fail("g", FAILED, 301.0)
    assert backoff.of("g", 301.0 + 301.0) is not None
    assert backoff.of("g", 301.0 + 601.0) is None
    state = a_registry()
    state.fail("g", FAILED, 0.0)
    state.scale_up("g", 1, 1.0)
    state.update(look(1, nodes(1)), 2.0)
    assert "g" not in state.requests
    assert state.backoff.of("g", 3.0) is not None


def test_c64_backoffs_grow_to_half_an_hour_and_are_forgotten_after_three() -> None:
    backoff, now, lengths = Backoff(BackoffSettings()), 0.0, []
    for _ in range(5):
        until = backoff.fail("g", FAILED, now)
        lengths.append(until - now)
        last, now = now, until + 1.0
    assert lengths == [300.0, 600.0, 1200.0, 1800.0, 1800.0]
    backoff.clean(last + 10_801.0)
    assert backoff.fail("g", FAILED, last + 10_802.0) == last + 11_102.0


def test_c65_a_target_that_never_came_true_is_found_after_the_time_that_a_node_may_take() -> None:
    state = a_registry()
    state.update(look(3, nodes(1)), 0.0)
    state.update(look(3, nodes(1)), 900.0)
    assert state.oversized(900.0) == {}
    assert state.oversized(2700.0) == {"g": -2}


def test_c65_no_size_is_lowered_as_such_and_the_group_is_looked_at_as_it_is() -> None:
    """A difference: the cloud would choose the victim. Without instances to end nothing is done at all."""
    run = ScalerRun(group(desired=3), *joined("n1"), settings={"scale_down": False, "max_provision": 60.0})
    run.run(300.0)
    assert (run.grown, run.removed) == ([], [])


@pytest.mark.parametrize(
    ("profile", "least", "seconds", "gone"),
    [
        ("upstream", 1, 130.0, ["i-late"]),
        ("upstream", 1, 30.0, []),
        ("upstream", 2, 130.0, []),
        ("ullage", 2, 130.0, ["i-late"]),
    ],
)
def test_c66_an_instance_that_never_becomes_a_node_is_removed_once_and_at_the_minimum_replaced_in_our_profile(
    profile: str, least: int, seconds: float, gone: list[str]
) -> None:
    facts = [group(least=least, desired=2), *joined("n1"), instance("i-late")]
    run = ScalerRun(*facts, settings={"profile": profile, "max_provision": 60.0, "scale_down": False})
    run.run(seconds)
    assert run.removed == gone


def test_c67_a_node_whose_instance_is_gone_is_deleted_and_not_on_its_way() -> None:
    state = a_registry()
    state.scale_up("g", 1, 0.0)
    state.update(look(2, [node("r"), node("d", gone=True)]), 0.0)
    assert state.groups["g"].deleted == ["d"]
    assert state.groups["g"].ready == ["r"]


def test_c68_a_deletion_no_longer_explains_a_missing_node_after_five_minutes() -> None:
    state = a_registry()
    state.scale_down("g", 0.0)
    state.update(look(1, nodes(1)), 299.0)
    assert state.ranges["g"].most == 2
    state.update(look(1, nodes(1)), 300.0)
    assert state.ranges["g"].most == 1
