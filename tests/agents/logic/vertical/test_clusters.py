"""What the recommender makes of facts about clusters: pods fit a node, and a recommendation names the source of OOM kills."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.vertical.node_caps import DOUBTED_FOR, NodeIndex
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.decisions.recommendations import OomSource, OomSourceState
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerSeen, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, Workload
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, scrape, turn, when

Json = dict[str, Any]

OTHER = Workload("prod", "web", "Deployment", "api").key
USED = {"app": (3.0, 2.0 * GIB), "side": (1.0, 1.0 * GIB)}


def open_stage(**changed: Any) -> Any:
    return Recommender(replace(VerticalSettings(bounds_step=0.0, node_cap=True), **changed), 0)


def node(name: str, cpu: float | None, memory: float | None, **changed: Any) -> NodeChanged:
    return NodeChanged(when(START), "demo", name, Amounts(cpu, memory), **changed)  # type: ignore[arg-type]  # units


def used(number: int, workload: str = API.key) -> Any:
    return scrape(number, [(workload, "a", name, cores, memory) for name, (cores, memory) in USED.items()])


def look(stage: Any, minute: int, *facts: Any, workload: str = API.key) -> Any:
    """One minute with usage and these facts; what was said, or None."""
    number = START + minute * MINUTE
    decided = stage.step(turn(number, cluster_changes=list(facts), pod_metrics=[used(number, workload)]))
    return decided[0] if decided else None


def quiet(stage: Any, minute: int, *facts: Any) -> Any:
    """One minute with these facts alone."""
    return stage.step(turn(START + minute * MINUTE, cluster_changes=list(facts)))


def said(stage: Any, *facts: Any, workload: str = API.key) -> Any:
    """What is said after a minute of usage."""
    look(stage, 0, *facts, workload=workload)
    return look(stage, 1, workload=workload)


def targets(decided: Any) -> Json:
    return {container.container: container.target for container in decided.event.containers}


def test_a_pod_is_cut_down_to_the_largest_node_and_because_suffices_to_redo_the_sum() -> None:
    free = said(open_stage(node_cap=False), node("a", 2.0, 64.0 * GIB))
    cut = said(open_stage(), node("small", 1.0, 32.0 * GIB), node("large", 2.0, 64.0 * GIB))
    because = cut.event.because["node"]
    assert (because["node"], because["cpu"], because["memory"]) == ("large", 2.0, 64.0 * GIB)
    assert "node" not in free.event.because
    for resource, unit in (("cpu", 1000), ("memory", 1)):
        for bound in ("lower", "target", "upper"):
            amounts = {c.container: getattr(getattr(c, bound), resource) * unit for c in free.event.containers}
            together = sum(amounts.values())
            room = because[resource] * unit
            assert (f"{bound}_{resource}" in because["cut"]) == (together > room)
            if together > room:
                assert because["cut"][f"{bound}_{resource}"] * unit == pytest.approx(together)
                amounts = {name: int(amount * room / together) for name, amount in amounts.items()}
            found = {c.container: getattr(getattr(c, bound), resource) * unit for c in cut.event.containers}
            assert found == pytest.approx(amounts)
    assert {c.container: c.uncapped for c in cut.event.containers} == targets(free)
    together = sum(amounts.cpu for amounts in targets(cut).values())
    assert 1.998 <= together <= 2.0
    assert because["place"] in [str(place) for place in cut.cause]


def test_a_pod_must_fit_one_node_and_is_measured_against_the_one_that_cuts_it_least() -> None:
    # 4 cores and 3 GiB used; of the first node half of the CPU would do, of the second an eighth of the memory
    wide, tall = node("wide", 2.0, 64.0 * GIB), node("tall", 64.0, 0.5 * GIB)
    assert said(open_stage(), wide, tall).event.because["node"]["node"] == "wide"
    assert said(open_stage(), node("wide", 0.2, 64.0 * GIB), tall).event.because["node"]["node"] == "tall"


def test_a_node_counts_while_it_is_there_cordoned_or_not_and_a_pod_of_another_cluster_is_not_cut() -> None:
    away = node("a", 2.0, 64.0 * GIB, schedulable=False, ready=False)
    assert said(open_stage(), away).event.because["node"]["node"] == "a"
    for facts in ((), (NodeRemoved(when(START), "demo", "a"),), (node("a", None, GIB),), (node("a", 0.0, GIB),)):
        assert said(open_stage(), *facts).event.because.get("node") is None
    assert said(open_stage(), away, workload=OTHER).event.because.get("node") is None


def test_a_cut_wins_over_the_minimum_of_a_policy() -> None:
    stage = open_stage()
    entry = ContainerPolicy("side", min_allowed=Amounts(8.0))  # type: ignore[arg-type]  # units
    stage.step(turn(START - MINUTE, policies=[VerticalPolicyChanged(when(START), "demo/*", "1", containers=(entry,))]))
    together = targets(said(stage, node("a", 2.0, 64.0 * GIB)))
    assert together["side"].cpu < 2.0


def test_another_largest_node_makes_workloads_due_at_their_next_interval() -> None:
    stage = open_stage(bounds_step=10.0)
    said(stage, node("a", 2.0, 64.0 * GIB))
    for minute in range(2, 5):
        quiet(stage, minute)
    assert quiet(stage, 5, node("b", 1.0, 1.0 * GIB)) == []  # smaller: nothing is new
    assert quiet(stage, 6) == []
    found = [*quiet(stage, 7, node("c", 3.0, 64.0 * GIB)), *quiet(stage, 8), *quiet(stage, 9)]
    assert [decided.topic for decided in found] == ["recommendations", "recommendations-by-cluster"]
    assert found[0].event.because["node"]["node"] == "c"


def test_of_nodes_only_those_count_that_no_other_surpasses() -> None:
    nodes = NodeIndex()
    facts = [node("d", 4.0, 9.0), node("c", 4.0, 9.0), node("b", 4.0, 8.0), node("a", 2.0, 10.0), node("e", 1.0, 10.0)]
    nodes.ingest(turn(START, cluster_changes=facts).of("cluster-changes"), 7)
    assert [found.name for found in nodes.largest("demo")] == ["c", "a"]
    assert nodes.grown_since(7) == {"demo"}
    nodes.ingest(turn(START, cluster_changes=[NodeRemoved(when(START), "demo", "c")]).of("cluster-changes"), 8)
    nodes.ingest(turn(START, cluster_changes=[report(0)]).of("cluster-changes"), 8 + DOUBTED_FOR)
    assert [found.name for found in nodes.largest("demo")] == ["d", "a"]
    assert nodes.grown_since(8) == set()


KINDS = {
    "removed": [("app",)],
    "renamed in a rollout": [("app",), ("side",)],
    "together": [("app", "side")],
    "nobody knows": [],
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_containers_that_do_not_run_in_one_pod_take_no_room_on_a_node_from_each_other(kinds: list[tuple[str, ...]]) -> None:
    """autoscaler#3732: a container that its pods no longer had counted for eight days, and others got less for it."""
    stage, together = open_stage(), kinds in ([], [("app", "side")])
    seen = [pod(f"p{n}", START, containers=tuple(map(ContainerSeen, names))) for n, names in enumerate(kinds)]
    ended = pod("old", START, containers=(ContainerSeen("app"), ContainerSeen("side")), phase=PodPhase.FAILED)
    stage.step(turn(START - MINUTE, pod_changes=[*seen, *([ended] if kinds else [])]))
    decided = said(stage, node("a", 4.0, 64.0 * GIB))
    free = targets(said(open_stage(node_cap=False)))
    assert (targets(decided) == free) is not together
    assert bool(decided.event.nodes) is together


