"""Namespace selectors of rules between pods: by the labels of namespaces, where the log tells them."""

from typing import Any

import pytest

from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import LabelDemand, LabelQuery, PodPlacementChanged, RequiredPodAffinity
from schemas.facts.update_facts import NAMESPACE, ObjectMetadataChanged, ObjectMetadataRemoved
from schemas.names import PodName
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, joined, pod, shape

DB = LabelQuery({"app": "db"})
TEAM_A = LabelQuery({"team": "a"})
HOST = "kubernetes.io/hostname"


def labels(namespace: str, **labels: str) -> ObjectMetadataChanged:
    return ObjectMetadataChanged(when(START), CLUSTER, NAMESPACE, namespace, namespace, labels)


def world(selector: LabelQuery | None, *more: Any, namespaces: tuple[str, ...] = ()) -> ScalerRun:
    """A pod of `shop` keeps away from databases; the one database runs in `data` on the one node, which has room."""
    away = RequiredPodAffinity(HOST, DB, namespaces, selector)
    keeps_away = shape("web", anti_affinity=(away,))
    database = shape("db", namespace="data")
    there = PodPlacementChanged(
        when(START), CLUSTER, PodName("data", "db-0", "uid-db-0"), "db", PodPhase.RUNNING, when(START), "n1"
    )
    return ScalerRun(group(desired=1), *joined("n1"), keeps_away, database, controller(), there, *more, pod("web-0"))


@pytest.mark.parametrize(
    ("selector", "told", "grows"),
    [
        (TEAM_A, (labels("data", team="a"),), True),
        (TEAM_A, (labels("data", team="b"),), False),
        (TEAM_A, (labels("shop", team="a"),), False),
        (TEAM_A, (), False),
        (LabelQuery({}), (), True),
        (LabelQuery({}), (labels("data"),), True),
        (None, (labels("data", team="a"),), False),
        (LabelQuery({}, (LabelDemand("team", "NotIn", ("a",)),)), (labels("data", team="a"),), False),
        (LabelQuery({}, (LabelDemand("team", "Exists"),)), (labels("data", team="b"),), True),
    ],
)
def test_a_namespace_selector_takes_namespaces_by_their_labels(selector: Any, told: tuple[Any, ...], grows: bool) -> None:
    """Only if the selector takes `data` the pod that waits needs another node than the database's."""
    run = world(selector, *told)
    run.run(5.0)
    assert (run.grown == [("a", 1, 2)]) is grows


def test_named_namespaces_count_beside_those_that_the_selector_takes() -> None:
    run = world(TEAM_A, labels("data", team="b"), namespaces=("data",))
    run.run(5.0)
    assert run.grown == [("a", 1, 2)]


def test_labels_that_change_and_namespaces_that_go_count_from_then_on() -> None:
    run = world(TEAM_A, labels("data", team="b"))
    run.run(5.0)
    assert run.grown == []
    run.step(labels("data", team="a"))
    run.run(2.0)
    assert run.grown == [("a", 1, 2)]
    gone = world(TEAM_A, labels("data", team="a"), ObjectMetadataRemoved(when(START), CLUSTER, NAMESPACE, "data", "data"))
    gone.run(5.0)
    assert gone.grown == []
