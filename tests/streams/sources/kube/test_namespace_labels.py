"""Labels of namespaces: with node scaling a fact for each, told once, again when they change, and when the namespace goes."""

import pytest

from schemas.bounds import MOST_ENTRIES
from schemas.facts.namespaces import NamespaceLabelsChanged, NamespaceRemoved
from streams.clients.kube.scheduling_objects import NamespaceObject
from streams.sources.kube.watch_list import watches
from tests.support.kube_objects import MINUTE, decoded
from tests.support.kube_scene import KubeScene


def namespace(name: str, version: str = "1", **labels: str) -> NamespaceObject:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": version, "labels": labels}
    return decoded(NamespaceObject, {"metadata": meta, "status": {"phase": "Active"}})


def facts(scene: KubeScene) -> list[tuple[str, dict[str, str] | None]]:
    """The namespaces with their labels, None where one went."""
    found = []
    for event in scene.events("scheduling-changes"):
        if isinstance(event, NamespaceLabelsChanged):
            found.append((event.namespace, dict(event.labels)))
        elif isinstance(event, NamespaceRemoved):
            found.append((event.namespace, None))
    return found


@pytest.fixture
def scene() -> KubeScene:
    return KubeScene(nodes=True)


def test_labels_are_told_once_again_when_they_change_and_when_the_namespace_goes(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", team="a"), namespace("shop", "2", team="a"))
    scene.see("namespaces", namespace("shop", "3", team="b"))
    scene.lose("namespaces", namespace("shop"))
    assert facts(scene) == [("shop", {"team": "a"}), ("shop", {"team": "b"}), ("shop", None)]


def test_a_restart_says_nothing_again_and_a_namespace_that_went_meanwhile_is_gone(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", team="a"), namespace("old"))
    scene.later(MINUTE)
    scene.restart()
    scene.see("namespaces", namespace("shop", team="a"))
    scene.sync("namespaces")
    assert facts(scene) == [("shop", {"team": "a"}), ("old", {}), ("old", None)]


def test_labels_beyond_what_is_kept_of_one_object_are_left_out(scene: KubeScene) -> None:
    scene.see("namespaces", namespace("shop", **{f"l{number}": "x" for number in range(MOST_ENTRIES + 1)}))
    assert facts(scene) == [("shop", {})]


def test_namespaces_are_watched_only_with_node_scaling_and_its_topic_is_vouched_for_only_with_them(scene: KubeScene) -> None:
    assert "namespaces" in [watch.name for watch in watches(nodes=True)]
    assert "namespaces" not in [watch.name for watch in watches()]
    scene.sync()
    assert "scheduling-changes" in scene.sync_status.synced_topics()
    scene.fail("namespaces")
    assert "scheduling-changes" not in scene.sync_status.synced_topics()
