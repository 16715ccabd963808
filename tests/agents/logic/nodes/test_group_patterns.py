"""Nodes that come otherwise than was promised: each group learns from them, and says what was missing."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.logic.nodes.cluster import group_patterns
from agents.logic.nodes.cluster.fact_conversion import TransientTaints
from agents.logic.nodes.cluster.group_patterns import GroupPatterns
from agents.logic.nodes.cluster.scaler_table_values import KnownNode
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import NodeDetailsRemoved, NodeGroupSeen, NodeInstanceGone, NodeTaint, NodeTemplateSeen
from schemas.facts.scheduled_pods import ControllingOwner, PodPlacementRemoved
from schemas.names import Place, PodName
from schemas.outcomes import Result
from tests.support.cluster_events import GIB, START, when
from tests.support.node_cloud import Fault, NodeCloud
from tests.support.node_scene import CLUSTER, SIZE, ScalerRun, controller, group, instance, joined, node, pod, shape

QUICK = {"unneeded_time": 20.0, "delay_after_add": 0.0, "interval": 1.0}
GPU = "nvidia.com/gpu"
BIG = {"cpu": 8000, "memory": 32 * GIB, "pods": 110}
X = "x"


def grown(run: ScalerRun, fact: NodeGroupSeen, seconds: float, **node_is: Any) -> list[str]:
    """Let plans be carried out: nodes come that look as given, and go. The names of the nodes that came."""
    came: list[str] = []
    done: set[str] = set()
    end = run.now + int(seconds * 1000)
    pods: list[Event] = node_is.pop("pods", [])
    while run.now < end:
        run.step()
        for plan in [*run.of(ScaleUpPlanned), *run.of(NodeRemovalPlanned)]:
            if plan.id in done or plan.group != fact.group:
                continue
            done.add(plan.id)
            run.answer(plan, Result.DONE)
            if isinstance(plan, ScaleUpPlanned):
                new = [f"new{len(came) + 1 + number}" for number in range(plan.after - plan.before)]
                came += new
                fact = replace(fact, desired=plan.after)
                there = [
                    event
                    for name in new
                    for event in (instance(name, fact.group), node(name, fact.group, created=when(run.now), **node_is))
                ]
                own = [
                    replace(one, pod=PodName("shop", f"own-{name}", f"own-{name}"), node=name) if hasattr(one, "pod") else one
                    for name in new
                    for one in pods
                ]
                run.step(fact, *there, *own)
            else:
                fact = replace(fact, desired=fact.desired - 1)
                gone = (
                    [PodPlacementRemoved(when(run.now), CLUSTER, PodName("shop", f"own-{plan.node}", f"own-{plan.node}"))]
                    if pods
                    else []
                )
                run.step(
                    fact,
                    NodeInstanceGone(when(run.now), CLUSTER, plan.group, plan.instance),
                    NodeDetailsRemoved(when(run.now), CLUSTER, plan.node),
                    *gone,
                )
    return came


def said(run: ScalerRun) -> str:
    """The last sentence about pods that nobody can help."""
    return next(one.reason for one in reversed(run.of(ScaleRefused)) if one.code == "NoGroupFits")


STATIC = shape(
    "static", cpu=1000, annotations={"kubernetes.io/config.mirror": "mirror"}, owner=ControllingOwner("Node", "", "v1")
)
DAEMON = shape("agent", cpu=500, owner=ControllingOwner("DaemonSet", "agent", "apps/v1"))
PROMISED = NodeTemplateSeen({X: "y", "topology.kubernetes.io/zone": "zone-a"}, (), SIZE, SIZE)


@pytest.mark.parametrize(
    ("asks", "fact", "comes", "sentence"),
    [
        ({"node_selector": {X: "y"}}, group(template=PROMISED), {}, "group 'a': node 'new1' has no label 'x=y'"),
        (
            {"cpu": 3000},
            group(),
            {"allocatable": {**SIZE, "cpu": 2900}},
            "its 2900m of cpu are fewer than the 4000m that were expected",
        ),
        (
            {"cpu": 6000},
            group(template=NodeTemplateSeen({}, (), BIG, BIG)),
            {},
            "its 4000m of cpu are fewer than the 8000m that were expected",
        ),
        (
            {},
            group(),
            {"taints": (NodeTaint("team", "a", "NoSchedule"),)},
            "group 'a': node 'new1' has the taint 'team=a:NoSchedule'",
        ),
        (
            {"cpu": 3500},
            group(),
            {"pods": [STATIC, pod("s", "static", node="n")]},
            "node 'new1' has 4000m cpu, of which its own pods take 1000m",
        ),
        (
            {"cpu": 3700},
            group(),
            {"pods": [DAEMON, replace(controller("agent", 0), kind="DaemonSet"), pod("d", "agent", node="n")]},
            "node 'new1' has 4000m cpu, of which its own pods take 500m, and each of the pods asks for 3700m",
        ),
    ],
    ids=["label", "less than promised", "smaller type", "taint", "static pod", "DaemonSet"],
)
def test_growth_that_did_not_help_is_not_repeated_and_what_was_missing_is_said(
    asks: dict[str, Any], fact: NodeGroupSeen, comes: dict[str, Any], sentence: str
) -> None:
    run = ScalerRun(fact, shape(**asks), settings=QUICK)
    run.step(pod("p"))
    assert grown(run, fact, 150, **comes) == ["new1"]
    assert run.removed == ["new1"]
    assert sentence in said(run)


@pytest.mark.parametrize("profile", ["ullage", "upstream"])
def test_a_node_that_only_its_static_pod_uses_goes_once_and_no_further_one_comes_for_pods_that_fit_beside_none(
    profile: str,
) -> None:
    fact, settings = group(desired=1), {**QUICK, "profile": profile}
    run = ScalerRun(fact, shape(cpu=3500), *joined("n1"), STATIC, pod("own-n1", "static", node="n1"), settings=settings)
    run.step(pod("w0"), pod("w1"))
    assert grown(run, fact, 300, pods=[STATIC, pod("s", "static", node="n")]) == []
    assert run.removed == ["n1"]
    assert "of which its own pods take 1000m, and each of the pods asks for 3500m" in said(run)


def test_a_removal_that_nobody_carries_out_is_planned_again_only_once_it_has_run_out() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), settings=QUICK)
    run.run(3600.0)
    plans = run.of(NodeRemovalPlanned)
    assert len(plans) > 1
    assert all(before.expires <= after.at for before, after in pairwise(plans))


def test_a_group_is_tried_again_when_its_template_has_changed() -> None:
    fact = group(template=PROMISED)
    run = ScalerRun(fact, shape(node_selector={X: "y"}), settings=QUICK)
    run.step(pod("p"))
    assert grown(run, fact, 60) == ["new1"]
    run.step(replace(fact, launch_version="lt-1:2"))
    run.run(5)
    assert len(run.grown) == 2


def test_a_group_is_tried_again_when_its_nodes_come_from_a_new_version_of_its_launch_template() -> None:
    """A node of the old version is still there, and the cloud's description of the new one is believed once more."""
    fact = group(desired=1, launch_version="lt-1:1")
    old = replace(instance("n1"), launch_version="lt-1:1")
    run = ScalerRun(fact, old, node("n1"), shape(node_selector={X: "y"}), settings={**QUICK, "scale_down": False})
    run.step(pod("p"))
    run.run(5)
    assert run.grown == []
    run.step(replace(fact, launch_version="lt-1:2", template=PROMISED))
    run.run(5)
    assert run.grown == [("a", 1, 2)]


