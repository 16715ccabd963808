"""Whose a pod is: the topmost well-known or scalable controller."""

from datetime import timedelta

from schemas.facts.pods import PodChanged, PodDeleted
from schemas.names import Workload
from streams.clients.kube.controllers import ControllerKey, ObjectScale
from streams.clients.kube.pod_objects import OwnerReference
from streams.errors import GiveUp
from streams.sources.kube.owners.pod_owners import PATIENCE
from streams.sources.kube.watch.notifications import CheckpointLookup, ScaleFound, ScaleLookup
from tests.support.kube_objects import controller, cron_job, owner, pod
from tests.support.kube_scene import KubeScene

ROLLOUT = ControllerKey("shop", "Rollout", "big", "argo.example/v1")
SECOND = timedelta(seconds=1)


def workload(kind: str, name: str) -> Workload:
    return Workload("real", "shop", kind, name)


def workloads(scene: KubeScene, name: str = "") -> list[Workload]:
    return [event.workload for event in scene.pods(name)]


def test_a_pod_of_a_replica_set_of_a_deployment_is_the_deployments() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1")))
    assert workloads(scene) == [workload("Deployment", "web")]


def test_a_pod_of_a_job_of_a_cron_job_is_the_cron_jobs() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("cronjobs", cron_job("nightly", {}))
    scene.see("jobs", controller("nightly-1", owner("CronJob", "nightly", "batch/v1")))
    scene.see("pods", pod("p", owner("Job", "nightly-1", "batch/v1")))
    assert workloads(scene) == [workload("CronJob", "nightly")]


def test_a_deployment_whose_owner_has_no_scale_is_the_topmost() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web", owner("App", "shop", "apps.example/v1")))
    scene.see("pods", pod("p", owner("Deployment", "web")))
    assert workloads(scene) == []
    key = ControllerKey("shop", "App", "shop", "apps.example/v1")
    assert scene.lookups[-1] == ScaleLookup(key)
    scene.handle(ScaleFound(key, None))
    assert workloads(scene) == [workload("Deployment", "web")]


def test_a_custom_owner_with_a_scale_is_the_topmost() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("replicasets", controller("big-1", owner("Rollout", "big", "argo.example/v1")))
    scene.see("pods", pod("p", owner("ReplicaSet", "big-1")))
    scene.handle(ScaleFound(ROLLOUT, ObjectScale("app=big")))
    assert workloads(scene) == [workload("Rollout", "big")]


def test_a_job_of_another_group_is_no_well_known_one() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p", owner("Job", "train", "batch.volcano.example/v1")))
    scene.handle(ScaleFound(ControllerKey("shop", "Job", "train", "batch.volcano.example/v1"), None))
    assert workloads(scene) == [workload("Job", "train")]


def test_a_reference_to_a_group_of_old_names_the_same_controller() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web", "extensions/v1beta1")))
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1", "extensions/v1beta1")))
    assert workloads(scene) == [workload("Deployment", "web")]
    assert scene.lookups == [CheckpointLookup()]


def test_a_pod_of_a_node_and_one_of_nobody_are_their_own() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("static", owner("Node", "n1", "v1")), pod("alone"))
    assert workloads(scene) == [workload("Pod", "static"), workload("Pod", "alone")]


def test_owners_in_a_circle_end_and_the_first_that_is_known_does() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("replicasets", controller("a", owner("Deployment", "b")))
    scene.see("deployments", controller("b", owner("ReplicaSet", "a")))
    scene.see("pods", pod("p", owner("ReplicaSet", "a")))
    assert workloads(scene) == [workload("Deployment", "b")]


def test_owners_of_a_scale_are_followed() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("top"))
    scene.see("pods", pod("p", owner("Rollout", "big", "argo.example/v1")))
    scene.handle(
        ScaleFound(
            ROLLOUT, ObjectScale("app=big", (OwnerReference("Deployment", "top", controller=True, api_version="apps/v1"),))
        )
    )
    assert workloads(scene) == [workload("Deployment", "top")]


def test_a_pod_waits_for_as_long_as_its_owners_are_being_listed() -> None:
    scene = KubeScene()
    scene.sync("pods")
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1"), labels={"pod-template-hash": "1"}))
    scene.later(PATIENCE * 10)
    assert workloads(scene) == []
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("deployments", controller("web"))
    assert workloads(scene) == [workload("Deployment", "web")]


