"""The priority expander's ConfigMap: a fact as somebody wrote it, or with a sentence why it cannot be read; only where wanted."""

import re

import pytest
import yaml

from agents.logic.nodes.growth import expanders
from schemas.facts.nodes import ExpanderPrioritiesGone, ExpanderPrioritiesSeen
from streams.clients.kube.scheduling_objects import ConfigMapObject
from streams.sources.kube.publish import priority_config_map
from streams.sources.kube.watch.watched_resources import PRIORITIES, PrioritiesMap
from streams.sources.kube.watch_threads import watches
from tests.support.kube_objects import MINUTE, decoded
from tests.support.kube_scene import KubeScene

MAP = PrioritiesMap("kube-system", "cluster-autoscaler-priority-expander")


def config(text: str | None, version: str = "1") -> ConfigMapObject:
    meta = {"name": MAP.name, "namespace": MAP.namespace, "uid": "u", "resourceVersion": version}
    return decoded(ConfigMapObject, {"metadata": meta, **({} if text is None else {"data": {"priorities": text}})})


def facts(scene: KubeScene) -> list[ExpanderPrioritiesSeen | ExpanderPrioritiesGone]:
    kinds = (ExpanderPrioritiesSeen, ExpanderPrioritiesGone)
    return [event for event in scene.events("scheduling-changes") if isinstance(event, kinds)]


@pytest.fixture
def scene() -> KubeScene:
    return KubeScene(nodes=True, priorities=MAP)


def test_it_is_told_as_written_once_and_again_when_it_changes_and_when_it_goes(scene: KubeScene) -> None:
    first = config("10:\n- .*t2.*\n50:\n- .*m4.*\n- 5\n")
    scene.see(PRIORITIES, first, first)
    scene.see(PRIORITIES, config("10: [x]", "2"))
    scene.lose(PRIORITIES, first)
    one, two, gone = facts(scene)
    assert isinstance(one, ExpanderPrioritiesSeen)
    assert (one.namespace, one.name, one.unsupported) == (MAP.namespace, MAP.name, "")
    assert one.patterns == {"10": (".*t2.*",), "50": (".*m4.*", "5")}
    assert isinstance(two, ExpanderPrioritiesSeen)
    assert two.patterns == {"10": ("x",)}
    assert isinstance(gone, ExpanderPrioritiesGone)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "has nothing under the key 'priorities'"),
        ("", "has nothing under the key 'priorities'"),
        ("10: [a", "no YAML"),
        ("- a", "are no map"),
        ("10: a", "the patterns of priority '10' are no list"),
        ("10: [[a]]", "a pattern is no text"),
        ("[" * 60_000, "nested too deeply"),
        ("10: [" + "a," * 60_000 + "]", "characters; 65536 are the most"),
        ("1: [!!timestamp x]", "no YAML"),
        ('1: ["\\ud800"]', "a pattern is no Unicode text|no YAML"),
        ('"\\ud800": [a]', "a priority is no Unicode text|no YAML"),
        ('"\\ud800": a', "a priority is no Unicode text|no YAML"),
        ("0: {<<: {a: b}}", "have a merge"),
        ("? !!merge a\n: b", "have a merge"),
        ("1: [0x_]", "no YAML"),
        ("1: [2024-99-99]", "no YAML"),
        ("1: [!!int foo]", "no YAML"),
        ('1: [!!int "\\ud800"]', "no YAML"),
        (f"1: [{'7' * 5000}]", "no YAML"),
        (f"1: [0x{'f' * 5000}]", "a pattern is too large a number"),
        (f"? 0x{'f' * 5000}\n: [a]", "a priority is too large a number"),
        ("0: &a [" + "a," * 900 + "]\n" + "".join(f"{n}: *a\n" for n in range(1, 900)), "more than 16000 characters"),
        (f"0: [{'a' * 9000}]", "the priorities are too large"),
        (f"0: [&a {'a' * 9000}, *a]", "more than 16000 characters"),
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_what_cannot_be_read_is_a_sentence_in_the_fact(
    scene: KubeScene, text: str | None, says: str, loader: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority_config_map, "_LOADER", loader)
    scene.see(PRIORITIES, config(text))
    (fact,) = facts(scene)
    assert isinstance(fact, ExpanderPrioritiesSeen)
    assert fact.patterns == {}
    assert re.search(says, fact.unsupported)


@pytest.mark.parametrize(
    "text", ["{10: [a.*], -1: [b]}", "'7': [true, 1.5]", "7: ['<<']", "1.5: [a]", "x: [a]", "true: [a]", "1: null", "2: ['(a']"]
)
def test_what_the_fact_carries_is_read_as_the_document_itself(scene: KubeScene, text: str) -> None:
    scene.see(PRIORITIES, config(text))
    (fact,) = facts(scene)
    assert isinstance(fact, ExpanderPrioritiesSeen)
    assert not fact.unsupported

    def read(document: object) -> object:
        try:
            return expanders.read_priorities(document)
        except expanders.PrioritiesError:
            return "refused"

    assert read({key: list(each) for key, each in fact.patterns.items()}) == read(yaml.safe_load(text))


def test_a_restart_says_nothing_again_and_a_map_that_went_meanwhile_is_gone(scene: KubeScene) -> None:
    scene.see(PRIORITIES, config("10: [a]"))
    scene.restart()
    scene.see(PRIORITIES, config("10: [a]"))
    scene.sync(PRIORITIES)
    assert len(facts(scene)) == 1
    scene.restart()
    scene.sync(PRIORITIES)
    scene.later(MINUTE)
    assert isinstance(facts(scene)[-1], ExpanderPrioritiesGone)


def test_it_is_watched_alone_and_only_where_it_is_named() -> None:
    assert PRIORITIES not in [watch.kind for watch in watches(nodes=True)]
    (watch,) = [watch for watch in watches(nodes=True, priorities=MAP) if watch.kind == PRIORITIES]
    assert watch.resource.path == "/api/v1/namespaces/kube-system/configmaps"
    assert watch.resource.field_selector == f"metadata.name={MAP.name}"
