"""CapacityBuffers from the API server to facts: joined with their PodTemplates, once both kinds are listed."""

from typing import Any

import pytest

from schemas.facts.nodes import BufferShown, CapacityBufferGone, CapacityBufferSeen
from streams.clients.kube.scheduling_objects import CapacityBufferObject, PodTemplateObject
from streams.clients.kube.watched_objects import TemplatedController, TemplatedReplicationController
from streams.sources.kube.watch.watched_resources import CONTROLLERS, DETAILED
from tests.support.kube_objects import decoded
from tests.support.kube_scene import KubeScene

KINDS = (*CONTROLLERS, "podtemplates", "capacitybuffers")


def template(cpu: str = "500m", generation: int = 1, name: str = "small") -> PodTemplateObject:
    meta = {"name": name, "namespace": "shop", "uid": "t", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
    pod = {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}], "nodeSelector": {"disk": "ssd"}}
    return decoded(PodTemplateObject, {"metadata": meta, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod}})


def buffer(status: dict[str, Any] | None = None, name: str = "room", **spec: Any) -> CapacityBufferObject:
    meta = {"name": name, "namespace": "shop", "uid": "u", "generation": 1}
    wanted = spec or {"podTemplateRef": {"name": "small"}, "replicas": 3, "limits": {"cpu": 2, "memory": "4Gi"}}
    return decoded(CapacityBufferObject, {"metadata": meta, "spec": wanted, "status": status or {}})


def facts(scene: KubeScene) -> list[CapacityBufferSeen | CapacityBufferGone]:
    return [one for one in scene.events("scheduling-changes") if isinstance(one, CapacityBufferSeen | CapacityBufferGone)]


@pytest.fixture
def scene() -> KubeScene:
    return KubeScene(nodes=True)


def test_a_buffer_waits_until_templates_are_listed_and_carries_the_shape_of_its_pods(scene: KubeScene) -> None:
    scene.see("capacitybuffers", buffer())
    scene.sync("capacitybuffers")
    assert facts(scene) == []
    scene.see("podtemplates", template())
    scene.sync("podtemplates")
    [fact] = facts(scene)
    assert isinstance(fact, CapacityBufferSeen)
    assert fact.template is not None
    assert fact.template.requests["cpu"] == 500
    assert (fact.template.node_selector, fact.template_generation) == ({"disk": "ssd"}, 1)
    assert (fact.replicas, fact.limits) == (3, {"cpu": 2000, "memory": 4 << 30})


def test_a_kind_that_may_not_be_seen_is_said_by_the_buffers_that_need_it_and_keeps_no_other(scene: KubeScene) -> None:
    """RBAC answers 403 for one kind, while another one is not listed yet."""
    plain = {"name": "web", "kind": "Deployment"}
    scene.see("capacitybuffers", buffer(scalableRef=plain, name="web"), buffer(name="small"))
    scene.see("capacitybuffers", buffer(scalableRef={**plain, "kind": "StatefulSet"}, name="cache"))
    scene.sync("capacitybuffers", "deployments")
    scene.fail("podtemplates", refused=True)
    found = [fact for fact in facts(scene) if isinstance(fact, CapacityBufferSeen)]
    assert [(fact.name, fact.unseen) for fact in found] == [("web", ""), ("small", "podtemplates")]
    scene.see("podtemplates", template())
    scene.sync("podtemplates")
    later = facts(scene)[-1]
    assert isinstance(later, CapacityBufferSeen)
    assert (later.name, later.unseen, later.template is None) == ("small", "", False)


