"""`ullage why-not` of nodes that stay, pods that wait for a node, and workloads, from a log alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.logic.nodes.scaler import scaling_dry_run
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind
from schemas.facts.sources import SourceReported
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction, Seconds
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, node, pod, shape
from tests.support.updater_log import UpdaterLog

SECOND = 1000


@pytest.fixture
def log(tmp_path: Path) -> UpdaterLog:
    """A full node, an empty one, one that must not be removed, and pods of which one fits nowhere."""
    made = UpdaterLog(tmp_path / "log.jsonl")
    reports = [
        SourceReported(when(START), CLUSTER, "kube", ("scheduling-changes",), Seconds(1e6)),
        SourceReported(when(START), CLUSTER, "asg", ("node-group-changes",), Seconds(1e6)),
    ]
    kept = node("n3", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    facts = [
        group(desired=3), *joined("n1"), *joined("n2"), *joined("n3"), kept, shape(), shape("huge", cpu=64_000), controller(),
        *[pod(f"web-{number}", node="n1") for number in range(4)], pod("huge-0", "huge"), pod("huge-1", "huge"),
    ]  # fmt: skip
    made.turn(START, ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=Fraction(1.0)), *reports, *facts)
    for second in range(1, 40):
        made.turn(START + second * SECOND)
    return made


def says(log: UpdaterLog, capsys: pytest.CaptureFixture[str], *asked: str) -> str:
    capsys.readouterr()
    assert log.run("why-not", *asked) == 0
    return capsys.readouterr().out


def test_a_node_that_is_used_says_how_much_of_it_and_what_would_let_it_go(
    log: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    found = says(log, capsys, "node", "n1")
    assert "node n1 is there" in found
    assert "no: NotUnderutilized: enough of it is asked for" in found
    assert "utilization: 0.975" in found
    assert "threshold: 0.5" in found
    assert says(log, capsys, "n1") == found  # its name is enough


def test_a_node_that_waits_for_its_time_and_one_that_must_stay(log: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    waits = says(log, capsys, "node", "n2")
    assert "no: NotUnneededLongEnough" in waits
    assert "unneeded since: 2026-01-01T00:00:00Z" in waits
    assert "goes after seconds: 600" in waits
    assert "ScaleDownDisabledAnnotation: its annotation says" in says(log, capsys, "node", "n3")


def test_a_pod_that_waits_says_what_keeps_it_off_each_groups_new_node(
    log: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    found = says(log, capsys, "shop/huge-1")
    assert "shop/huge-1 waits for a node" in found
    assert "NodeResourcesFit: a new node of group 'a' would not take it: Insufficient cpu" in found
    assert says(log, capsys, "pod", "huge-1") == found


def test_a_pause_and_sources_that_fell_silent_are_named(log: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    log.turn(START + 50 * SECOND, ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, budget=Fraction(1.0)))
    log.turn(START + 51 * SECOND)
    assert "no: paused:" in says(log, capsys, "node", "n2")
    log.turn(START + 10_000_000 * SECOND)
    assert "no: blind: nothing is decided: no source reports facts" in says(log, capsys, "node", "n2")


def stays(run: ScalerRun, name: str) -> list[str]:
    """The codes of what keeps a node."""
    return [one.code for one in scaling_dry_run.node_stays(run.stage, CLUSTER, name, run.now) or ()]


LATER = {"interval": 1.0, "unneeded_time": 3.0, "delay_after_add": 0.0}


def old(name: str) -> list[Any]:
    return [instance(name, launched=when(START - 40 * 86_400_000)), node(name)]


def test_a_budget_that_is_used_up_is_named() -> None:
    run = ScalerRun(group(desired=4), *joined("n1"), *joined("n2"), *joined("n3"), *joined("n4"), settings=LATER)
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=Fraction(0.25)))
    run.run(20.0)
    assert run.removed == ["n1"]
    assert stays(run, "n2") == ["budget"]


def test_scale_down_that_is_off_is_named() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), settings={**LATER, "scale_down": False})
    run.run(20.0)
    assert stays(run, "n1") == ["ScaleDownOff"]


def test_a_node_that_is_to_be_replaced_says_what_it_waits_for() -> None:
    first = [*old("n1"), shape(cpu=3500), controller(), pod("p", node="n1")]
    expiry = {**LATER, "expire_after": 30 * 86_400.0}
    most = ScalerRun(group(desired=1, most=1), *first, settings=expiry)
    most.run(5.0)
    assert stays(most, "n1") == ["ReplacementCannotStart"]
    paused = ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, budget=Fraction(1.0))
    free = ScalerRun(group(desired=1), *first, paused, settings=expiry)
    assert stays(free, "n1") == ["paused", "ReplacementFirst"]
    fits = ScalerRun(group(desired=2), *first, *joined("n2"), paused, settings=expiry)
    assert stays(fits, "n1") == ["paused"]
    held = ScalerRun(group(desired=2), *first, *joined("n2"), settings={**expiry, "most_drains": 0})
    assert stays(held, "n1") == ["drains"]
    assert stays(held, "n2") == ["ReplacesAnotherNode"]


def test_a_node_that_is_to_be_replaced_waits_for_those_that_go_before_it() -> None:
    paused = ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, budget=Fraction(0.25))
    nodes = [event for name in ("n2", "n3", "n4") for event in joined(name)]
    first = [*old("n1"), *nodes, shape(cpu=500), controller(), pod("p", node="n1"), paused]
    quick = {"unneeded_time": 1.0, "expire_after": 30 * 86_400.0, "most_drains": 10}
    run = ScalerRun(group(desired=4), *first, settings={**LATER, **quick})
    run.run(20.0)
    codes = {name: stays(run, name) for name in ("n1", "n2", "n3", "n4")}
    assert codes["n1"] == codes["n3"] == ["paused", "budget"]
    assert (codes["n2"], codes["n4"]) == (["paused"], ["paused", "ReplacesAnotherNode"])


def test_a_node_that_its_cloud_takes_is_held_by_nothing_and_one_with_advice_as_any_other() -> None:
    def noticed(kind: InterruptionKind, **settings: Any) -> list[str]:
        first = [*joined("n1"), shape(cpu=3500), controller(), pod("p", node="n1")]
        run = ScalerRun(group(desired=1, most=1), *first, settings={**LATER, **settings}, mode=Mode.SHADOW)
        run.step(InstanceInterruptionNoticed(when(START), CLUSTER, "n1", kind, "m", when(START)))
        run.stage.clusters.plans.remove(f"{CLUSTER}/node/n1")
        return stays(run, "n1")

    assert noticed(InterruptionKind.SPOT) == ["mode"]
    assert noticed(InterruptionKind.SPOT, scale_down=False) == ["mode"]
    assert noticed(InterruptionKind.MAINTENANCE) == ["mode", "ReplacementCannotStart"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("node", "n9"), "no source has published a node 'n9'"),
        (("group", "a"), "'group' is no kind of thing that is explained: say pod, workload, node"),
        (("workload", "shop/Deployment/none"), "no source has published a pod of workload 'demo/shop/Deployment/none'"),
    ],
)
def test_what_nobody_knows_is_said_so(
    log: UpdaterLog, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], said: str
) -> None:
    assert log.run("why-not", *asked) != 0
    assert said in capsys.readouterr().err


def test_looking_writes_nothing(log: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    before = log.ends()
    says(log, capsys, "node", "n1")
    assert log.ends() == before


@pytest.mark.parametrize("asked", [("node", "n1"), ("shop/huge-1",), ("workload", "shop/Deployment/web")])
def test_a_cluster_that_no_source_has_named_is_refused_with_those_that_one_has(
    log: UpdaterLog, asked: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CLUSTER__NAME", "another")
    capsys.readouterr()
    assert log.run("why-not", *asked) == 2
    assert f"no source has named a cluster 'another'; the log has '{CLUSTER}'" in capsys.readouterr().err


def test_a_plan_names_what_becomes_of_groups_and_nodes(log: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    def plan(*flags: str) -> str:
        capsys.readouterr()
        assert log.run("plan", *flags) == 0
        return capsys.readouterr().out

    assert plan().endswith("Nodes:\n  nothing\n")
    log.turn(START + 40 * SECOND)
    log.turn(
        START + 41 * SECOND,
        *[pod(f"new-{number}") for number in range(9)],
        SourceReported(when(START), CLUSTER, "kube", ("scheduling-changes",), Seconds(1e6)),
    )  # four fit on n2, four on n3, one nowhere
    assert plan().endswith("Nodes:\n  group 'a' from 3 to 4 nodes for 1 pod\n")
    log.turn(START + 42 * SECOND)
    assert plan().endswith("Nodes:\n  group 'a' from 3 to 4 nodes, planned already\n")
    [grown] = json.loads(plan("-o", "json"))["nodes"]["grow"]
    assert grown == {"group": "a", "from": 3, "to": 4, "pods": 0, "open": True}


def test_a_plan_names_nodes_that_go_and_what_holds_them_back() -> None:
    quick = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(), settings=quick)
    run.step(*[pod(f"web-{number}", node="n1") for number in range(4)])
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, reason="an incident", budget=Fraction(1.0)))
    run.run(10.0)
    found = scaling_dry_run.pending(run.stage, CLUSTER, run.now)
    assert found is not None
    assert [(one.name, one.reason, one.waits, one.grows, one.open) for one in found.changes] == [
        ("n2", "empty", "", False, False)
    ]
    assert found.held == ("cluster 'demo' is paused: an incident",)
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=Fraction(1.0)))
    run.run(2.0)
    after = scaling_dry_run.pending(run.stage, CLUSTER, run.now)
    assert after is not None
    assert [(one.name, one.open) for one in after.changes] == [("n2", True)]
    assert scaling_dry_run.pending(run.stage, "elsewhere", run.now) is None
