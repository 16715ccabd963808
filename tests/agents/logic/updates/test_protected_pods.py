"""Pods that the updater leaves alone for the sake of their namespace or ServiceAccount."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates.update_settings import UpdateRules
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.facts.pods import PROTECTORS
from schemas.facts.update_facts import NAMESPACE, SERVICE_ACCOUNT, ObjectMetadataChanged, ObjectMetadataRemoved
from tests.agents.logic.updates.test_updater import LATER, look, open_stage, recommend
from tests.support.cluster_events import MINUTE, START, pod, when

PODS = [pod(name, START, service_account=account) for name, account in (("a", "worker"), ("b", "worker"), ("c", "other"))]


def marked(kind: str, name: str, cluster: str = "demo", **more: Any) -> ObjectMetadataChanged:
    return ObjectMetadataChanged(when(START), cluster, kind, "web", name, **more)


def decided(*facts: Any, **settings: Any) -> tuple[list[str], set[str]]:
    """The pods that are resized, and why others are not."""
    stage = open_stage(*PODS, *facts, eviction_tolerance=1.0, **settings)
    events = look(stage, recommendations_by_cluster=[recommend(LATER)])
    resized = [event.pod.name for event in events if isinstance(event, ResizePlanned)]
    refused = [event for event in events if isinstance(event, UpdateRefused)]
    assert {event.guard for event in refused} <= {"protected"}
    return resized, {event.reason for event in refused}


PROTECTED = {"ullage/protected": "true"}
ANNOTATED = "namespace 'web' is protected by its annotation 'ullage/protected=true'"


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        (marked(NAMESPACE, "web", annotations=PROTECTED), ANNOTATED),
        (marked(NAMESPACE, "web", annotations={"ullage/protected": "false"}), ""),
        (marked(NAMESPACE, "web", labels=PROTECTED), ""),
        (marked(NAMESPACE, "web", "another cluster", annotations=PROTECTED), ""),
        (replace(marked(NAMESPACE, "data", annotations=PROTECTED), namespace="data"), ""),
        (marked(SERVICE_ACCOUNT, "web", annotations=PROTECTED), ""),
    ],
)
def test_an_annotation_of_a_namespace_protects_its_pods(fact: ObjectMetadataChanged, says: str) -> None:
    resized, reasons = decided(fact)
    assert (len(resized), reasons) == ((0, {says}) if says else (3, set()))


def test_a_namespace_is_protected_until_the_annotation_is_taken_off() -> None:
    gone = ObjectMetadataRemoved(when(START), "demo", NAMESPACE, "web", "web")
    assert len(decided(marked(NAMESPACE, "web", annotations=PROTECTED), gone)[0]) == 3
    stage = open_stage(*PODS, marked(NAMESPACE, "web", annotations=PROTECTED), eviction_tolerance=1.0)
    [refused] = look(stage, recommendations_by_cluster=[recommend(LATER)])
    assert refused.guard == "protected"
    later = look(stage, LATER + MINUTE, pod_changes_by_cluster=[marked(NAMESPACE, "web", labels={"team": "a"})])
    assert [type(event) for event in later] == [ResizePlanned] * 3


ACCOUNT = marked(SERVICE_ACCOUNT, "worker", labels={"tier": "critical", "team": "a"})
LABELLED = "the pod's ServiceAccount 'worker' is protected by its label 'tier=critical'"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("ServiceAccount:tier=critical", LABELLED),
        ("ServiceAccount:team=b, ServiceAccount:tier=*", LABELLED),
        ("ServiceAccount:tier=low", ""),
        ("Namespace:tier=critical", ""),
        ("", ""),
    ],
)
def test_a_label_of_their_service_account_protects_pods(setting: str, says: str) -> None:
    resized, reasons = decided(ACCOUNT, protected_labels=setting)
    assert (resized, reasons) == ((["c"], {says}) if says else (["a", "b", "c"], set()))


def test_a_label_of_their_namespace_protects_all_pods_in_it() -> None:
    labelled = marked(NAMESPACE, "web", labels={"team": "a"})
    reason = "the pod's Namespace 'web' is protected by its label 'team=a'"
    assert decided(labelled, protected_labels="Namespace:team=a") == ([], {reason})


@pytest.mark.parametrize("pattern", ["tier=critical", "ServiceAccount:tier", "serviceaccount:tier=*", "*:tier=*"])
def test_what_is_no_label_of_a_kind_that_protects_is_refused_by_its_name(pattern: str) -> None:
    [(name, reason)] = UpdateRules(protected_labels=f"Namespace:team=a, {pattern}").faults()
    assert name == "protected_labels"
    assert reason == f"'{pattern}' is no label of {' or '.join(PROTECTORS)}, such as 'Namespace:team=a'"


def test_the_profile_upstream_knows_no_protected_pods() -> None:
    facts = marked(NAMESPACE, "web", annotations=PROTECTED), ACCOUNT
    assert len(decided(*facts, protected_labels="ServiceAccount:tier=*", profile="upstream")[0]) == 3
