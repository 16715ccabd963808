"""What holds of the cluster in columns whatever happens: nothing over capacity, counts kept up, steps taken back, bounds kept."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.nodes.growth import expanders, node_estimator
from agents.logic.nodes.growth.node_estimator import EstimatorLimits, GroupTemplate, PodGroup
from agents.logic.nodes.removal.drain_rules import DisruptionBudget, DisruptionBudgets
from agents.logic.nodes.scheduling import placement, placement_rules, scheduler_filters
from agents.logic.nodes.scheduling.pod_shapes import (
    ZONE,
    AffinityTerm,
    Audience,
    HostPort,
    NodeTerm,
    PodNature,
    PodShape,
    SchedulablePod,
    SchedulingNode,
    TopologySpread,
    Volume,
)
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.scheduling_selectors import EVERYTHING, equals, requirement
from schemas import exact_quantity
from schemas.well_known_labels import HOSTNAME

HERE = frozenset(("default",))


def a_node(name: str, cpu: int = 1000, pods: int = 10, zone: str = "a", **attachable: int) -> SchedulingNode:
    offered = {"cpu": cpu, "memory": 2**30, "pods": pods}
    return SchedulingNode(name, ((HOSTNAME, name), (ZONE, zone)), allocatable=offered, capacity=offered, attachable=attachable)


apps = st.sampled_from(["x", "y"])
keys = st.sampled_from([HOSTNAME, ZONE, "rack"])
terms = st.builds(lambda app, key: AffinityTerm(Audience(equals({"app": app}), HERE), key), apps, keys)
spreads = st.builds(lambda app, key, skew: TopologySpread(key, skew, equals({"app": app})), apps, keys, st.integers(1, 2))


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    return PodShape(
        labels=(("app", draw(apps)),),
        requests=(("cpu", draw(st.integers(1, 600))),),
        ports=tuple(HostPort(one) for one in draw(st.sets(st.sampled_from([80, 81]), max_size=1))),
        affinity=tuple(draw(st.lists(terms, max_size=1))),
        anti_affinity=tuple(draw(st.lists(terms, max_size=1))),
        spread=tuple(draw(st.lists(spreads, max_size=1))),
    )


@st.composite
def clusters(draw: st.DrawFn) -> ScheduledCluster:
    cluster = ScheduledCluster()
    for number in range(draw(st.integers(1, 6))):
        cluster.add(a_node(f"n{number}", draw(st.integers(100, 2000)), draw(st.integers(1, 6)), draw(st.sampled_from("ab"))))
    return cluster


def seen(cluster: ScheduledCluster, bodies: list[PodShape]) -> list[list[bool]]:
    """What the filters say of each shape, by a cluster that has counted nothing before."""
    fresh = ScheduledCluster()
    fresh.add_all(cluster.columns.nodes)
    for number, body in enumerate(cluster.shapes):
        for row, count in cluster.on[number].items():
            fresh.place(fresh.shape(body), row, count)
    return [scheduler_filters.passes(fresh, fresh.shape(body)).tolist() for body in bodies]


@given(clusters(), st.lists(shapes(), min_size=1, max_size=8))
def test_counts_that_are_kept_up_say_the_same_as_counting_again(cluster: ScheduledCluster, bodies: list[PodShape]) -> None:
    for body in bodies:
        placement.fill(cluster, cluster.shape(body), 2)
        assert [scheduler_filters.passes(cluster, cluster.shape(one)).tolist() for one in bodies] == seen(cluster, bodies)


@given(clusters(), st.lists(shapes(), min_size=1, max_size=8))
def test_taking_back_leaves_everything_as_it_was(cluster: ScheduledCluster, bodies: list[PodShape]) -> None:
    numbers = [cluster.shape(body) for body in bodies]
    placement.schedule(cluster, numbers[::2])
    before = [scheduler_filters.passes(cluster, number).tolist() for number in numbers]
    free, mark = cluster.free[: cluster.size].copy(), cluster.mark()
    cluster.add(a_node("more", zone="c"))
    placement.schedule(cluster, numbers[::-1])
    cluster.revert(mark)
    assert np.array_equal(cluster.free[: cluster.size], free)
    assert [scheduler_filters.passes(cluster, number).tolist() for number in numbers] == before


@given(clusters(), st.lists(shapes(), min_size=1, max_size=12))
def test_no_node_takes_more_than_it_has_and_no_pod_is_lost(cluster: ScheduledCluster, bodies: list[PodShape]) -> None:
    rows = placement.schedule(cluster, [cluster.shape(body) for body in bodies])
    assert (cluster.free[: cluster.size] >= 0).all()
    assert sum(sum(on.values()) for on in cluster.on) == int((rows != placement.NOWHERE).sum())


@given(clusters(), st.integers(1, 40), st.booleans())
def test_pods_together_and_one_by_one_leave_the_same_room(cluster: ScheduledCluster, pods: int, scattered: bool) -> None:
    plain = PodShape(requests=(("cpu", 90),))
    way = placement.Scatter() if scattered else None
    together = int(placement.fill(cluster, cluster.shape(plain), pods, None, way)[1].sum())
    alone = ScheduledCluster()
    alone.add_all(cluster.columns.nodes)
    singly = sum(len(placement.fill(alone, alone.shape(plain), 1)[0]) for _pod in range(pods))
    assert together == singly


@given(clusters(), st.lists(st.tuples(shapes(), st.integers(1, 20)), min_size=1, max_size=4), st.integers(0, 5))
def test_an_estimate_keeps_its_limits_and_the_cluster(
    cluster: ScheduledCluster, wanted: list[tuple[PodShape, int]], most: int
) -> None:
    groups = [PodGroup(body, count) for body, count in wanted]
    before = cluster.free[: cluster.size].copy()
    found = node_estimator.estimate(cluster, GroupTemplate(a_node("t")), groups, EstimatorLimits((most,)))
    assert all(placed <= group.count for placed, group in zip(found.placed, groups, strict=True))
    assert found.nodes <= (most or 10_000) + cluster.size
    assert np.array_equal(cluster.free[: cluster.size], before)


def test_a_zone_that_was_only_assumed_no_longer_counts_as_empty() -> None:
    cluster = ScheduledCluster()
    cluster.add(a_node("n1", zone="a"))
    pod = cluster.shape(PodShape(labels=(("app", "x"),), spread=(TopologySpread(ZONE, 1, equals({"app": "x"})),)))
    cluster.place(pod, 0)
    assert scheduler_filters.passes(cluster, pod).tolist() == [True]
    mark = cluster.mark()
    cluster.add(a_node("n2", zone="b"))
    assert scheduler_filters.passes(cluster, pod).tolist() == [False, True], "zone b has none yet"
    cluster.revert(mark)
    assert scheduler_filters.passes(cluster, pod).tolist() == [True]


# Volumes


def test_a_volume_of_one_zone_keeps_its_pod_there() -> None:
    cluster = ScheduledCluster()
    cluster.add_all([a_node("n1", zone="a"), a_node("n2", zone="b")])
    term = NodeTerm((requirement(ZONE, "In", ("b",)),))
    pod = cluster.shape(PodShape(volumes=(Volume("ebs", "v1", (term,)),)))
    assert scheduler_filters.passes(cluster, pod).tolist() == [False, True]
    verdict = scheduler_filters.explain(cluster, pod)[0]
    assert verdict is not None
    assert verdict.plugin == "VolumeBinding"


def test_a_node_attaches_no_more_volumes_than_it_can_and_a_shared_one_only_once() -> None:
    cluster = ScheduledCluster()
    cluster.add(a_node("n1", ebs=1))
    first, second = (cluster.shape(PodShape(volumes=(Volume("ebs", name),))) for name in ("v1", "v2"))
    assert scheduler_filters.passes(cluster, second).tolist() == [True]
    cluster.place(first, 0)
    assert scheduler_filters.passes(cluster, second).tolist() == [False]
    assert scheduler_filters.passes(cluster, first).tolist() == [True], "v1 is attached already"
    cluster.place(first, 0, -1)
    assert scheduler_filters.passes(cluster, second).tolist() == [True]


def test_a_volume_for_one_pod_has_one_user_in_the_whole_cluster() -> None:
    cluster = ScheduledCluster()
    cluster.add_all([a_node("n1"), a_node("n2")])
    pod = cluster.shape(PodShape(volumes=(Volume("ebs", "v1", exclusive=True),)))
    assert placement.schedule(cluster, [pod, pod]).tolist() == [0, placement.NOWHERE]


# Hostile objects

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
words = st.sampled_from(
    (
        *("nodeAffinity", "podAffinity", "labelSelector", "matchLabels", "matchExpressions", "key", "operator", "values"),
        *(
            "topologyKey",
            placement_rules.REQUIRED,
            "nodeSelectorTerms",
            "matchFields",
            "namespaces",
            "maxSkew",
            "In",
            "metadata.name",
        ),
    )
)
objects = st.recursive(json | words, lambda i: st.lists(i, max_size=3) | st.dictionaries(words, i, max_size=4), max_leaves=20)


@given(objects)
def test_whatever_an_object_says_it_is_read_or_refused_in_words(thing: Any) -> None:
    whose = placement_rules.RuleOwner("default", {})
    readers = (
        placement_rules.selector,
        placement_rules.tolerations,
        placement_rules.ports,
        placement_rules.node_terms,
        lambda one: placement_rules.pod_terms(one, "podAffinity", whose),
        lambda one: placement_rules.spread(one, whose),
    )
    for read in readers:
        with contextlib.suppress(placement_rules.Unreadable):
            read(thing)


@given(
    st.text(max_size=40) | st.from_regex(r"[+-]?[0-9]{0,20}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,9}|[numkMGTPE]i?)?", fullmatch=True)
)
def test_a_quantity_is_read_or_refused_and_never_too_large(text: str) -> None:
    try:
        found = exact_quantity.parse(text)
    except exact_quantity.NotAQuantityError:
        return
    assert -exact_quantity.MOST - 1 <= found.whole <= exact_quantity.MOST


def test_a_pod_with_too_many_terms_is_refused_and_fits_nowhere() -> None:
    term = {"labelSelector": {}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {placement_rules.REQUIRED: [term] * (placement_rules.MOST_TERMS + 1)}}
    with pytest.raises(placement_rules.Unreadable, match="513 entries"):
        placement_rules.pod_terms(affinity, "podAntiAffinity", placement_rules.RuleOwner("default", {}))
    cluster = ScheduledCluster()
    cluster.add(a_node("n1"))
    pod = cluster.shape(PodShape(refused="513 entries"))
    assert not scheduler_filters.passes(cluster, pod).any()
    verdict = scheduler_filters.explain(cluster, pod)[0]
    assert verdict is not None
    assert verdict.reasons == ("513 entries",)


def test_absurd_amounts_are_cut_and_do_not_overflow() -> None:
    cluster = ScheduledCluster()
    cluster.add(SchedulingNode("n1", allocatable={"cpu": 2**62, "memory": 2**62, "pods": 2**40}))
    pod = cluster.shape(PodShape(requests=(("cpu", 2**62), ("memory", 1))))
    rows, takes = placement.fill(cluster, pod, 5)
    assert (rows.tolist(), takes.tolist()) == ([0], [1])
    assert (cluster.free >= 0).all()


def test_ten_thousand_budgets_are_asked_for_a_thousand_pods() -> None:
    budgets = DisruptionBudgets([DisruptionBudget(f"b{i}", f"ns{i % 100}", equals({"app": str(i)}), 1) for i in range(10_000)])
    pods = [
        SchedulablePod(f"p{i}", PodNature(PodShape(namespace=f"ns{i % 100}", labels=(("app", str(i)),)))) for i in range(1000)
    ]
    assert budgets.allow_at_once(pods)


def test_of_a_namespace_with_more_budgets_than_are_read_no_pod_goes_and_no_other_namespace_minds() -> None:
    many = [DisruptionBudget(f"b{i}", "hostile", equals({"app": str(i)}), 9) for i in range(1001)]
    budgets = DisruptionBudgets(
        [*many, DisruptionBudget("b", "shop", EVERYTHING, 1), DisruptionBudget("b", "late", EVERYTHING, 0)]
    )
    spent = {name: budgets.exhausted(PodNature(PodShape(namespace=name))) for name in ("hostile", "shop", "late", "other")}
    assert spent == {"hostile": True, "shop": False, "late": True, "other": False}
    assert not DisruptionBudgets(many[:1000]).exhausted(PodNature(PodShape(namespace="hostile")))


def test_pods_with_five_hundred_terms_are_placed_within_bounds() -> None:
    cluster = ScheduledCluster()
    cluster.add_all([a_node(f"n{i}") for i in range(100)])
    terms = tuple(AffinityTerm(Audience(equals({"app": str(i)}), HERE), HOSTNAME) for i in range(500))
    pod = cluster.shape(PodShape(labels=(("app", "7"),), anti_affinity=terms))
    rows, _takes = placement.fill(cluster, pod, 20)
    assert len(rows) == 20


@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", "(a|a)*b", "(?!x)a", r"(a)\1", "[", "x" * 513, "(.*)*", "(?=a)"),
        *("a{4294967295}", "[a-z]?" * 22 + "!", "[a-z]{0,9}" * 9 + "!", "(a|a)" * 22 + "!", "[a-z]*[a-z]*[a-z]*!"),
    ],
)
def test_a_pattern_that_go_does_not_take_or_that_may_never_end_is_refused(text: str) -> None:
    with pytest.raises(expanders.PrioritiesError):
        expanders.pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        r".*t2\.large.*",
        "^large$",
        "(small|large)-[0-9]+",
        "(?i)LARGE",
        "[(]+x",
        r"a\(b\)+",
        ".*a.*b.*",
        "(?P<size>large|small)-.+?-x",
    ],
)
def test_an_ordinary_pattern_is_taken(text: str) -> None:
    assert expanders.pattern(text).pattern == text
