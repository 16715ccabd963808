"""What a pod may demand of the labels of nodes: beyond a bound no node takes it, and it says why."""

import pytest

from agents.logic.nodes.cluster import fact_conversion
from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, NodeQuery, PodShapeSeen
from tests.support.node_scene import shape


def terms(demands: int, values: int) -> tuple[NodeQuery, ...]:
    return (NodeQuery(tuple(LabelDemand(f"k{n}", "NotIn", tuple(f"v{v}" for v in range(values))) for n in range(demands))),)


def volumes(count: int, demands: int) -> tuple[AttachedVolume, ...]:
    return tuple(AttachedVolume("d", f"h{n}", terms(demands, 1)) for n in range(count))


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (shape(node_terms=terms(50, 50) * 5), "250 demands with 12500 values; 250 with 2500 are the most"),
        (shape(volumes=volumes(20, 20)), "400 demands with 400 values"),
        (shape(node_terms=terms(200, 1), volumes=volumes(3, 17)), "251 demands with 251 values"),
    ],
)
def test_a_pod_that_demands_too_much_of_nodes_is_one_that_no_node_takes(fact: PodShapeSeen, words: str) -> None:
    assert words in fact_conversion.nature(fact).shape.refused


def test_a_pod_with_as_many_demands_as_may_be_is_read() -> None:
    found = fact_conversion.nature(shape(node_terms=terms(50, 10) * 4, volumes=volumes(5, 10))).shape
    assert (found.refused, len(found.node_terms or ()), len(found.volumes)) == ("", 4, 5)
