"""Quantities, requests, selectors and the scheduler's filters against upstream's answers."""

from typing import Any

import pytest

from agents.logic.nodes.scheduling import placement, placement_rules, scheduler_filters
from schemas import exact_quantity, pod_requests
from tests.support.ca_vectors import amounts, cluster, containers, shape, vectors

Vector = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("quantity"))
def test_a_quantity_means_what_kubernetes_says(vector: Vector) -> None:
    expected = vector["expected"]
    if expected["error"]:
        with pytest.raises(exact_quantity.NotAQuantityError):
            exact_quantity.parse(vector["inputs"]["text"])
        return
    mine = exact_quantity.parse(vector["inputs"]["text"])
    assert mine.whole == expected.get("value", mine.whole)
    assert mine.milli == expected.get("milli_value", mine.milli)


@pytest.mark.parametrize("vector", vectors("selectors"))
def test_a_selector_is_valid_and_matches_as_upstream_says(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if expected["error"]:
        with pytest.raises(placement_rules.Unreadable):
            placement_rules.selector(inputs["selector"])
    else:
        assert placement_rules.selector(inputs["selector"]).matches(inputs["labels"] or {}) == expected["matches"]


@pytest.mark.parametrize("vector", vectors("pod_requests"))
def test_a_pod_asks_for_what_upstream_computes(vector: Vector) -> None:
    inputs = vector["inputs"]
    level, overhead = amounts(inputs.get("pod_level_requests", {})), amounts(inputs.get("overhead", {}))
    init = containers(inputs.get("init_containers", []))
    mine = pod_requests.of_pod(containers(inputs["containers"]), init, overhead, level)
    theirs = amounts(vector["expected"])
    assert {k: v for k, v in mine.items() if v} == {k: v for k, v in theirs.items() if v}


@pytest.mark.parametrize("vector", vectors("sched_filters"))
def test_each_node_takes_or_refuses_a_pod_as_the_scheduler_does(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    picture = cluster(inputs["nodes"])
    pod = picture.shape(shape(inputs["pod"]))
    verdicts = dict(zip(picture.columns.names, scheduler_filters.explain(picture, pod), strict=True))
    fits = dict(zip(picture.columns.names, scheduler_filters.passes(picture, pod), strict=True))
    for name, theirs in expected["nodes"].items():
        mine = verdicts[name]
        assert fits[name] == theirs["fits"]
        if theirs["fits"]:
            assert mine is None
        else:
            assert mine is not None
            assert (mine.plugin, sorted(mine.reasons)) == (theirs["plugin"], sorted(theirs["reasons"]))


@pytest.mark.parametrize("vector", vectors("placement"))
def test_pods_in_order_go_to_the_first_node_that_takes_them(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    picture = cluster(inputs["nodes"])
    picture.open[: picture.size] = True  # the vectors' loop asks the filters about cordoned nodes as well
    rows = placement.schedule(picture, [picture.shape(shape(pod)) for pod in inputs["pods"]])
    names = [pod["name"] for pod in inputs["pods"]]
    placed = {name: picture.columns.names[row] for name, row in zip(names, rows, strict=True) if row != placement.NOWHERE}
    assert placed == expected["node_of_pod"]
    assert [name for name in names if name not in placed] == expected["unplaced"]
