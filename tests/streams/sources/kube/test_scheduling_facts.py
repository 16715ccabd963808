"""What node scaling needs of a cluster: shapes told once, placements, nodes, budgets, controllers; and only if wanted."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import msgspec
import pytest

from schemas.facts.nodes import NodeDetailsChanged, NodeDetailsRemoved, NodeTaint
from schemas.facts.scheduled_pods import (
    AttachedVolume,
    ControllingOwner,
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodPlacementChanged,
    PodPlacementRemoved,
    PodShapeSeen,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.facts.update_facts import (
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
)
from schemas.well_known_labels import DO_NOT_DISRUPT, SAFE_TO_EVICT
from streams.clients.kube.scheduling_objects import (
    DaemonSetObject,
    DetailedNodeObject,
    DisruptionBudgetObject,
    ScheduledContainer,
    ScheduledPodObject,
)
from streams.clients.kube.watched_objects import ControllerObject
from streams.sources.kube.publish import scheduling_facts, scheduling_publisher
from streams.sources.kube.publish.scheduling_publisher import RememberedShapes
from tests.support.kube_objects import MINUTE, START, controller, decoded, meta, owner
from tests.support.kube_scene import KubeScene

REPLICA_SET = owner("ReplicaSet", "web-7f")
ZONE = "topology.kubernetes.io/zone"


def pod(name: str, *owners: Mapping[str, object], status: Mapping[str, object] | None = None, **more: Any) -> ScheduledPodObject:
    """A pod that waits, unless its spec names a node; `more` goes into its spec."""
    container = {"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    whole = {
        "metadata": meta(name, *owners, labels=more.pop("labels", {"app": "web"}), annotations=more.pop("annotations", {})),
        "spec": {"containers": [container], **more},
        "status": status or {"phase": "Pending", "conditions": [waits]},
    }
    return decoded(ScheduledPodObject, whole)


def node(name: str, **spec: object) -> DetailedNodeObject:
    status = {
        "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    taints = [{"key": "spot", "value": "true", "effect": "NoSchedule", "timeAdded": "2026-03-01T00:00:00Z"}]
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"providerID": f"aws:///z/{name}", "taints": taints, **spec},
    }
    return decoded(DetailedNodeObject, {**body, "status": status})


def budget(name: str, allowed: int) -> DisruptionBudgetObject:
    status = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    return decoded(
        DisruptionBudgetObject, {"metadata": meta(name), "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": status}
    )


def replica_set(name: str, replicas: int) -> ControllerObject:
    return decoded(ControllerObject, {"metadata": meta(name), "spec": {"replicas": replicas}})


def facts(scene: KubeScene) -> list[Any]:
    return list(scene.events("scheduling-changes"))


def listed(*pods: ScheduledPodObject) -> KubeScene:
    scene = KubeScene(nodes=True)
    scene.see("pods", *pods)
    scene.sync()
    return scene


def test_a_shape_is_told_once_and_cited_by_every_pod_that_has_it() -> None:
    scene = listed(*(pod(f"web-{number}", REPLICA_SET) for number in range(3)))
    shapes = [one for one in facts(scene) if isinstance(one, PodShapeSeen)]
    placed = [one for one in facts(scene) if isinstance(one, PodPlacementChanged)]
    [shape] = shapes
    assert isinstance(facts(scene)[0], PodShapeSeen)
    assert shape.requests == {"cpu": 250, "memory": 64 << 20}
    assert [(one.pod.name, one.shape, one.unschedulable) for one in placed] == [
        (f"web-{number}", shape.shape, "Unschedulable") for number in range(3)
    ]


def test_a_shape_goes_with_its_last_pod_and_is_told_again_for_the_next() -> None:
    scene = listed(pod("web-1", REPLICA_SET))
    scene.lose("pods", pod("web-1", REPLICA_SET))
    scene.see("pods", pod("web-2", REPLICA_SET))
    kinds = [type(one) for one in facts(scene)]
    assert kinds == [PodShapeSeen, PodPlacementChanged, PodPlacementRemoved, PodShapeSeen, PodPlacementChanged]


def test_a_restart_tells_nothing_again_but_what_changed_or_is_gone() -> None:
    scene = listed(pod("web-1", REPLICA_SET), pod("web-2", REPLICA_SET))
    scene.see("nodes", node("n1"))
    scene.see("poddisruptionbudgets", budget("web", 1))
    before = len(facts(scene))
    scene.restart()
    scene.see("pods", pod("web-1", REPLICA_SET), pod("web-3", REPLICA_SET))
    scene.see("nodes", node("n1"))
    scene.see("poddisruptionbudgets", budget("web", 0))
    scene.sync()
    new = facts(scene)[before:]
    assert [(type(one), getattr(getattr(one, "pod", None), "name", "")) for one in new] == [
        (PodPlacementChanged, "web-3"),
        (PodDisruptionBudgetChanged, ""),
        (PodPlacementRemoved, "web-2"),
    ]


def test_a_shape_whose_pods_vanished_during_a_restart_is_told_again() -> None:
    scene = listed(pod("web-1", REPLICA_SET))
    scene.restart()
    scene.sync()
    scene.see("pods", pod("web-2", REPLICA_SET))
    assert [type(one) for one in facts(scene)][2:] == [PodPlacementRemoved, PodShapeSeen, PodPlacementChanged]


def test_a_pod_that_is_finished_takes_nothing_any_more() -> None:
    scene = listed(pod("job-1", owner("Job", "job", "batch/v1")))
    scene.see("pods", pod("job-1", owner("Job", "job", "batch/v1"), status={"phase": "Succeeded"}))
    assert isinstance(facts(scene)[-1], PodPlacementRemoved)


def test_the_pods_of_a_daemonset_share_a_shape_and_say_which_node_is_theirs() -> None:
    def daemon(name: str, of: str) -> ScheduledPodObject:
        field = {"key": "metadata.name", "operator": "In", "values": [of]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
        return pod(name, owner("DaemonSet", "agent"), affinity={"nodeAffinity": required})

    scene = listed(daemon("agent-1", "n1"), daemon("agent-2", "n2"))
    [shape] = [one for one in facts(scene) if isinstance(one, PodShapeSeen)]
    assert shape.node_terms is None
    assert [one.pinned for one in facts(scene) if isinstance(one, PodPlacementChanged)] == ["n1", "n2"]


def test_a_daemonset_tells_the_shape_of_its_pods_before_there_are_any() -> None:
    container = {"name": "agent", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container], "nodeSelector": {"group": "a"}}}
    body = {"metadata": {**meta("agent"), "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"template": template}}
    scene = listed()
    for minute in range(2):
        scene.see(
            "daemonsets", msgspec.convert({**body, "status": {"observedGeneration": minute}}, DaemonSetObject, strict=False)
        )
    [fact] = [one for one in facts(scene) if isinstance(one, ReplicaControllerChanged)]
    assert fact.template is not None
    assert (fact.kind, fact.template.requests, fact.template.node_selector) == (
        "DaemonSet",
        {"cpu": 500, "memory": 1 << 30},
        {"group": "a"},
    )
    assert fact.template.owner == ControllingOwner("DaemonSet", "agent", "apps/v1")


def test_annotations_that_keep_a_pod_where_it_is_are_told_whoever_they_are_from() -> None:
    kept = {DO_NOT_DISRUPT: "true", SAFE_TO_EVICT: "false"}
    scene = listed(pod("web-1", REPLICA_SET, annotations={**kept, "team": "shop"}))
    assert [one.annotations for one in facts(scene) if isinstance(one, PodShapeSeen)] == [kept]


def test_labels_that_tell_the_pods_of_a_set_apart_make_no_shapes() -> None:
    names = [f"db-{number}" for number in range(3)]
    label = "statefulset.kubernetes.io/pod-name"
    scene = listed(*(pod(name, owner("StatefulSet", "db"), labels={"app": "db", label: name}) for name in names))
    assert [one.labels for one in facts(scene) if isinstance(one, PodShapeSeen)] == [{"app": "db"}]


def test_affinity_spread_ports_and_local_volumes_are_told_in_kubernetes_words() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found = scheduling_facts.shape(
        pod(
            "web",
            affinity={"nodeAffinity": {required: {"nodeSelectorTerms": [zone]}}, "podAntiAffinity": {required: [term]}},
            topologySpreadConstraints=[{"topologyKey": ZONE, "maxSkew": 2, "labelSelector": {}, "matchLabelKeys": ["app"]}],
            volumes=[
                {"name": "b", "emptyDir": {}},
                {"name": "a", "hostPath": {"path": "/x"}},
                {"name": "m", "emptyDir": {"medium": "Memory"}},
            ],
            priority=100,
            terminationGracePeriodSeconds=5,
            annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "other": "x"},
        ),
        "real",
        START,
    )
    assert found.node_terms == (NodeQuery((LabelDemand(ZONE, "In", ("a",)),)),)
    assert found.anti_affinity == (RequiredPodAffinity(ZONE, LabelQuery({"app": "web"})),)
    assert found.spread == (SpreadConstraint(ZONE, 2, LabelQuery({"app": "web"})),)
    assert (found.local, found.priority, found.grace) == (("a", "b"), 100, 5.0)
    assert found.annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def test_a_resize_that_runs_counts_with_the_most_of_what_is_wanted_and_had() -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "app", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "400m", "memory": "64Mi"}}
        ],
    }
    assert scheduling_facts.requests(pod("web", nodeName="n1", status=status)) == {"cpu": 500, "memory": 64 << 20}


def test_a_node_is_told_with_what_it_offers_and_whom_it_keeps_away() -> None:
    scene = listed()
    scene.see("nodes", node("n1"))
    [fact] = [one for one in facts(scene) if isinstance(one, NodeDetailsChanged)]
    assert (fact.provider_id, fact.taints) == ("aws:///z/n1", (NodeTaint("spot", "true", "NoSchedule"),))
    assert (fact.allocatable["cpu"], fact.capacity["cpu"], fact.conditions) == (3920, 4000, {"Ready": "True"})
    scene.lose("nodes", node("n1"))
    assert isinstance(facts(scene)[-1], NodeDetailsRemoved)


def test_controllers_that_want_no_pods_are_not_told() -> None:
    scene = listed()
    scene.see("replicasets", replica_set("web-1", 3), replica_set("web-0", 0))
    scene.see("replicasets", replica_set("web-1", 0))
    told = [(type(one), one.name) for one in facts(scene)]
    assert told == [(ReplicaControllerChanged, "web-1"), (ReplicaControllerRemoved, "web-1")]


def test_a_controller_that_is_gone_is_withdrawn_at_once_whatever_its_kind() -> None:
    scene = listed()
    kinds = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "jobs": "Job"}
    for kind in kinds:
        scene.see(kind, replica_set("web-1", 3))
        scene.lose(kind, replica_set("web-1", 3))
    told = [(type(one), one.kind) for one in facts(scene)]
    assert told == [(kind, name) for name in kinds.values() for kind in (ReplicaControllerChanged, ReplicaControllerRemoved)]


def test_a_controller_is_told_with_the_one_that_controls_it() -> None:
    scene = listed()
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")), controller("bare"))
    told = {one.name: one.owner for one in facts(scene) if isinstance(one, ReplicaControllerChanged)}
    assert told == {"web-1": ControllingOwner("Deployment", "web", "apps/v1"), "bare": None}


def test_a_budget_is_told_with_what_it_allows_and_when_it_is_gone() -> None:
    scene = listed()
    scene.see("poddisruptionbudgets", budget("web", 1))
    scene.lose("poddisruptionbudgets", budget("web", 1))
    changed, removed = facts(scene)
    assert (changed.allowed, changed.selector) == (1, LabelQuery({"app": "web"}))
    assert isinstance(removed, PodDisruptionBudgetRemoved)


def test_a_budget_is_told_with_whether_it_lets_unready_pods_go() -> None:
    scene = listed()
    told = []
    for policy in (None, "IfHealthyBudget", "AlwaysAllow"):
        spec = {"selector": {}, "unhealthyPodEvictionPolicy": policy}
        scene.see("poddisruptionbudgets", decoded(DisruptionBudgetObject, {"metadata": meta(f"b-{policy}"), "spec": spec}))
        told.append(facts(scene)[-1].unready_go)
    assert told == [False, False, True]


def test_the_topic_is_vouched_for_only_when_all_of_it_is_in_sight() -> None:
    scene = KubeScene(nodes=True)
    scene.sync(*(kind for kind in ("pods", "nodes", "limitranges", "events", "verticalpodautoscalers", "replicasets")))
    assert "scheduling-changes" not in scene.reports()[-1].sees
    scene.sync()
    scene.later(MINUTE)
    assert "scheduling-changes" in scene.reports()[-1].sees


def test_nothing_of_this_is_told_or_vouched_for_unless_it_is_wanted() -> None:
    scene = KubeScene()
    scene.see("replicasets", controller("web-7f"))
    scene.sync()
    scene.later(MINUTE)
    assert facts(scene) == []
    assert "scheduling-changes" not in scene.reports()[-1].sees


@pytest.mark.parametrize("text", ["1x", "", "9" * 70])
def test_a_bad_quantity_is_refused_with_a_quotation(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity of cpu"):
        scheduling_facts.amounts({"cpu": text})


def test_the_node_where_the_scheduler_makes_room_is_told_until_the_pod_is_there() -> None:
    waits = {"phase": "Pending", "nominatedNodeName": "n1"}
    found = scheduling_facts.placement(pod("web-1", REPLICA_SET, status=waits), "s", "prod", START)
    assert found is not None
    assert (found.nominated, found.node) == ("n1", None)
    bound = scheduling_facts.placement(pod("web-1", REPLICA_SET, status=waits, nodeName="n1"), "s", "prod", START)
    assert bound is not None
    assert (bound.nominated, bound.node) == ("", "n1")


def test_the_words_of_the_scheduler_about_a_pod_are_told_until_it_has_a_node() -> None:
    said = "0/3 nodes are available: 3 Insufficient cpu." + "x" * 600
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    status = {"phase": "Pending", "conditions": [condition]}
    waits = scheduling_facts.placement(pod("web-1", REPLICA_SET, status=status), "s", "prod", START)
    bound = scheduling_facts.placement(pod("web-1", REPLICA_SET, status=status, nodeName="n1"), "s", "prod", START)
    assert waits is not None
    assert bound is not None
    assert (waits.message, bound.message) == (said[:500], "")


def test_claims_on_devices_are_told_as_not_understood() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}, {"name": "nic", "resourceClaimName": "x"}]
    found = scheduling_facts.shape(pod("train", resourceClaims=claims), "real", START)
    assert found.unread == ("its resource claims 'gpu', 'nic' (dynamic resource allocation)",)


def test_ports_of_init_containers_are_taken_by_sidecars_alone() -> None:
    def init(port: int, **more: Any) -> dict[str, Any]:
        return {"name": f"i{port}", "ports": [{"containerPort": port, "hostPort": port}], **more}

    found = scheduling_facts.shape(pod("web", initContainers=[init(81), init(82, restartPolicy="Always")]), "real", START)
    assert [port.port for port in found.ports] == [82]


def running(**container: object) -> dict[str, object]:
    return {"phase": "Running", "containerStatuses": [{"name": "app", "ready": True, **container}]}


HAS = {"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
MORE = {"resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
STATUSES: list[dict[str, object] | None] = [
    None,
    running(),
    running(**HAS),
    running(**HAS, allocatedResources={"cpu": "250m", "memory": "64Mi"}),
    running(**HAS, allocatedResources={"cpu": "400m", "memory": "64Mi"}),
    running(**MORE),
    {**running(**MORE), "conditions": [INFEASIBLE]},
    {**running(**HAS), "initContainerStatuses": [{"name": "first", "resources": {"requests": {"cpu": "2"}}}]},
]
SPECS: list[dict[str, object]] = [
    {},
    {"nodeName": "n1"},
    {"containers": [{"name": "app", "resources": MORE["resources"]}]},
    {"containers": [{"name": "app", "resources": HAS["resources"], "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"initContainers": [{"name": "first", "resources": {"requests": {"cpu": "1"}}}]},
    {"initContainers": [{"name": "first", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]},
    {"resources": {"requests": {"cpu": "3"}}},
    {"overhead": {"cpu": "10m"}},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    {"priority": 7},
    {"restartPolicy": "Never"},
    {"terminationGracePeriodSeconds": 5},
    {"volumes": [{"name": "token-x", "projected": {}}]},
    {"volumes": [{"name": "scratch", "emptyDir": {}}]},
    {"resourceClaims": [{"name": "gpu"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
]
METAS: list[dict[str, Any]] = [
    {},
    {"labels": {"app": "api"}},
    {"labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-1"}},
    {"annotations": {SAFE_TO_EVICT: "false"}},
    {"annotations": {"mine": "x"}},
]


def test_a_remembered_shape_is_the_one_that_would_be_made() -> None:
    """After any other pod of the controller, whatever differs between the two."""
    shown = [{"status": status} for status in STATUSES]
    for ways in (SPECS, shown, METAS):
        for first, second in product(ways, repeat=2):
            remembered = RememberedShapes()
            for number, way in enumerate((first, second)):
                each, at = with_spec(**way), START + number * MINUTE
                made = scheduling_facts.shape(each, "demo", at)
                assert replace(remembered.of(each, "demo", at, ()), at=at) == made, (first, second)
    for volumes in ((), (AttachedVolume("ebs", "vol-1"),), (AttachedVolume("ebs", "vol-2"),), ()):
        assert remembered.of(with_spec(), "demo", START, volumes).volumes == volumes


def with_spec(**way: Any) -> ScheduledPodObject:
    """A pod whose spec may have other containers than the usual one."""
    containers = way.pop("containers", None)
    made = pod("web-1", REPLICA_SET, **way)
    if containers is None:
        return made
    spec = msgspec.structs.replace(made.spec, containers=msgspec.convert(containers, list[ScheduledContainer]))
    return msgspec.structs.replace(made, spec=spec)


def test_of_a_rollout_a_shape_is_made_once_for_each_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever node a pod gets, how it runs, and what its token's volume is called."""
    made: list[str] = []
    shape = scheduling_facts.shape
    monkeypatch.setattr(
        scheduling_publisher.scheduling_facts, "shape", lambda each, *more: made.append(each.metadata.name) or shape(each, *more)
    )
    remembered = RememberedShapes()
    for number in range(20):
        volumes = [{"name": f"token-{number}", "projected": {}}]
        for status, node_name in ((None, None), (None, "n1"), (running(), "n2"), (running(**HAS), "n2")):
            for old_or_new in (REPLICA_SET, owner("ReplicaSet", "web-8a")):
                each = pod(f"web-{number}", old_or_new, status=status, volumes=volumes, nodeName=node_name)
                remembered.of(each, "demo", START, ())
    assert made == ["web-0", "web-0"]