def test_a_small_node_is_the_pattern_of_a_mixed_group_also_once_it_is_gone() -> None:
    fact = group(desired=1, most=20, instance_types=("m5.xlarge", "m5.2xlarge"))
    old = [instance("n0"), node("n0", allocatable=BIG, capacity=BIG), controller(), pod("r", node="n0")]
    run = ScalerRun(fact, shape(cpu=6000), *old, settings=QUICK)
    run.step(pod("p"))
    assert grown(run, fact, 120) == ["new1"]


# Devices


def test_a_node_whose_device_is_not_there_yet_is_still_on_its_way() -> None:
    size = {**SIZE, GPU: 1}
    groups = [group(name, template=NodeTemplateSeen({}, (), size, size)) for name in ("g", "h")]
    run = ScalerRun(*groups, shape(requests={"cpu": 1000, GPU: 1}), settings=QUICK)
    run.step(pod("p"))
    run.run(60)
    [plan] = run.of(ScaleUpPlanned)
    run.answer(plan, Result.DONE)
    mine = next(one for one in groups if one.group == plan.group)
    run.step(replace(mine, desired=1), instance("new1", plan.group), node("new1", plan.group, created=when(run.now)))
    run.run(300)
    assert (len(run.grown), run.removed) == (1, [])


def test_a_node_beside_one_with_a_device_that_lacks_its_own_is_still_on_its_way() -> None:
    """Its driver takes five minutes; the pod has its node by then, and no further one came."""
    size = {**SIZE, GPU: 1}
    fact = group(template=NodeTemplateSeen({}, (), size, size), desired=1, most=20)
    old = [instance("old"), node("old", allocatable=size, capacity=size), pod("r", node="old"), controller()]
    run = ScalerRun(fact, shape(requests={"cpu": 1000, GPU: 1}), *old, settings=QUICK)
    run.step(pod("p", created=run.now))
    assert grown(run, fact, 300) == ["new1"]
    run.step(node("new1", created=when(run.now), allocatable=size, capacity=size), pod("p", node="new1"))
    run.run(120)
    assert (run.grown, run.removed) == ([("a", 1, 2)], [])