def test_a_pod_whose_owner_does_not_exist_is_published_after_some_seconds_as_a_guess_from_itself() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1"), labels={"pod-template-hash": "1"}))
    scene.later(PATIENCE - SECOND)
    assert workloads(scene) == []
    scene.later(SECOND)
    assert workloads(scene) == [workload("Deployment", "web")]


def test_a_guess_stands_when_the_owner_comes_late() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p", owner("Job", "nightly-1", "batch/v1")))
    scene.later(PATIENCE)
    scene.see("cronjobs", cron_job("nightly", {}))
    scene.see("jobs", controller("nightly-1", owner("CronJob", "nightly", "batch/v1")))
    scene.see("pods", pod("p", owner("Job", "nightly-1", "batch/v1"), memory="65Mi"))
    assert workloads(scene) == [workload("Job", "nightly-1")] * 2


def test_an_owner_out_of_sight_is_waited_for_some_seconds_only() -> None:
    scene = KubeScene()
    scene.fail("replicasets")
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1"), labels={"pod-template-hash": "1"}))
    for kind in ("deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "replicationcontrollers"):
        scene.sync(kind)
    scene.later(PATIENCE)
    assert workloads(scene) == [workload("Deployment", "web")]


def test_a_scale_that_cannot_be_asked_for_is_waited_for_some_seconds_only() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("replicasets", controller("big-1", owner("Rollout", "big", "argo.example/v1")))
    scene.see("pods", pod("p", owner("ReplicaSet", "big-1")))
    scene.handle(ScaleFound(ROLLOUT, None, str(GiveUp(doing="reading", to="big", answer="403"))))
    scene.later(PATIENCE)
    assert workloads(scene) == [workload("ReplicaSet", "big-1")]


def test_a_guess_for_want_of_an_answer_gives_way_to_the_answer() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("replicasets", controller("big-1", owner("Rollout", "big", "argo.example/v1")))
    scene.see("pods", pod("p", owner("ReplicaSet", "big-1")))
    scene.handle(ScaleFound(ROLLOUT, None, str(GiveUp(doing="reading", to="big", answer="503"))))
    scene.later(PATIENCE)
    scene.handle(ScaleFound(ROLLOUT, ObjectScale("app=big")))
    assert workloads(scene) == [workload("ReplicaSet", "big-1"), workload("Rollout", "big")]


def test_a_controller_that_goes_before_its_pods_takes_nothing_away() -> None:
    scene = KubeScene()
    scene.sync()
    web, inner = controller("web"), controller("web-1", owner("Deployment", "web"))
    scene.see("deployments", web)
    scene.see("replicasets", inner)
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1")))
    scene.lose("deployments", web)
    scene.lose("replicasets", inner)
    scene.later(PATIENCE * 2)
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1"), memory="65Mi"))
    scene.lose("pods", pod("p"))
    assert workloads(scene) == [workload("Deployment", "web")] * 3


def test_a_custom_controller_that_goes_before_its_pods_takes_nothing_away() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("replicasets", controller("big-1", owner("Rollout", "big", "argo.example/v1")))
    scene.see("pods", pod("p", owner("ReplicaSet", "big-1")))
    scene.handle(ScaleFound(ROLLOUT, ObjectScale("app=big")))
    scene.handle(ScaleFound(ROLLOUT, None))
    scene.see("pods", pod("p", owner("ReplicaSet", "big-1"), memory="65Mi"))
    scene.lose("pods", pod("p"))
    assert workloads(scene) == [workload("Rollout", "big")] * 3


def test_a_pod_whose_chain_changed_leaves_its_old_workload_and_joins_the_new() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1")))
    scene.see("replicasets", controller("web-1"))
    assert workloads(scene) == [workload("Deployment", "web"), workload("ReplicaSet", "web-1")]
    assert all(isinstance(event, PodChanged) for event in scene.pods())
    left = [event.workload for event in scene.events("pod-changes") if isinstance(event, PodDeleted)]
    assert left == [workload("Deployment", "web")]


def test_after_a_restart_a_pod_keeps_the_workload_in_the_log_until_its_owners_are_known() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1")))
    scene.restart()
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1"), memory="65Mi"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("deployments", controller("web"))
    scene.sync()
    assert workloads(scene) == [workload("Deployment", "web")] * 2
