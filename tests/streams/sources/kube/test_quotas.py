"""How full quotas are, as the kube source tells it."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from schemas.facts.update_facts import QuotaScope, ResourceQuotaChanged, ResourceQuotaRemoved
from streams.clients.kube.watched_objects import ResourceQuotaObject
from streams.sources.kube.publish import constraint_publisher
from streams.sources.kube.watch.watched_resources import WebhookLease
from streams.sources.kube.watch_threads import watches
from tests.support.kube_scene import KubeScene

FACTS = (ResourceQuotaChanged, ResourceQuotaRemoved)
LEASE = WebhookLease("ullage", "ullage-webhook")


@pytest.fixture
def scene() -> KubeScene:
    return KubeScene(webhook=LEASE)


def quota(used: str, name: str = "compute", hard: str = "4", **spec: Any) -> ResourceQuotaObject:
    status = {"hard": {"requests.cpu": hard, "secrets": "3"}, "used": {"requests.cpu": used, "secrets": "1"}}
    body = {"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status}
    return msgspec.convert(body, ResourceQuotaObject)


def told(scene: KubeScene, topic: str = "pod-changes-by-cluster") -> list[Any]:
    return [event for event in scene.events(topic) if isinstance(event, FACTS)]


def used(scene: KubeScene) -> list[str]:
    return [event.used["requests.cpu"] for event in told(scene) if isinstance(event, ResourceQuotaChanged)]


def test_a_quota_is_told_to_updater_scaler_and_webhook_with_what_pods_count_for(scene: KubeScene) -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    scene.see("resourcequotas", quota("1", scopes=["NotBestEffort"], scopeSelector=selector))
    [fact] = told(scene)
    assert (fact.key, fact.hard, fact.used) == ("real/shop/ResourceQuota/compute", {"requests.cpu": "4"}, {"requests.cpu": "1"})
    assert fact.scopes == (QuotaScope("NotBestEffort"), QuotaScope("PriorityClass", "In", ("high",)))
    assert told(scene, "quota-changes") == told(scene, "scheduling-changes") == [fact]


def test_a_busy_quota_is_told_every_five_seconds_with_its_newest_use(scene: KubeScene) -> None:
    for number in range(10):
        scene.see("resourcequotas", quota(f"{number}"))
        scene.later(timedelta(seconds=1))
    assert used(scene) == ["0", "4", "9"]


def test_a_bound_that_changes_is_told_at_once(scene: KubeScene) -> None:
    scene.see("resourcequotas", quota("1"), quota("2", hard="2"))
    assert used(scene) == ["1", "2"]


def test_many_quotas_that_change_at_once_are_told_a_hundred_at_a_time(scene: KubeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_publisher, "AT_ONCE", 2)
    scene.see("resourcequotas", *(quota("1", f"q{number}") for number in range(5)))
    scene.see("resourcequotas", *(quota("2", f"q{number}") for number in range(5)))
    counts = []
    for _ in range(4):
        scene.later(timedelta(seconds=5))
        counts.append(len(used(scene)))
    assert counts == [7, 9, 10, 10]


def test_a_quota_that_is_gone_or_bounds_no_pods_is_withdrawn_also_after_a_restart(scene: KubeScene) -> None:
    scene.see("resourcequotas", quota("1"), quota("1", "old"), quota("1", "other"))
    scene.lose("resourcequotas", quota("1"))
    status = {"hard": {"services": "1"}, "used": {"services": "1"}}
    bare = {"metadata": {"name": "other", "namespace": "shop"}, "status": status}
    scene.see("resourcequotas", msgspec.convert(bare, ResourceQuotaObject))
    scene.restart()
    scene.sync()
    assert [(type(fact), fact.name) for fact in told(scene)[3:]] == [(FACTS[1], name) for name in ("compute", "other", "old")]
    assert len(told(scene, "quota-changes")) == 6


def test_after_a_restart_nothing_is_told_twice_and_it_is_told_again_in_time(scene: KubeScene) -> None:
    scene.see("resourcequotas", quota("1"))
    scene.restart()
    scene.see("resourcequotas", quota("1"))
    scene.sync()
    assert used(scene) == ["1"]
    scene.later(timedelta(hours=3, minutes=1))
    assert used(scene) == ["1", "1"]


def test_a_quota_with_a_bad_quantity_is_left_out(scene: KubeScene) -> None:
    scene.see("resourcequotas", quota("a lot"), quota("1", "good"))
    assert [fact.name for fact in told(scene)] == ["good"]


def test_quotas_are_watched_beside_the_webhook() -> None:
    assert "resourcequotas" in [each.kind for each in watches(webhook=LEASE)]
    assert "resourcequotas" not in [each.kind for each in watches()]
