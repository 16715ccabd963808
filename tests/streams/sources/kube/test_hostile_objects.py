"""What a tenant writes into objects, however large: it is told with the bound, and nothing of anybody else's stops."""

import json

import msgspec

from schemas import bounds, event_bounds
from schemas.facts.pods import PodChanged
from schemas.policies.vpa import TargetRef, VpaChanged
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import VpaObject
from tests.support.kube_objects import controller, decoded, meta, node, owner, pod, vpa
from tests.support.kube_scene import KubeScene


def annotated(name: str, annotations: dict[str, str]) -> VpaObject:
    found = vpa(name)
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations))


def newest(scene: KubeScene, name: str) -> VpaChanged:
    return next(v for v in reversed(scene.vpas()) if isinstance(v, VpaChanged) and v.name == name)


def served(scene: KubeScene) -> None:
    scene.see("deployments", controller("web", labels={"app": "web"}))
    scene.sync()


def test_annotations_that_nobody_reads_are_not_kept() -> None:
    scene = KubeScene()
    served(scene)
    read = {"ullage/*.margin": "0.3", "vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
    noise = {f"tenant.example/{n}": "x" * 1_000 for n in range(420)}
    scene.see(
        "verticalpodautoscalers", annotated("web", {**noise, **read, "kubectl.kubernetes.io/last-applied-configuration": "{}"})
    )
    assert (newest(scene, "web").annotations, newest(scene, "web").unsupported) == (read, "")


def test_annotations_of_ours_beyond_the_bound_make_the_object_unsupported() -> None:
    scene = KubeScene()
    served(scene)
    scene.see("verticalpodautoscalers", annotated("web", {f"ullage/container-{n}.margin": "0.3" for n in range(900)}))
    assert newest(scene, "web").unsupported == (
        "The object is too large: annotations has 26890 characters; more than 16384 are not possible"
    )


def test_a_vpa_with_8000_policies_is_told_with_the_bound_and_the_others_go_on() -> None:
    scene = KubeScene()
    served(scene)
    policies = [{"containerName": f"c{n}"} for n in range(8_000)]
    scene.see("verticalpodautoscalers", vpa("huge", resourcePolicy={"containerPolicies": policies}), vpa("web"))
    huge = newest(scene, "huge")
    assert huge.unsupported == (
        "The spec cannot be carried out: spec.resourcePolicy.containerPolicies has 8000 entries; more than 1000 are not possible"
    )
    assert (huge.target_ref, huge.containers) == (TargetRef("Deployment", "web", "apps/v1"), ())
    assert newest(scene, "web").unsupported == ""


def test_a_vpa_of_many_bytes_is_told_with_the_bound() -> None:
    scene = KubeScene()
    served(scene)
    policies = [{"containerName": f"{n:04}" + "c" * 300} for n in range(1_000)]
    scene.see("verticalpodautoscalers", vpa("long", resourcePolicy={"containerPolicies": policies}))
    long = newest(scene, "long")
    assert long.unsupported.startswith("The object is too large: it takes ")
    assert long.unsupported.endswith(f"bytes; more than {bounds.MOST_OBJECT_BYTES} are not kept of one object")
    assert long.target_ref == TargetRef("Deployment", "web", "apps/v1")


def test_a_target_with_a_selector_beyond_all_bounds_makes_only_its_vpa_unsupported() -> None:
    scene = KubeScene()
    labels = {f"label-{n}": "x" * 60 for n in range(1_200)}
    scene.see("deployments", controller("web", labels=labels), controller("good", labels={"app": "good"}))
    scene.sync()
    scene.see("verticalpodautoscalers", vpa("web"), vpa("good", "good"))
    assert newest(scene, "web").unsupported == (
        "The object is too large: selector has 1200 entries; more than 1000 are not possible"
    )
    assert newest(scene, "good").unsupported == ""


def test_a_restart_publishes_an_object_that_was_too_large_only_once() -> None:
    scene = KubeScene()
    policies = [{"containerName": f"{n:04}" + "c" * 300} for n in range(1_000)]
    for _ in range(2):
        scene.see("deployments", controller("web", labels={"app": "web"}))
        scene.see("verticalpodautoscalers", vpa("long", resourcePolicy={"containerPolicies": policies}))
        scene.sync()
        assert len(scene.vpas()) == 1
        scene.restart()


def test_a_pod_with_a_megabyte_of_labels_is_told_without_any() -> None:
    scene = KubeScene()
    served(scene)
    labels = {f"label-{n}": "x" * 63 for n in range(15_000)}
    scene.see("pods", pod("big", labels=labels), pod("small", labels={"app": "web"}))
    found = {p.pod.name: p for p in scene.pods() if isinstance(p, PodChanged)}
    assert (found["big"].labels, found["small"].labels) == ({}, {"app": "web"})


def test_a_pod_with_12000_containers_is_named_and_left_out() -> None:
    scene = KubeScene()
    served(scene)
    containers = [{"name": f"c{n}"} for n in range(12_000)]
    body = {
        "metadata": meta("wide", owner("ReplicaSet", "r")),
        "spec": {"containers": containers},
        "status": {"phase": "Running"},
    }
    scene.see("pods", decoded(PodObject, json.loads(json.dumps(body))), pod("small"))
    assert [p.pod.name for p in scene.pods() if isinstance(p, PodChanged)] == ["small"]


def test_a_node_with_labels_beyond_the_bound_keeps_its_amounts() -> None:
    scene = KubeScene()
    found = node("n1")
    labels = {f"label-{n}": "x" * 60 for n in range(1_200)}
    scene.see("nodes", msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels=labels)))
    (event,) = [e for e in scene.events("cluster-changes", 0) if type(e).__name__ == "NodeChanged"]
    assert event_bounds.fault(event) is None
    assert getattr(event, "labels", None) == {}
