"""Section 9.7 of the inventory of the Cluster Autoscaler's behaviour, as far as `test_conformance` does not have it: drains."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agents.logic.nodes.removal import drain_rules, node_utilization
from agents.logic.nodes.removal.drain_rules import (
    DisruptionBudget,
    DisruptionBudgets,
    DrainContext,
    DrainSettings,
    KnownControllers,
)
from agents.logic.nodes.removal.node_utilization import IgnoredPods, UtilizationError
from agents.logic.nodes.scheduling.pod_shapes import SchedulablePod
from agents.logic.nodes.scheduling.scheduling_selectors import equals
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.facts.scheduled_pods import ControllingOwner, PodPlacementRemoved
from schemas.outcomes import Result
from tests.support import ca_vectors
from tests.support.node_scene import ScalerRun, controller, group, joined, pod, shape

NOW = 1_000_000.0
GPU = "nvidia.com/gpu"
QUICK = {"unneeded_time": 600.0, "interval": 10.0}
SMALL: dict[str, Any] = {"cpu_m": 100, "memory_b": 200_000}
OF_SET = {"kind": "ReplicaSet", "name": "rs", "api_version": "apps/v1"}
OF_DAEMON = {"kind": "DaemonSet", "name": "ds", "api_version": "apps/v1"}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DAEMON = {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
MIRROR = {"kubernetes.io/config.mirror": "x"}


def a_pod(name: str = "p", **more: Any) -> SchedulablePod:
    return ca_vectors.pod({"name": name, "requests": SMALL, **more}, NOW)


def used(
    *pods: SchedulablePod, ignored: IgnoredPods | None = None, gpu: str = "", **offered: int
) -> node_utilization.Utilization:
    allocatable = {"cpu_m": 2000, "memory_b": 2_000_000, "pods": 110}
    whole = {"name": "n", "allocatable": {**allocatable, **({"ext": offered} if offered else {})}}
    return node_utilization.of_node(ca_vectors.node(whole), list(pods), ignored or IgnoredPods(), NOW, gpu=gpu)


TWO = (a_pod("a"), a_pod("b"))
NO_DAEMONS, NO_MIRRORS = IgnoredPods(daemons=True), IgnoredPods(mirrors=True)


@pytest.mark.parametrize(
    ("pods", "ignored", "expected"),
    [
        pytest.param(TWO, None, 0.2, id="C69"),
        pytest.param((*TWO, a_pod("d", owner=OF_DAEMON), a_pod("e", annotations=DAEMON)), NO_DAEMONS, 0.25, id="C70"),
        pytest.param((*TWO, a_pod("m", annotations=MIRROR)), NO_MIRRORS, 2 / 9, id="C71 a mirror pod"),
        pytest.param(
            (a_pod("a"), a_pod("m", annotations=MIRROR), a_pod("d", owner=OF_DAEMON)),
            IgnoredPods(daemons=True, mirrors=True),
            1 / 8,
            id="C71 both",
        ),
        pytest.param((*TWO, a_pod("gone", deleted_s_ago=600)), None, 0.2, id="C72"),
    ],
)
def test_a_node_is_used_as_much_as_its_pods_ask_for(
    pods: tuple[SchedulablePod, ...], ignored: IgnoredPods | None, expected: float
) -> None:
    assert used(*pods, ignored=ignored).highest == pytest.approx(expected)


def test_c69_cpu_and_memory_are_told_apart() -> None:
    assert (used(*TWO).cpu, used(*TWO).memory) == (0.1, 0.2)


def test_c72_a_node_without_memory_has_no_use_that_could_be_told() -> None:
    bare = {"name": "n", "allocatable": {"cpu_m": 2000, "memory_b": 0, "pods": 110}}
    with pytest.raises(UtilizationError):
        node_utilization.of_node(ca_vectors.node(bare), list(TWO), IgnoredPods(), NOW)


def test_c73_sidecars_are_added_and_an_init_container_counts_if_it_asks_for_more() -> None:
    sidecar = {"requests": {"cpu_m": 50, "memory_b": 100_000}, "restart_policy": "Always"}
    init = {"requests": {"cpu_m": 50_000, "memory_b": 100_000_000}}
    found = used(a_pod("a"), a_pod("s", init_containers=[sidecar]), a_pod("i", init_containers=[init]))
    assert (found.highest, found.cpu) == pytest.approx((50.25, 25.125))


@pytest.mark.parametrize(("gpus", "of_pod", "expected"), [(1, 1, 1.0), (0, 0, 0.0)])
def test_c74_of_a_node_with_a_gpu_that_alone_counts(gpus: int, of_pod: int, expected: float) -> None:
    asking = a_pod("g", requests={**SMALL, **({"ext": {GPU: of_pod}} if of_pod else {})})
    found = used(asking, a_pod("plain"), gpu=GPU, **({GPU: gpus} if gpus else {}))
    assert (found.resource, found.highest) == (GPU, expected)


# Drain rules


def verdict(
    given: SchedulablePod,
    settings: DrainSettings | None = None,
    allowed: Mapping[str, int] | None = None,
    kinds: tuple[str, ...] = ("ReplicaSet",),
) -> tuple[str, str | None]:
    """What becomes of a pod; `allowed`: by namespace a disruption budget on it and what that allows."""
    known = {(kind, namespace, "rs"): 3 for kind in kinds for namespace in ("default", "kube-system")}
    labels = equals({"app": "x"})
    budgets = [DisruptionBudget("b", namespace, labels, number) for namespace, number in (allowed or {}).items()]
    scene = DrainContext(NOW, settings or DrainSettings(), KnownControllers(known), DisruptionBudgets(budgets))
    found = drain_rules.of_pod(given, scene)
    return found.outcome.value, None if found.reason is None else found.reason.value


CUSTOM = {"kind": "CloneSet", "name": "rs", "api_version": "apps.example.com/v1"}
SYSTEM = {"owner": OF_SET, "namespace": "kube-system", "labels": {"app": "x"}}
COVERED = {"owner": OF_SET, "labels": {"app": "x"}, "age_s": 7200}
LOCAL = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
TWO_DIRS = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
MOVE = ("move", None)


def with_volume(**volume: object) -> SchedulablePod:
    return a_pod(owner=OF_SET, age_s=7200, volumes=[{"name": "v", **volume}])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(verdict(a_pod(age_s=7200)), ("block", "NotReplicated"), id="C84 a bare pod"),
        pytest.param(verdict(a_pod(owner=CUSTOM, age_s=7200)), ("block", "NotReplicated"), id="C84 a custom controller"),
        pytest.param(
            verdict(a_pod(owner=CUSTOM, age_s=7200), DrainSettings(skip_custom_controllers=False)),
            MOVE,
            id="C84 without the flag",
        ),
        pytest.param(verdict(a_pod(**SYSTEM, age_s=600)), ("block", "UnmovableKubeSystemPod"), id="C85 young"),
        pytest.param(verdict(a_pod(**SYSTEM, age_s=3660)), MOVE, id="C85 old"),
        pytest.param(verdict(a_pod(**SYSTEM, age_s=600), allowed={"kube-system": 1}), MOVE, id="C85 with a budget"),
        pytest.param(verdict(with_volume(emptyDir={})), ("block", "LocalStorageRequested"), id="C86 emptyDir"),
        pytest.param(verdict(with_volume(emptyDir={"medium": "Memory"})), MOVE, id="C86 in memory"),
        pytest.param(verdict(with_volume(hostPath={"path": "/x"})), ("block", "LocalStorageRequested"), id="C86 hostPath"),
        *[
            pytest.param(verdict(with_volume(**{kind: {}})), MOVE, id=f"C86 {kind}")
            for kind in ("configMap", "secret", "persistentVolumeClaim", "gitRepo")
        ],
        pytest.param(
            verdict(a_pod(owner=OF_SET, age_s=7200, volumes=TWO_DIRS, annotations={LOCAL: "a"})),
            ("block", "LocalStorageRequested"),
            id="C87 one of two",
        ),
        pytest.param(
            verdict(a_pod(owner=OF_SET, age_s=7200, volumes=TWO_DIRS, annotations={LOCAL: "a,b"})), MOVE, id="C87 both of two"
        ),
        pytest.param(verdict(a_pod(**COVERED), allowed={"default": 0}), ("block", "NotEnoughPdb"), id="C88 none"),
        pytest.param(verdict(a_pod(**COVERED), allowed={"default": 1}), MOVE, id="C88 one"),
        pytest.param(verdict(a_pod(**COVERED), allowed={"other": 0}), MOVE, id="C88 of another namespace"),
        pytest.param(
            verdict(a_pod(age_s=7200, volumes=TWO_DIRS, annotations={SAFE: "true"})), MOVE, id="C89 a bare pod that is safe"
        ),
        pytest.param(
            verdict(a_pod(owner=OF_SET, age_s=7200, annotations={SAFE: "false"})),
            ("block", "NotSafeToEvictAnnotation"),
            id="C89 one that is not",
        ),
        pytest.param(
            verdict(a_pod(owner=OF_SET, age_s=7200, annotations={SAFE: "on-completion"})), ("wait", None), id="C90 until it ends"
        ),
        pytest.param(verdict(a_pod(owner=OF_SET, age_s=7200, deleted_s_ago=20, grace_s=30)), MOVE, id="C91 on its way"),
        pytest.param(verdict(a_pod(owner=OF_SET, age_s=7200, deleted_s_ago=61, grace_s=30)), ("skip", None), id="C91 over"),
    ],
)
def test_a_pod_may_be_moved_or_says_why_not(found: tuple[str, str | None], expected: tuple[str, str | None]) -> None:
    assert found == expected


# Whole decisions


def test_c90_a_node_is_unneeded_and_stays_until_the_pod_that_must_end_by_itself_has_ended() -> None:
    waits = shape("job", cpu=100, annotations={SAFE: "on-completion"})
    facts = [group(desired=2), *joined("n1"), *joined("n2"), waits, shape("big", cpu=3000), controller("job"), controller("big")]
    settings = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}
    run = ScalerRun(*facts, settings=settings)
    job = pod("job-1", "job", node="n1")
    run.step(job, pod("big-1", "big", node="n2"))
    run.run(20.0)
    assert (run.removed, run.refused("n1")[-1]) == ([], "BlockedByOnCompletionPod")
    assert ("n1", True) in run.soft_taints
    run.step(PodPlacementRemoved(job.at, job.cluster, job.pod))
    run.run(10.0)
    assert run.removed == ["n1"]


def test_c95_no_node_goes_for_ten_minutes_after_a_group_grew() -> None:
    """With ours only nodes of that group stay; test_node_incidents.py has that."""
    upstream = {**QUICK, "profile": "upstream"}
    nodes = [event for name in ("n1", "n2") for event in joined(name)]
    run = ScalerRun(group(desired=2), group("b"), *nodes, shape("only-b", 3000, node_selector={"group": "b"}), settings=upstream)
    run.run(580.0)
    assert run.removed == []
    run.step(pod("waits", "only-b"))
    run.run(13.0)
    [plan] = run.of(ScaleUpPlanned)
    assert plan.group == "b"
    run.answer(plan, Result.DONE)
    run.step(group("b", desired=1), *joined("n3", "b"), pod("waits", "only-b", node="n3"))
    run.run(580.0)
    assert run.removed == []
    run.run(60.0)
    assert set(run.removed) == {"n1", "n2"}


def test_c97_one_of_three_empty_nodes_that_cannot_be_tainted_holds_up_itself_alone() -> None:
    """A difference: upstream lets all three stay."""
    nodes = [event for name in ("n1", "n2", "n3") for event in joined(name)]
    settings = {
        "unneeded_time": 5.0,
        "delay_after_add": 0.0,
        "interval": 1.0,
        "delay_after_failure": 60.0,
        "recheck": 60.0,
        "backoff_first": 60.0,
    }
    run = ScalerRun(group(desired=3), *nodes, settings=settings)
    run.run(8.0)
    assert sorted(run.removed) == ["n1", "n2", "n3"]
    plans = {one.node: one for one in run.of(NodeRemovalPlanned)}
    run.answer(plans["n2"], Result.FAILED)
    run.answer(plans["n1"], Result.DONE)
    run.answer(plans["n3"], Result.DONE)
    run.run(50.0)
    assert sorted(run.removed) == ["n1", "n2", "n3"]  # the delay after a failure
    run.run(100.0)
    assert [run.removed.count(name) for name in ("n1", "n2", "n3")] == [1, 2, 1]


EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"


@pytest.mark.parametrize(
    ("occupied", "settings", "evicted"),
    [
        (True, {}, ["by-default", "wanted"]),
        (True, {"evict_daemonsets": False}, ["wanted"]),
        (False, {}, ["wanted"]),
        (False, {"evict_daemonsets_of_empty": True}, ["by-default", "wanted"]),
    ],
)
def test_pods_of_daemonsets_are_evicted_as_their_annotation_says_or_else_by_whether_others_must_move(
    occupied: bool, settings: dict[str, Any], evicted: list[str]
) -> None:
    owner = ControllingOwner("DaemonSet", "agent", "apps/v1")
    marked = {"by-default": {}, "wanted": {EVICTION: "true"}, "unwanted": {EVICTION: "false"}, "misspelt": {EVICTION: "yes"}}
    shapes = [shape(name, cpu=10, owner=owner, annotations=annotations) for name, annotations in marked.items()]
    owners = [replace(controller("agent"), kind="DaemonSet"), controller()]
    nodes = [*joined("n1"), *joined("n2")]
    run = ScalerRun(group(desired=2), *nodes, *shapes, shape(cpu=100), *owners, settings=QUICK | settings)
    run.step(*[pod(name, name, "n1") for name in marked], *[pod("web-1", node="n1")] * occupied)
    run.step(*[pod(f"full-{number}", node="n2") for number in range(10)])
    run.run(620.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert plan.node == "n1"
    assert [one.name for one in plan.daemons] == evicted
    assert [one.name for one in plan.evict] == ["web-1"] * occupied
