"""Labels and annotations of namespaces and ServiceAccounts: told once, again when they change, and when the object goes."""

from typing import Any

import pytest

from schemas.bounds import MOST_ENTRIES
from schemas.facts.pods import PROTECTORS
from schemas.facts.update_facts import ObjectMetadataChanged, ObjectMetadataRemoved
from streams.clients.kube.list_watch_requests import ApiResource
from streams.clients.kube.watched_objects import KubeObject, LabelledObject
from streams.sources.kube import watch_threads
from streams.sources.kube.publish import update_resources
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES, by_metadata
from streams.sources.kube.watch.watched_resources import STORAGE, WebhookLease
from streams.sources.kube.watch_threads import watches
from tests.support.kube_objects import MINUTE, START, decoded
from tests.support.kube_scene import KubeScene

LEASE = WebhookLease("ullage", "ullage-webhook")


def namespace(name: str, version: str = "1", annotations: dict[str, str] | None = None, **labels: str) -> LabelledObject:
    """As the API server sends it: in no namespace."""
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": version, "labels": labels, "annotations": annotations or {}}
    return decoded(LabelledObject, {"metadata": meta, "status": {"phase": "Active"}})


def account(name: str, **labels: str) -> LabelledObject:
    return decoded(LabelledObject, {"metadata": {"name": name, "namespace": "shop", "labels": labels}})


def facts(scene: KubeScene, topic: str = "scheduling-changes") -> list[tuple[str, dict[str, str] | None]]:
    """The objects with their labels, None where one went."""
    told: list[tuple[str, dict[str, str] | None]] = []
    for event in scene.events(topic):
        if isinstance(event, ObjectMetadataChanged):
            told.append((event.name, dict(event.labels)))
        elif isinstance(event, ObjectMetadataRemoved):
            told.append((event.name, None))
    return told


@pytest.fixture(params=[{"nodes": True}, {"webhook": LEASE}], ids=["for scheduling", "for updates"])
def scene(request: Any) -> KubeScene:
    return KubeScene(**request.param)


def told(scene: KubeScene) -> list[tuple[str, dict[str, str] | None]]:
    return facts(scene, "scheduling-changes" if scene.options.nodes else "pod-changes-by-cluster")


