"""Rules between pods are looked at within bounds: a tenant with more of them is told so, and nobody else waits for it."""

from typing import Any

import pytest

from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.nodes.scheduling import affinity_limits
from schemas.decisions.node_updates import ScaleRefused
from schemas.facts.scheduled_pods import (
    LabelDemand,
    LabelQuery,
    PodPlacementRemoved,
    PodShapeSeen,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.names import PodName
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, pod, shape

TERMS = 500
FULL = affinity_limits.MOST_RULES // TERMS


def apart(name: str, terms: int = TERMS, **more: Any) -> PodShapeSeen:
    """A shape whose pods keep away from pods that there are none of."""
    asked = tuple(RequiredPodAffinity("kubernetes.io/hostname", LabelQuery({"app": f"{name}-{n}"})) for n in range(terms))
    return shape(name, anti_affinity=asked, **more)


def waiting(name: str) -> list[Any]:
    return [controller(name), pod(f"{name}-1", name)]


def told(run: ScalerRun, name: str) -> list[str]:
    return [one.reason for one in run.of(ScaleRefused) if one.subject.name == name]


def test_shapes_beyond_the_bound_of_a_namespace_are_refused_and_all_others_get_nodes() -> None:
    run = ScalerRun(group("a"))
    names = [f"h{number}" for number in range(FULL + 2)]
    for name in names:
        run.step(apart(name), *waiting(name))
    run.step(shape("web"), *waiting("web"), apart("mild", terms=0), *waiting("mild"))
    run.run(15)
    [grown] = run.grown
    assert grown == ("a", 0, (FULL + 2 + 3) // 4)  # four pods of a core to a node, without the two
    refusals = [one for one in run.of(ScaleRefused) if one.code == "NoGroupFits"]
    assert sorted(one.subject.name for one in refusals) == names[-2:]
    assert all(one.example.startswith(f"shop/{one.subject.name}") for one in refusals)
    assert str(affinity_limits.MOST_RULES) in str(refusals[0].because["groups"])
    assert "namespace 'shop'" in str(refusals[0].because["groups"])


NOT_ME, ME = LabelQuery({}, (LabelDemand("app", "NotIn", ("me",)),)), LabelQuery({}, (LabelDemand("app", "In", ("me",)),))
MANY = LabelQuery({}, (LabelDemand("app", "In", tuple(f"a{n}" for n in range(20))),))


@pytest.mark.parametrize(
    ("term", "counts"),
    [
        (RequiredPodAffinity("zone", LabelQuery({"app": "me"})), 1),
        (RequiredPodAffinity("zone", ME), 1),
        (RequiredPodAffinity("zone", None), 1),  # means no pod
        (RequiredPodAffinity("zone", ME, ("a", "b")), 1),
        (RequiredPodAffinity("zone", ME, tuple(f"n{n}" for n in range(20))), affinity_limits.BROAD),
        (RequiredPodAffinity("zone", LabelQuery({"app": "me"}), tuple(f"n{n}" for n in range(20))), affinity_limits.BROAD),
        (RequiredPodAffinity("zone", ME, (), LabelQuery()), affinity_limits.BROAD),
        (RequiredPodAffinity("zone", MANY), affinity_limits.BROAD),
        (RequiredPodAffinity("zone", NOT_ME), affinity_limits.BROAD),
        (RequiredPodAffinity("zone", LabelQuery()), affinity_limits.BROAD),
    ],
)
def test_a_rule_that_may_mean_any_pod_counts_as_many(term: RequiredPodAffinity, counts: int) -> None:
    assert affinity_limits.rules(shape("x", affinity=(term,))) == counts
    assert affinity_limits.rules(shape("x", anti_affinity=(term, term))) == 2 * counts
    spread = (SpreadConstraint("zone", 1, NOT_ME), SpreadConstraint("zone", 1, ME))
    assert affinity_limits.rules(shape("x", spread=spread)) == affinity_limits.BROAD + 1


def test_beyond_the_bound_rules_that_mean_anybody_are_not_looked_at() -> None:
    run = ScalerRun(group("a"))
    names = [f"h{number}" for number in range(affinity_limits.MOST_RULES // affinity_limits.BROAD + 1)]
    for name in names:
        run.step(shape(name, anti_affinity=(RequiredPodAffinity("zone", NOT_ME),)), *waiting(name))
    index = run.stage.clusters.ready_index()
    refused = [name for name in names if "names no values of labels" in index.nature(f"{CLUSTER}/{name}").shape.refused]
    assert refused == names[-1:]


def test_another_namespace_has_a_bound_of_its_own() -> None:
    run = ScalerRun(group("a"))
    for number in range(FULL):
        run.step(apart(f"h{number}"))
    run.step(apart("other", namespace="calm"), *waiting("other"))
    run.run(15)
    assert run.grown == [("a", 0, 1)]


def test_a_refused_shape_is_looked_at_again_when_it_is_told_again_and_others_have_gone() -> None:
    run = ScalerRun(group("a"))
    names = [f"h{number}" for number in range(FULL + 1)]
    for name in names:
        run.step(apart(name), *waiting(name))
    gone = PodPlacementRemoved(when(START), CLUSTER, PodName("shop", "h0-1", "uid-h0-1"))
    run.step(gone)
    index = run.stage.clusters.ready_index()
    assert index.rules(CLUSTER, "shop") == TERMS * (FULL - 1)
    run.step(apart(names[-1]))
    index = run.stage.clusters.ready_index()
    assert index.rules(CLUSTER, "shop") == TERMS * FULL
    assert index.nature(f"{CLUSTER}/{names[-1]}").shape.refused == ""


def test_what_is_refused_is_known_after_a_resume() -> None:
    run = ScalerRun(group("a"))
    names = [f"h{number}" for number in range(FULL + 1)]
    for name in names:
        run.step(apart(name), *waiting(name))
    resumed = Scaler(ScalerSettings(), 0, lambda _cluster: True)
    for chunk in run.stage.chunks():
        resumed.load(chunk, run.stage.dump(chunk))
    one, two = (stage.clusters.ready_index().nature(f"{CLUSTER}/{names[-1]}").shape for stage in (run.stage, resumed))
    assert one.refused == two.refused != ""
    assert resumed.clusters.ready_index().rules(CLUSTER, "shop") == TERMS * FULL


def test_more_pods_than_one_decision_goes_through_are_served_by_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity_limits, "MOST_STEPS", 10 * 8)
    run = ScalerRun(group("a", most=100))
    run.step(apart("h", terms=10), controller("h"), *(pod(f"h-{number}", "h") for number in range(20)))
    run.run(3)
    assert run.grown == [("a", 0, 2)]  # eight pods of twenty
    assert [one.code for one in run.of(ScaleRefused) if one.code == "postponed"] == ["postponed"]
    plain = ScalerRun(group("a", most=100))
    plain.step(shape("web"), controller("web"), *(pod(f"w-{number}", "web") for number in range(20)))
    plain.run(3)
    assert plain.grown == [("a", 0, 5)]