HOUR = 60 * MINUTE
LARGE, SMALL, GONE = node("a", 8.0, 64.0 * GIB), node("a", 2.0, 64.0 * GIB), NodeRemoved(when(START), "demo", "a")


@pytest.mark.parametrize(
    ("said_at", "sizes"),
    [
        ({0: LARGE, 1: GONE}, {6: 8.0, 7: None}),
        ({0: LARGE, 1: SMALL, 4: SMALL}, {6: 8.0, 7: 2.0}),
        ({0: LARGE, 1: node("a", None, None)}, {6: 8.0, 7: None}),
        ({0: LARGE, 1: SMALL, 3: LARGE, 4: SMALL}, {7: 8.0, 9: 8.0, 10: 2.0}),
        ({0: LARGE, 1: SMALL, 3: node("a", 1.0, GIB)}, {7: 8.0, 8: 8.0, 9: 1.0}),
        ({0: LARGE, 1: GONE, 2: node("a", 9.0, 64.0 * GIB)}, {2: 9.0, 8: 9.0}),
        ({0: SMALL, 1: GONE, 2: GONE, 3: LARGE, 4: GONE}, {9: 8.0, 10: None}),
    ],
    ids=["gone", "smaller", "without amounts", "refuted, then said again", "another word", "larger at once", "gone twice"],
)
def test_a_node_counts_as_it_was_until_the_log_said_otherwise_for_six_hours_without_a_break(
    said_at: dict[int, Any], sizes: dict[int, float | None]
) -> None:
    nodes = NodeIndex()
    for hour in range(max(sizes) + 1):
        at = START + hour * HOUR
        facts = [*([said_at[hour]] if hour in said_at else []), report(hour * 60)]
        nodes.ingest(turn(at, cluster_changes=facts).of("cluster-changes"), at)
        if hour in sizes:
            assert [room.cpu for room in nodes.largest("demo")] == [size for size in [sizes[hour]] if size is not None], hour


def report(minute: int, source: str = "kube", sees: tuple[str, ...] = ("oom-events", "pod-changes")) -> SourceReported:
    return SourceReported(when(START + minute * MINUTE), "demo", source, sees, 20.0)  # type: ignore[arg-type]  # units


def source_said(*facts: Any) -> Any:
    """The source of OOM kills that is named after a minute that begins with these facts."""
    return said(open_stage(), *facts).event.oom_source


def test_a_recommendation_names_the_source_of_oom_kills_and_whether_it_is_alive() -> None:
    # said a minute after START: three periods of 20 s are just not over for a report at START
    assert source_said() == OomSource(OomSourceState.NONE)
    assert source_said(report(0)) == OomSource(OomSourceState.ALIVE, "kube", when(START))
    assert source_said(report(-1)) == OomSource(OomSourceState.SILENT, "kube", when(START - MINUTE))
    assert source_said(report(0, sees=("pod-changes",))) == OomSource(OomSourceState.NONE)
    assert source_said(report(0), report(0, sees=("pod-changes",))) == OomSource(OomSourceState.NONE)
    assert source_said(report(0), report(-1)).state is OomSourceState.ALIVE  # an old word after a new one says nothing
    assert source_said(report(-9, "a"), report(0, "b"), report(-2, "c")).source == "b"


def test_a_report_with_a_period_of_ages_is_believed_for_ages() -> None:
    assert source_said(replace(report(-5000), period=1e16)).state is OomSourceState.ALIVE


def test_a_source_that_falls_silent_is_no_reason_to_speak() -> None:
    stage = open_stage(bounds_step=10.0)
    said(stage, report(0))
    assert [quiet(stage, minute) for minute in range(3, 8)] == [[]] * 5