def test_a_right_that_is_taken_away_leaves_what_was_seen_before(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("podtemplates", template())
    scene.see("capacitybuffers", buffer())
    scene.fail("podtemplates", refused=True)
    scene.see("capacitybuffers", buffer(podTemplateRef={"name": "small"}, replicas=4))
    fact = facts(scene)[-1]
    assert isinstance(fact, CapacityBufferSeen)
    assert (fact.replicas, fact.unseen, fact.template is None) == (4, "", False)


def test_a_buffer_that_waits_at_a_restart_is_not_taken_for_gone(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("podtemplates", template())
    scene.see("capacitybuffers", buffer())
    scene.restart()
    scene.see("capacitybuffers", buffer())
    scene.sync("capacitybuffers")
    scene.fail("podtemplates")
    assert len(facts(scene)) == 1


def test_a_changed_template_is_news_of_the_buffers_that_name_it(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("podtemplates", template(), template(name="other"))
    scene.see("capacitybuffers", buffer())
    scene.see("podtemplates", template("1", 2), template("1", 2, "other"), template("1", 2))
    scene.lose("podtemplates", template())
    found = [fact for fact in facts(scene) if isinstance(fact, CapacityBufferSeen)]
    assert [fact.template_generation for fact in found] == [1, 2, None]
    assert found[-1].template is None


def test_what_the_status_shows_is_a_fact_whoever_wrote_it(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    ready = {"type": "ReadyForProvisioning", "status": "True", "reason": "x", "message": "ready"}
    shown = {"replicas": 3, "podTemplateRef": {"name": "small"}, "podTemplateGeneration": 1, "conditions": [ready]}
    scene.see("capacitybuffers", buffer(), buffer(shown))
    first, second = facts(scene)
    assert isinstance(first, CapacityBufferSeen)
    assert first.shown is None
    assert isinstance(second, CapacityBufferSeen)
    assert second.shown == BufferShown(ready=True, replicas=3, template="small", generation=1, message="ready")


def test_a_buffer_for_a_workload_names_it(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("capacitybuffers", buffer(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=20))
    [fact] = facts(scene)
    assert isinstance(fact, CapacityBufferSeen)
    assert (fact.workload_kind, fact.workload_name, fact.percentage, fact.replicas) == ("Deployment", "web", 20, None)


def workload(cpu: str = "500m", pods: int = 0, owner: dict[str, Any] | None = None) -> TemplatedController:
    meta = {"name": "web", "namespace": "shop", "uid": "w", "creationTimestamp": "2026-01-01T00:00:00Z"}
    meta |= {"ownerReferences": [owner]} if owner else {}
    pod = {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}
    body = {"metadata": meta, "spec": {"replicas": pods, "template": {"spec": pod}}, "status": {"replicas": pods}}
    return decoded(TemplatedController, body)


def test_a_workload_without_pods_lends_its_template_to_the_buffers_that_name_it(scene: KubeScene) -> None:
    scene.see("deployments", workload())
    scene.sync(*KINDS)
    scene.see("capacitybuffers", buffer(scalableRef={"kind": "Deployment", "name": "web"}, replicas=2))
    scene.see("deployments", workload(), workload("1"), workload("a lot"), workload("1"), workload("1", pods=2))
    scene.see("deployments", workload("2"))
    scene.lose("deployments", workload("2"))
    templates = [fact.template for fact in facts(scene) if isinstance(fact, CapacityBufferSeen)]
    assert [one and one.requests["cpu"] for one in templates] == [500, 1000, None, 1000, None, 2000, None]


@pytest.mark.parametrize(
    ("plural", "kind", "of", "running"),
    [
        ("jobs", "Job", TemplatedController, "active"),
        ("replicationcontrollers", "ReplicationController", TemplatedReplicationController, "replicas"),
    ],
)
def test_so_does_a_job_or_a_replication_controller(scene: KubeScene, plural: str, kind: str, of: Any, running: str) -> None:
    assert DETAILED[plural].type is of  # what the source reads
    meta = {"name": "web", "namespace": "shop", "uid": "w", "creationTimestamp": "2026-01-01T00:00:00Z"}
    pod = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}
    idle = decoded(of, {"metadata": meta, "spec": {"template": {"spec": pod}}, "status": {}})
    busy = decoded(of, {"metadata": meta, "spec": {"template": {"spec": pod}}, "status": {running: 1}})
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    over = decoded(of, {"metadata": meta, "spec": {"template": {"spec": pod}}, "status": ended})
    scene.see(plural, idle)
    scene.sync(*KINDS)
    scene.see("capacitybuffers", buffer(scalableRef={"kind": kind, "name": "web"}, replicas=2))
    scene.see(plural, busy, idle, over)
    templates = [fact.template for fact in facts(scene) if isinstance(fact, CapacityBufferSeen)]
    assert [one and one.requests["cpu"] for one in templates] == [500, None, 500, None]


def test_the_old_replica_sets_of_a_deployment_are_not_kept(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    mine = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    scene.see("replicasets", workload(owner=mine))
    scene.see("capacitybuffers", buffer(scalableRef={"kind": "ReplicaSet", "name": "web"}, replicas=2))
    [fact] = facts(scene)
    assert isinstance(fact, CapacityBufferSeen)
    assert fact.template is None


def test_a_restart_publishes_only_what_changed_and_what_is_gone(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("podtemplates", template())
    scene.see("capacitybuffers", buffer())
    assert len(facts(scene)) == 1
    scene.restart()
    scene.see("podtemplates", template())
    scene.see("capacitybuffers", buffer())
    scene.sync(*KINDS)
    assert len(facts(scene)) == 1
    scene.restart()
    scene.sync(*KINDS)
    assert isinstance(facts(scene)[-1], CapacityBufferGone)


def test_a_template_that_cannot_be_read_ends_nothing(scene: KubeScene) -> None:
    scene.sync(*KINDS)
    scene.see("podtemplates", template("a lot"))
    scene.see("capacitybuffers", buffer())
    [fact] = facts(scene)
    assert isinstance(fact, CapacityBufferSeen)
    assert fact.template is None
