"""Volumes of pods: where they can be, who attaches them, what they wait for; and how many a node attaches."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agents.logic.nodes.cluster import fact_conversion
from schemas.facts.nodes import NodeDetailsChanged
from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, NodeQuery, PodPlacementChanged, PodShapeSeen
from streams.clients.kube.scheduling_objects import (
    ClaimObject,
    CsiNodeObject,
    DetailedNodeObject,
    ScheduledPodObject,
    StorageClassObject,
    VolumeObject,
)
from streams.sources.kube.publish.pod_volumes import VolumeIndex
from streams.sources.kube.publish.scheduling_publisher import STORAGE
from tests.support.cost_in_steps import steps
from tests.support.kube_objects import decoded, meta, owner
from tests.support.kube_scene import KubeScene

EBS = "ebs.csi.aws.com"
ZONE = "topology.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
SET = owner("StatefulSet", "db")


def pod(name: str, claims: Mapping[str, str], **more: Any) -> ScheduledPodObject:
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return decoded(
        ScheduledPodObject,
        {
            "metadata": meta(name, SET, labels={"app": "db", "statefulset.kubernetes.io/pod-name": name}),
            "spec": {"containers": [{"name": "db", "resources": {}}], "volumes": volumes, **more},
            "status": {"phase": "Pending", "conditions": [waits]},
        },
    )


def claim(
    name: str,
    volume: str = "",
    storage_class: str = "gp3",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    phase: str = "Bound",
    **about: str,
) -> ClaimObject:
    spec = {"accessModes": list(modes), "storageClassName": storage_class, "volumeName": volume}
    return decoded(ClaimObject, {"metadata": {**meta(name), **about}, "spec": spec, "status": {"phase": phase}})


def volume(name: str, zone: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> VolumeObject:
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": EBS_ZONE, "operator": "In", "values": [zone]}]}]}
    }
    whole = {"csi": {"driver": EBS, "volumeHandle": f"vol-{name}"}, "nodeAffinity": affinity, "storageClassName": "gp3", **spec}
    body = {"metadata": {"name": name, "uid": name, "labels": dict(labels or {})}, "spec": whole, "status": {"phase": "Bound"}}
    return decoded(VolumeObject, body)


def storage_class(
    name: str = "gp3", *, mode: str = "WaitForFirstConsumer", provisioner: str = EBS, **more: Any
) -> StorageClassObject:
    return decoded(
        StorageClassObject, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    )


def zone(*values: str, key: str = EBS_ZONE) -> NodeQuery:
    return NodeQuery((LabelDemand(key, "In", values),))


@pytest.fixture
def scene() -> KubeScene:
    made = KubeScene(nodes=True)
    made.sync()
    return made


def shapes(scene: KubeScene) -> dict[str, PodShapeSeen]:
    """The shape of each pod by the newest fact about it."""
    told = scene.events("scheduling-changes")
    by_id = {event.shape: event for event in told if isinstance(event, PodShapeSeen)}
    return {event.pod.name: by_id[event.shape] for event in told if isinstance(event, PodPlacementChanged)}


def only_volume(scene: KubeScene, name: str) -> AttachedVolume:
    (found,) = shapes(scene)[name].volumes
    return found


def test_pods_of_a_set_share_a_shape_where_their_volumes_are_in_the_same_zone(scene: KubeScene) -> None:
    zones = {"db-0": "a", "db-1": "b", "db-2": "a"}
    for name, place in zones.items():
        scene.see("persistentvolumes", volume(f"pv-{name}", place))
        scene.see("persistentvolumeclaims", claim(f"data-{name}", f"pv-{name}"))
        scene.see("pods", pod(name, {"data": f"data-{name}"}))
    found = shapes(scene)
    assert found["db-0"].shape == found["db-2"].shape != found["db-1"].shape
    assert found["db-0"].volumes == (AttachedVolume(EBS, "data", (zone("a"),), own=True),)


def test_a_claim_that_waits_for_its_pod_may_be_where_its_class_lets_it(scene: KubeScene) -> None:
    topologies = [{"matchLabelExpressions": [{"key": EBS_ZONE, "values": ["a", "b"]}]}]
    scene.see("storageclasses", storage_class(allowedTopologies=topologies))
    scene.see("persistentvolumeclaims", claim("data-db-0"))
    scene.see("pods", pod("db-0", {"data": "data-db-0"}))
    assert only_volume(scene, "db-0") == AttachedVolume(EBS, "data", (zone("a", "b"),), own=True)
    scene.see("persistentvolumes", volume("pv", "b"))
    scene.see("persistentvolumeclaims", claim("data-db-0", "pv"))
    assert only_volume(scene, "db-0").terms == (zone("b"),)


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([], "persistentvolumeclaim 'shop/data' not found"),
        ([claim("data", "pv")], "persistentvolume 'pv' not found"),
        ([claim("data", "pv", phase="Lost")], "persistentvolumeclaim 'shop/data' has lost its volume 'pv'"),
        ([claim("data", "pv", deletionTimestamp="2026-11-29T00:00:00Z")], "persistentvolumeclaim 'shop/data' is being deleted"),
        ([claim("data")], "storageclass 'gp3' of persistentvolumeclaim 'shop/data' not found"),
        ([claim("data"), storage_class(mode="Immediate")], "is not bound yet, and its class binds at once"),
        ([claim("data"), storage_class(provisioner="kubernetes.io/no-provisioner")], "there is none of class 'gp3' for it"),
    ],
)
def test_what_a_pod_waits_for_before_any_node_takes_it_is_a_sentence(scene: KubeScene, objects: list[Any], says: str) -> None:
    for each in objects:
        scene.see("persistentvolumeclaims" if isinstance(each, ClaimObject) else "storageclasses", each)
    scene.see("pods", pod("db-0", {"data": "data"}))
    assert says in only_volume(scene, "db-0").missing
    scene.see("persistentvolumes", volume("pv", "a"))
    scene.see("persistentvolumeclaims", claim("data", "pv"))
    assert only_volume(scene, "db-0").missing == ""


def test_a_claim_of_several_pods_goes_by_its_name_until_one_is_left(scene: KubeScene) -> None:
    scene.see("persistentvolumes", volume("pv", "a"))
    scene.see("persistentvolumeclaims", claim("shared", "pv", modes=("ReadWriteOncePod",)))
    one, two = pod("one", {"data": "shared"}), pod("two", {"data": "shared"})
    scene.see("pods", one)
    assert only_volume(scene, "one").own
    scene.see("pods", two)
    shared = AttachedVolume(EBS, "shop/shared", (zone("a"),), exclusive=True)
    assert (only_volume(scene, "one"), only_volume(scene, "two")) == (shared, shared)
    scene.lose("pods", one)
    assert only_volume(scene, "two").own


def test_zone_labels_of_a_volume_bind_too_and_old_volumes_of_ec2_are_attached_by_todays_driver(scene: KubeScene) -> None:
    old = volume("pv", "a", labels={ZONE: "a__b"}, csi=None, awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=None)
    scene.see("persistentvolumes", old)
    scene.see("persistentvolumeclaims", claim("data", "pv"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    assert only_volume(scene, "db-0") == AttachedVolume(EBS, "data", (zone("a", "b", key=ZONE),), own=True)


def test_volumes_that_are_there_already_may_be_where_any_of_them_is(scene: KubeScene) -> None:
    scene.see("storageclasses", storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    for name, place in (("one", "a"), ("two", "b")):
        free = volume(name, place, storageClassName="local", csi=None)
        scene.see("persistentvolumes", decoded(VolumeObject, {**_body(free), "status": {"phase": "Available"}}))
    scene.see("persistentvolumeclaims", claim("data", storage_class="local"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    assert only_volume(scene, "db-0").terms == (zone("a", "b"),)


def available(name: str, place: str, phase: str = "Available") -> VolumeObject:
    free = volume(name, place, storageClassName="local", csi=None)
    return decoded(VolumeObject, {**_body(free), "status": {"phase": phase}})


def test_a_volume_that_is_taken_or_gone_is_no_choice_any_more(scene: KubeScene) -> None:
    scene.see("storageclasses", storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    scene.see("persistentvolumeclaims", claim("data", storage_class="local"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    scene.see("persistentvolumes", available("one", "a"), available("two", "b"), available("three", "c"))
    scene.see("persistentvolumes", available("one", "a", "Bound"))
    assert only_volume(scene, "db-0").terms == (zone("b", "c"),)
    scene.lose("persistentvolumes", available("two", "b"))
    assert only_volume(scene, "db-0").terms == (zone("c"),)
    scene.lose("persistentvolumes", available("three", "c"))
    assert "there is none of class 'local'" in only_volume(scene, "db-0").missing


def many_free(scene: KubeScene, count: int) -> AttachedVolume:
    """What a pod may get of so many free volumes, each on a node of its own."""
    scene.see("storageclasses", storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    scene.see("persistentvolumeclaims", claim("data", storage_class="local"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    scene.see("persistentvolumes", *(available(f"pv-{n:04}", f"n-{n:04}") for n in range(count)))
    return only_volume(scene, "db-0")


def test_free_volumes_on_a_thousand_nodes_are_all_told_and_one_node_takes_their_pod(scene: KubeScene) -> None:
    told = many_free(scene, 1000)
    assert [len(term.expressions[0].values) for term in told.terms] == [500, 500]
    made = fact_conversion.nature(shapes(scene)["db-0"]).shape
    assert not made.refused
    assert {value for term in made.volumes[0].terms for one in term.expressions for value in one.values} == {
        f"n-{n:04}" for n in range(1000)
    }


def test_free_volumes_at_more_places_than_are_looked_at_make_a_sentence(scene: KubeScene) -> None:
    told = many_free(scene, 1001)
    assert told.missing.startswith("free volumes of class 'local' are at 1001 places; more than 1000 places")
    assert "1001 places" in fact_conversion.nature(shapes(scene)["db-0"]).shape.refused
    scene.lose("persistentvolumes", available("pv-0003", "n-0003"))
    assert only_volume(scene, "db-0").missing == ""


def test_a_free_volume_without_a_place_is_a_choice_everywhere_however_many_others_there_are(scene: KubeScene) -> None:
    many_free(scene, 1001)
    free = {**_body(available("net", "a")), "status": {"phase": "Available"}}
    free["spec"]["nodeAffinity"] = None
    scene.see("persistentvolumes", decoded(VolumeObject, free))
    assert shapes(scene)["db-0"].volumes == ()


def test_a_volume_with_more_terms_than_are_looked_at_is_a_sentence_too(scene: KubeScene) -> None:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [f"z{n}"]}]} for n in range(201)]
    scene.see("persistentvolumes", volume("pv", "a", nodeAffinity={"required": {"nodeSelectorTerms": terms}}))
    scene.see("persistentvolumeclaims", claim("data", "pv"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    assert "by 201 terms; more than 200 are not looked at" in only_volume(scene, "db-0").missing


def test_a_pod_is_told_once_for_all_volumes_that_came_at_the_same_time(scene: KubeScene) -> None:
    many_free(scene, 50)
    told = [event for event in scene.events("scheduling-changes") if isinstance(event, PodPlacementChanged)]
    assert len({event.shape for event in told if event.pod.name == "db-0"}) == 2


def test_free_volumes_cost_as_much_each_however_many_pods_wait_for_them() -> None:
    costs = []
    for count in (50, 800):
        index = VolumeIndex()
        index.see(storage_class("local", provisioner="kubernetes.io/no-provisioner"))
        for number in range(count):
            index.see(claim(f"c{number}", storage_class="local"))
            index.use(f"u{number}", pod(f"p{number}", {"data": f"c{number}"}))
        found = [available(f"pv{number}", f"n{number}") for number in range(count)]
        pods = [pod(f"p{number}", {"data": f"c{number}"}) for number in range(count)]

        def work(index: VolumeIndex = index, found: Sequence[VolumeObject] = found, pods: Sequence[Any] = pods) -> None:
            for one in found:
                index.see(one)
            assert len(index.users_of(index.take_reconsidered())) == len(pods)
            assert not index.take_reconsidered()
            for each in pods:
                assert index.volumes_of(each)[0].terms

        costs.append(steps(work) / count)
    assert costs[1] < 1.2 * costs[0]


def test_a_class_of_the_provisioner_of_old_is_attached_by_the_driver_that_does_its_work(scene: KubeScene) -> None:
    scene.see("storageclasses", storage_class("gp2", provisioner="kubernetes.io/aws-ebs"))
    scene.see("persistentvolumeclaims", claim("data", storage_class="gp2"))
    scene.see("pods", pod("db-0", {"data": "data"}))
    assert only_volume(scene, "db-0") == AttachedVolume(EBS, "data", own=True)


def test_a_claim_that_a_pod_names_twice_is_one_volume(scene: KubeScene) -> None:
    scene.see("persistentvolumes", volume("pv", "a"))
    scene.see("persistentvolumeclaims", claim("data", "pv"))
    scene.see("pods", pod("db-0", {"logs": "data", "data": "data"}))
    assert only_volume(scene, "db-0") == AttachedVolume(EBS, "data", (zone("a"),), own=True)


def test_thousands_of_volumes_take_no_longer_each() -> None:
    costs = []
    for count in (50, 5000):
        index = VolumeIndex()
        for number in range(count):
            index.see(claim(f"c{number}", f"pv{number}"))
        found, told = [volume(f"pv{number}", "a") for number in range(count)], list[set[str]]()
        costs.append(steps(lambda index=index, found=found, told=told: told.extend(index.see(one) for one in found)) / count)  # type: ignore[misc]  # bound now
        assert told == [{f"shop/c{number}"} for number in range(count)]
    assert costs[1] < 1.1 * costs[0]


def _body(found: VolumeObject) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(found)
    plain["metadata"] = {"name": found.metadata.name, "uid": found.metadata.uid}
    return plain


def test_a_claim_that_is_made_for_a_pod_has_its_and_the_volumes_name(scene: KubeScene) -> None:
    scene.see("storageclasses", storage_class())
    scene.see("persistentvolumeclaims", claim("db-0-scratch"))
    scene.see("pods", pod("db-0", {}, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert only_volume(scene, "db-0") == AttachedVolume(EBS, "scratch", own=True)


def test_a_pod_with_claims_is_told_once_everything_about_volumes_was_listed() -> None:
    scene = KubeScene(nodes=True)
    scene.see("pods", pod("db-0", {"data": "data"}), pod("bare", {}))
    scene.sync("pods")
    assert set(shapes(scene)) == {"bare"}
    scene.see("persistentvolumes", volume("pv", "a"))
    scene.see("persistentvolumeclaims", claim("data", "pv"))
    scene.sync(*STORAGE)
    assert only_volume(scene, "db-0").terms == (zone("a"),)
    scene.restart()
    scene.see("pods", pod("db-0", {"data": "data"}))
    scene.sync("pods")
    assert "scheduling-changes" not in (scene.reports()[-1].sees if scene.reports() else ())
    gone = [event for event in scene.events("scheduling-changes") if type(event).__name__ == "PodPlacementRemoved"]
    assert [one.pod.name for one in gone] == ["bare"]


def test_a_node_says_how_many_volumes_its_drivers_attach(scene: KubeScene) -> None:
    csi = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": EBS, "allocatable": {"count": 25}}, {"name": "efs"}]}}
    scene.see("csinodes", decoded(CsiNodeObject, csi))
    scene.see("nodes", decoded(DetailedNodeObject, {"metadata": {"name": "n1", "uid": "u"}, "status": {"allocatable": {}}}))
    scene.see("csinodes", decoded(CsiNodeObject, {"metadata": {"name": "n1"}, "spec": {"drivers": None}}))
    told = [event.attachable for event in scene.events("scheduling-changes") if isinstance(event, NodeDetailsChanged)]
    assert told == [{EBS: 25}, {}]