def test_labels_are_told_once_again_when_they_change_and_when_the_namespace_goes(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", team="a"), namespace("shop", "2", team="a"))
    scene.see("namespaces", namespace("shop", "3", team="b"))
    scene.lose("namespaces", namespace("shop"))
    assert told(scene) == [("shop", {"team": "a"}), ("shop", {"team": "b"}), ("shop", None)]


def test_a_restart_says_nothing_again_and_a_namespace_that_went_meanwhile_is_gone(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", team="a"), namespace("old", team="b"))
    scene.later(MINUTE)
    scene.restart()
    scene.see("namespaces", namespace("shop", team="a"))
    scene.sync("namespaces")
    assert told(scene) == [("shop", {"team": "a"}), ("old", {"team": "b"}), ("old", None)]


def test_labels_beyond_what_is_kept_of_one_object_are_left_out(scene: KubeScene) -> None:
    marks = {"ullage/protected": "true"}
    scene.see("namespaces", namespace("shop", annotations=marks, **{f"l{number}": "x" for number in range(MOST_ENTRIES + 1)}))
    assert told(scene) == [("shop", {})]


def test_an_object_whose_last_mark_is_taken_off_is_withdrawn(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", team="a"), namespace("shop", "2"))
    assert told(scene) == [("shop", {"team": "a"}), ("shop", None)]


def test_annotations_are_told_to_the_updater_but_for_long_ones() -> None:
    scene = KubeScene(webhook=LEASE)
    scene.see("namespaces", namespace("shop", annotations={"ullage/protected": "true", "document": "x" * 64}))
    [fact] = [event for event in scene.events("pod-changes-by-cluster") if isinstance(event, ObjectMetadataChanged)]
    assert (fact.key, fact.annotations) == ("real/Namespace/shop/shop", {"ullage/protected": "true"})


def test_service_accounts_with_labels_are_told_to_the_updater_beside_namespaces_of_their_name_also_after_a_restart() -> None:
    scene = KubeScene(webhook=LEASE)
    scene.see("serviceaccounts", account("bare"), account("shop", tier="critical"), account("old", tier="low"))
    scene.see("namespaces", namespace("shop", team="a"))
    scene.restart()
    scene.see("serviceaccounts", account("shop", tier="critical"))
    scene.see("namespaces", namespace("shop", team="a"))
    scene.sync()
    seen = [("shop", {"tier": "critical"}), ("old", {"tier": "low"}), ("shop", {"team": "a"}), ("old", None)]
    assert facts(scene, "pod-changes-by-cluster") == seen


def test_namespaces_are_watched_with_node_scaling_and_for_updates_and_a_topic_is_vouched_for_only_with_them() -> None:
    scene = KubeScene(nodes=True)
    assert "namespaces" in [watch.name for watch in watches(nodes=True)]
    assert "namespaces" in [watch.name for watch in watches(webhook=LEASE)]
    assert "namespaces" not in [watch.name for watch in watches()]
    scene.sync()
    assert "scheduling-changes" in scene.sync_status.synced_topics()
    scene.fail("namespaces")
    assert "scheduling-changes" not in scene.sync_status.synced_topics()


def test_each_kind_whose_labels_protect_pods_is_told_to_the_updater() -> None:
    assert PROTECTORS.keys() <= {row.kind for row in UPDATE_RESOURCES}


@pytest.mark.parametrize("resource", STORAGE, ids=[resource.name for resource in STORAGE])
def test_a_kind_of_which_node_scaling_reads_more_is_watched_once_and_still_shows_its_labels(
    resource: ApiResource[KubeObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = update_resources.by_metadata(resource.path, "AnyKind")
    monkeypatch.setattr(watch_threads, "UPDATE_RESOURCES", (*UPDATE_RESOURCES, row))
    for nodes, read_as in ((False, LabelledObject), (True, resource.type)):
        [watch] = [watch for watch in watches(nodes=nodes, webhook=LEASE) if watch.name == resource.name]
        assert watch.resource.type is read_as
        meta = {"name": "a", "namespace": "shop", "labels": {"tier": "critical"}}
        spec = {"provisioner": "any", "driver": "any"}
        fact = row.read(decoded(read_as, {"metadata": meta, "spec": spec, **spec}), "real", START)
        assert isinstance(fact, ObjectMetadataChanged)
        assert fact.labels == {"tier": "critical"}


def test_a_source_that_watches_some_namespaces_watches_only_these_objects_of_their_kind() -> None:
    seen = [watch.resource for watch in watches(["shop", "data"], webhook=LEASE) if watch.kind == "namespaces"]
    assert [(each.path, each.field_selector) for each in seen] == [
        ("/api/v1/namespaces", "metadata.name=shop"),
        ("/api/v1/namespaces", "metadata.name=data"),
    ]
    accounts = [watch.resource.path for watch in watches(["shop"], webhook=LEASE) if watch.kind == "serviceaccounts"]
    assert accounts == ["/api/v1/namespaces/shop/serviceaccounts"]


def test_two_watches_of_one_name_are_refused_as_the_list_of_one_would_withdraw_the_others_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = by_metadata("/apis/example.com/v1/limitranges", "LimitRange")
    monkeypatch.setattr(watch_threads, "UPDATE_RESOURCES", (*UPDATE_RESOURCES, theirs))
    with pytest.raises(ValueError, match="two watches are called 'limitranges': give one of them a name of its own"):
        watches(webhook=LEASE)


def test_nothing_but_metadata_is_asked_for_where_nothing_else_is_read() -> None:
    asked = {watch.name for watch in watches(webhook=LEASE) if watch.resource.metadata}
    assert asked == {"namespaces", "serviceaccounts"}
