"""Plans that a consumer refuses: what no further try would mend is held back, and nothing is planned again at once."""

import pytest

from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.outcomes import OutcomeDetail, Result
from tests.support.node_scene import ScalerRun, group, instance, joined, pod, shape

LASTING = [OutcomeDetail.AT_LIMIT, OutcomeDetail.NOT_FOUND, OutcomeDetail.INVALID, OutcomeDetail.FORBIDDEN]


def refused(run: ScalerRun, kind: type[ScaleUpPlanned] | type[NodeRemovalPlanned], detail: OutcomeDetail) -> int:
    """How many plans are made in two minutes, each of which is refused a second later."""
    answered = 0
    for _ in range(120):
        run.run(1.0)
        plans = run.of(kind)
        if len(plans) > answered:
            answered = len(plans)
            run.answer(plans[-1], Result.REFUSED, detail)
    return answered


@pytest.mark.parametrize("detail", LASTING)
def test_a_group_that_may_not_grow_in_the_cloud_is_backed_off_and_another_one_serves(detail: OutcomeDetail) -> None:
    run = ScalerRun(group(), shape(), pod("waits"))
    assert refused(run, ScaleUpPlanned, detail) == 1
    run.step(group("b"))
    run.run(3.0)
    assert run.grown == [("a", 0, 1), ("b", 0, 1)]


def test_a_group_that_is_not_as_planned_is_planned_for_again_at_the_next_look_or_when_its_facts_are_new() -> None:
    run = ScalerRun(group(), shape(), pod("waits"))
    assert refused(run, ScaleUpPlanned, OutcomeDetail.MOVED) <= 13  # a look in ten seconds
    run.answer(run.of(ScaleUpPlanned)[-1], Result.REFUSED, OutcomeDetail.MOVED)
    run.step(group(desired=1), *joined("n1"), shape("big", cpu=4000), pod("full", "big", node="n1"))
    run.run(3.0)
    assert run.of(ScaleUpPlanned)[-1].before == 1


def test_an_instance_that_could_not_be_ended_gets_its_time_to_become_a_node_anew() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), instance("late"), settings={"max_provision": 40.0, "scale_down": False})
    assert refused(run, NodeRemovalPlanned, OutcomeDetail.MOVED) == 2


def test_a_node_whose_group_may_not_shrink_in_the_cloud_is_tried_again_after_a_while() -> None:
    settings = {"unneeded_time": 3.0, "delay_after_add": 0.0, "recheck": 60.0, "backoff_first": 60.0}
    run = ScalerRun(group(desired=1), *joined("n1"), settings=settings)
    assert refused(run, NodeRemovalPlanned, OutcomeDetail.AT_LIMIT) == 2