def test_a_device_that_never_comes_is_learned() -> None:
    size = {**SIZE, GPU: 1}
    fact = group(template=NodeTemplateSeen({}, (), size, size))
    run = ScalerRun(fact, shape(requests={"cpu": 1000, GPU: 1}), settings={**QUICK, "max_startup": 60.0})
    run.step(pod("p"))
    assert grown(run, fact, 300) == ["new1"]
    assert f"node 'new1' has 0 {GPU}, and each of the pods asks for 1" in said(run)


# A group that never had a node


def test_a_daemonset_without_pods_counts_where_its_object_is_known() -> None:
    """The small group's nodes would run the agent, which leaves no room; the large one is chosen at once."""
    agent = replace(controller("agent", 0), kind="DaemonSet", template=replace(DAEMON, node_selector={"group": "a"}))
    large = group("b", template=NodeTemplateSeen({}, (), BIG, BIG))
    run = ScalerRun(group("a"), large, agent, shape(cpu=3700), pod("p"))
    run.run(5)
    assert run.grown == [("b", 0, 1)]


def test_the_kube_proxy_of_a_new_node_counts() -> None:
    run = ScalerRun(group(), shape(cpu=4000), pod("p"))
    run.run(5)
    assert run.grown == []
    assert "a new node has 4000m cpu, of which its own pods take 100m" in said(run)


@pytest.mark.parametrize("zones", [("a", "b"), ("c", "a")])
def test_a_group_without_nodes_is_like_its_sisters_that_have_some(zones: tuple[str, ...]) -> None:
    """Its cloud knows neither what the system keeps of a node nor all labels; nodes of its type in other groups show it."""
    real = {"cpu": 3920, "memory": int(14.4 * GIB), "pods": 58, "ephemeral-storage": 80 * GIB, "hugepages-2Mi": 0}

    def labels(zone: str) -> dict[str, str]:
        return {
            "topology.kubernetes.io/zone": zone,
            "node.kubernetes.io/instance-type": "m5.xlarge",
            "kubernetes.io/arch": "amd64",
        }

    def of(name: str) -> NodeGroupSeen:
        empty = {"cpu": 4000, "memory": 16 * GIB, "pods": 110, GPU: 0}
        return group(name, desired=int(name in zones), template=NodeTemplateSeen(labels(name), (), empty, empty))

    def there(name: str) -> list[Event]:
        more = {
            "kubernetes.io/hostname": name,
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/instance-type": "m5.xlarge",
        }
        place = {"failure-domain.beta.kubernetes.io/zone": name, **labels(name)}
        return [instance(name, name), node(name, name, labels={**place, **more}, allocatable=real, capacity=real)]

    busy = [event for name in zones for event in (pod(f"r{name}", "busy", node=name),)]
    run = ScalerRun(
        *map(of, "abc"), *(event for name in zones for event in there(name)), shape("busy", cpu=3900), *busy, shape(cpu=3000)
    )
    run.step(*(pod(f"p{number}") for number in range(7)))
    run.run(5)
    assert sorted(after for _group, _before, after in run.grown) == [3, 3, 3]


