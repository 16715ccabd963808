"""Consolidation by replacement in the closed loop: growth, readiness, drain and end, by the real sources, stage and consumer."""

from collections.abc import Mapping
from datetime import timedelta

from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.outcomes import ActionFinished, Result
from streams.simulated.cluster_spec import Shortage, SimulatedNodeGroup
from tests.support.simulated_fleet import START, Fleet, deployment

SETTINGS: Mapping[str, object] = {
    "nodes.unneeded_time": 60,
    "nodes.delay_after_add": 30,
    "nodes.utilization_threshold": 0.01,
}


def fleet(*, consolidate: bool = True, shortages: tuple[Shortage, ...] = ()) -> Fleet:
    """Three pods of a core on a node of eight; a node of four costs half."""
    large = SimulatedNodeGroup("large", "m5.2xlarge", desired=1, price=0.46)
    medium = SimulatedNodeGroup("medium", "m5.xlarge", zone="eu-central-1b", price=0.23, shortages=shortages)
    return Fleet([large, medium], [deployment("web", 3, keep=2)], {**SETTINGS, "nodes.consolidate": consolidate})


def test_a_large_node_gives_way_to_a_cheaper_one_that_is_ready_first() -> None:
    run = fleet()
    run.run(minutes=0.5)
    least = 3
    ready_before_drain = False
    for _ in range(240):
        run.run()
        least = min(least, sum(pod.ready for pod in run.cluster.pods_by_name.values()))
        if run.events(NodeRemovalPlanned, "node-updates") and not ready_before_drain:
            ready_before_drain = run.cloud.running == {"large": 1, "medium": 1}
    assert ready_before_drain
    assert run.cloud.desired == run.cloud.running == {"large": 0, "medium": 1}
    assert (run.waiting, run.marked, least) == (0, [], 2)
    [grown] = run.events(ScaleUpPlanned, "node-updates")
    [gone] = run.events(NodeRemovalPlanned, "node-updates")
    assert (grown.group, grown.expander, gone.group, gone.reason) == (
        "medium",
        "consolidation",
        "large",
        RemovalReason.CONSOLIDATED,
    )
    assert gone.at - grown.at >= timedelta(seconds=90)
    assert all(one.result is Result.DONE for one in run.events(ActionFinished, "outcomes"))
    stays = fleet(consolidate=False)
    stays.run(minutes=20)
    assert stays.cloud.desired == {"large": 1, "medium": 0}
    hour = {one: each.cloud.machine_hours.price for one, each in (("cheaper", run), ("same", stays))}
    for each in (run, stays):
        each.run(minutes=60)
    spent = {one: each.cloud.machine_hours.price - hour[one] for one, each in (("cheaper", run), ("same", stays))}
    assert 0.49 < spent["cheaper"] / spent["same"] < 0.51


def test_where_the_cloud_has_no_cheaper_machine_the_node_stays_and_nothing_is_marked() -> None:
    begin = int(START.timestamp())
    run = fleet(shortages=(Shortage(begin, begin + 86_400),))
    run.run(minutes=60)
    assert run.cloud.running == {"large": 1, "medium": 0}
    assert (run.waiting, run.marked, run.cluster.moved) == (0, [], 0)
    assert run.events(NodeRemovalPlanned, "node-updates") == []
