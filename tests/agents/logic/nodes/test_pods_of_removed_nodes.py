"""Pods on a node as a removal counts them, such for which the scheduler only makes room there included."""

from schemas.decisions.node_updates import NodeRemovalPlanned
from tests.support.node_scene import ScalerRun, controller, group, joined, pod, shape

QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def test_a_pod_for_which_the_scheduler_makes_room_takes_that_room_and_no_group_grows_for_it() -> None:
    facts = [group(desired=1), *joined("n1"), shape(cpu=2500), controller()]
    run = ScalerRun(*facts, settings=QUICK)
    run.step(pod("preempts", nominated="n1"))
    run.run(30.0)
    assert (run.grown, run.removed) == ([], [])
    run.step(pod("next"))
    run.run(3.0)
    assert run.grown == [("a", 1, 2)]  # the room on n1 is taken
    alone = ScalerRun(*facts, settings=QUICK)
    alone.step(pod("preempts", nominated="n1"))
    alone.run(3.0)
    alone.step(pod("preempts", nominated=""), pod("there", node="n1"))
    alone.run(3.0)
    assert alone.grown == [("a", 1, 2)]


def test_a_pod_that_is_not_there_yet_is_not_evicted_from_the_node_that_it_is_to_come_to() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(cpu=500), controller(), settings=QUICK)
    run.step(pod("runs", node="n1"), pod("comes", nominated="n1"), *[pod(f"other-{number}", node="n2") for number in range(5)])
    run.run(8.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert (plan.node, [one.name for one in plan.evict]) == ("n1", ["runs"])


def test_a_plan_counts_all_pods_that_go_to_a_node_whatever_their_shapes() -> None:
    shapes = [shape(cpu=500), shape("db", cpu=500), controller(), controller("db")]
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), *shapes, settings=QUICK)
    run.step(pod("web-1", node="n1"), pod("web-2", node="n1"), pod("db-1", "db", node="n1"))
    run.step(*[pod(f"other-{number}", node="n2") for number in range(5)])
    run.run(8.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert len(plan.evict) == 3
    assert plan.because["pods go to"] == {"n2": 3}