def test_upstreams_profile_takes_the_first_node_by_name() -> None:
    old = [instance("n0"), node("n0", allocatable=BIG, capacity=BIG, created=when(0))]
    run = ScalerRun(
        group(desired=2),
        *old,
        *joined("n1"),
        shape(cpu=7000),
        controller(),
        pod("r", node="n0"),
        settings={"profile": "upstream"},
    )
    run.step(pod("p"))
    run.run(15)
    assert run.grown == [("a", 2, 3)]


@dataclass(frozen=True)
class Looks:
    """A node, as it was promised or as it is: what a pod that waits can tell it by."""

    cpu: int
    label: str | None
    tainted: bool = False
    own: int = 0

    def takes(self, cpu: int, label: str | None) -> bool:
        return self.cpu - self.own >= cpu and label in (None, self.label) and not self.tainted

    @property
    def size(self) -> dict[str, int]:
        return {**SIZE, "cpu": self.cpu}

    @property
    def labels(self) -> dict[str, str]:
        return {"topology.kubernetes.io/zone": "zone-a", **({X: self.label} if self.label else {})}


CPU, LABEL = st.sampled_from((2000, 4000, 8000)), st.sampled_from((None, "y", "z"))


@settings(max_examples=25)
@given(
    promised=st.builds(Looks, CPU, LABEL, own=st.just(100)),
    real=st.builds(Looks, CPU, LABEL, st.booleans(), st.sampled_from((0, 500, 1000))),
    cpu=st.sampled_from((500, 1500, 3500, 7500)),
    label=LABEL,
)
def test_in_any_world_a_new_node_is_believed_to_have_what_the_last_one_has_and_growth_in_vain_happens_once(
    promised: Looks, real: Looks, cpu: int, label: str | None
) -> None:
    template = NodeTemplateSeen(promised.labels, (), promised.size, promised.size)
    run = ScalerRun(group(template=template), shape(cpu=cpu, node_selector={X: label} if label else {}), pod("p"), settings=QUICK)
    taints = (NodeTaint("team", "a", "NoSchedule"),) if real.tainted else ()
    own = [replace(STATIC, requests={"cpu": real.own}), pod("s", "static", node="n")] if real.own else []
    looks = {"allocatable": real.size, "capacity": real.size, "taints": taints, "labels": real.labels}
    came = grown(run, group(template=template), 150, pods=own, **looks)
    assert came == (["new1"] if promised.takes(cpu, label) else [])
    if not came:
        return
    state = run.stage.clusters
    [fact] = [known.fact for known in state.groups.values()]
    pattern = state.patterns.get(f"{CLUSTER}/a")
    assert pattern is not None
    believed = GroupPatterns({"a": pattern}, (), TransientTaints(), controllers=frozenset()).of(fact)
    assert believed is not None
    assert (dict(believed.node.allocatable), dict(believed.node.labels).get(X)) == (real.size, real.label)
    assert ([one.key for one in believed.node.taints] == ["team"]) is real.tainted
    assert sum(one.request("cpu") for one in believed.pods) == real.own
    if not real.takes(cpu, label):
        assert "node 'new1'" in said(run)


NOTICE = "aws-node-termination-handler/spot-itn"


@pytest.mark.parametrize(
    ("late", "changed"),
    [
        (0.0, {"taints": (NodeTaint(NOTICE, "x", "NoSchedule"),)}),
        (60.0, {"taints": (NodeTaint("example.com/maintenance", "", "NoSchedule"),)}),
        (60.0, {"labels": {X: "2"}}),
        (60.0, {"labels": {}}),
        (60.0, {"allocatable": {**BIG, "cpu": 1000}}),
    ],
)
@pytest.mark.parametrize("serves", [True, False])
def test_what_the_last_node_of_a_group_got_or_lost_when_it_had_served_keeps_the_group_from_nothing(
    late: float, changed: dict[str, Any], *, serves: bool
) -> None:
    """aws-node-termination-handler#648, autoscaler#6452: a group whose last node somebody had tainted never grew again."""
    sound: dict[str, Any] = {"labels": {X: "1"}, "allocatable": BIG}
    run = ScalerRun(shape("web", cpu=2000, node_selector={X: "1"}), controller("web"), settings={"delay_after_add": 0.0})
    fact = group("a", desired=1, least=1)
    created = when(run.now)
    run.step(fact, instance("a-1", "a"), node("a-1", "a", created=created, **sound))
    run.step(*([pod("first", "web", node="a-1")] if serves else []))
    run.run(late if serves else late and 901.0)
    run.step(node("a-1", "a", created=created, **{**sound, **changed}))
    run.run(30.0)
    run.step(PodPlacementRemoved(when(run.now), CLUSTER, pod("first").pod))
    run.step(replace(fact, desired=0), NodeInstanceGone(when(run.now), CLUSTER, "a", "a-1"))
    run.step(
        NodeDetailsRemoved(when(run.now), CLUSTER, "a-1"), shape("web", cpu=2000, node_selector={X: "1"}), pod("next", "web")
    )
    run.run(60.0)
    assert run.grown == [("a", 0, 1)]


def vain_growth(fault: Fault, hours: int, *, mended: int | None = None) -> tuple[list[float], NodeCloud]:
    """The hours at which a group grows whose nodes come with a fault, until it is mended."""
    selector = {"group": "a"} if fault is Fault.NO_LABELS else {}
    run = ScalerRun(shape("a", cpu=3500, node_selector=selector), controller("a"), tick=60_000)
    cloud = NodeCloud(run, group("a"))
    cloud.breaks("a", fault, 1)
    cloud.wait("a", "pod", only="a")
    for hour in range(hours):
        if hour == mended:
            cloud.companies["a"].fault = Fault.NONE
        cloud.go(3600)
    grown = [(plan.at - when(START)).total_seconds() / 3600 for plan in run.of(ScaleUpPlanned)]
    return grown, cloud


@pytest.mark.parametrize("fault", [Fault.NO_LABELS, Fault.TAINTED])
def test_a_group_whose_nodes_came_bad_and_would_come_sound_is_tried_again(fault: Fault) -> None:
    grown, cloud = vain_growth(fault, 8, mended=1)
    assert len(grown) == 2
    assert 6 <= grown[1] < 7
    assert not cloud.waiting


@pytest.mark.parametrize("fault", [Fault.NO_LABELS, Fault.TAINTED])
def test_a_group_whose_nodes_always_come_bad_is_tried_after_pauses_that_double_up_to_a_day(fault: Fault) -> None:
    grown, cloud = vain_growth(fault, 100)
    pauses = [later - sooner for sooner, later in pairwise(grown)]
    assert [round(pause) for pause in pauses] == [6, 12, 24, 24, 24]
    assert cloud.waiting


def test_a_group_that_is_tried_again_keeps_what_tells_its_nodes_apart() -> None:
    """A template names one zone; the last node came into another, and without the label `pool`."""
    zone = "topology.kubernetes.io/zone"
    template = NodeTemplateSeen({zone: "zone-a", "pool": "x"}, (), BIG, BIG)
    fact = group("a", template=template)
    came = node("a-1", "a", labels={zone: "zone-b"}, allocatable=BIG, taints=(NodeTaint("team", "a", "NoSchedule"),))
    [pattern] = [group_patterns.learn(fact, None, (KnownNode(came, Place("node-changes", 0, 1)), instance("a-1", "a")), ())]
    assert pattern is not None
    later = times.to_seconds(came.created) + 6 * 3600.0
    assert not group_patterns.trusting(pattern, later - 1.0).trusted
    believed = GroupPatterns({"a": group_patterns.trusting(pattern, later)}, (), TransientTaints(), controllers=frozenset())
    template_again = believed.of(fact)
    assert template_again is not None
    assert dict(template_again.node.labels).items() >= {zone: "zone-b", "pool": "x"}.items()
    assert not template_again.node.taints
