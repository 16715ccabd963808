"""Which VPA governs a pod."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.logic.admission import admission_review, pod_spec
from agents.logic.admission.admission_review import Unresolved
from agents.logic.admission.pod_spec import PodOwnerReference
from agents.logic.admission.vpa_manifest import ContainerPolicyManifest, CpuBoost, StartupBoostManifest, UpdatePolicyManifest, Vpa
from schemas.policies.vpa import Operator, Requirement, TargetRef
from tests.support.admission_manifests import container, pod
from tests.support.admission_tables import Tables

OLD = datetime(2026, 1, 1, tzinfo=UTC)
APP = (Requirement("app", Operator.IN, ("a",)),)
GOVERNOR = Vpa("default", "v", OLD, TargetRef("Deployment", "web"), APP)
DEPLOYMENT = PodOwnerReference("Deployment", "web", "apps/v1")
REPLICA_SET = PodOwnerReference("ReplicaSet", "web-1", "apps/v1")
BOOST = StartupBoostManifest(CpuBoost("Factor", 2))


def lookup(*vpas: Vpa, top: Any = DEPLOYMENT) -> Tables:
    return Tables({("default", "Deployment", "web"): vpas}, {}, {("default", REPLICA_SET): top})


def governor(*vpas: Vpa, top: Any = DEPLOYMENT, **metadata: Any) -> Vpa | str:
    return admission_review.governing(pod_spec.read(pod(container(), **metadata)), lookup(*vpas, top=top))


def test_the_vpa_of_the_topmost_controller_governs_the_pods_that_it_selects() -> None:
    assert governor(GOVERNOR) == GOVERNOR
    assert governor(GOVERNOR, labels={"app": "b"}) == "no VPA of Deployment 'web' selects the pod"
    assert governor(GOVERNOR, labels=None) == "no VPA of Deployment 'web' selects the pod"


def test_of_two_the_older_one_governs_and_of_equally_old_ones_the_first_by_name() -> None:
    younger = replace(GOVERNOR, name="a", created=OLD + timedelta(seconds=1))
    twin = replace(GOVERNOR, name="u")
    assert governor(younger, GOVERNOR) == GOVERNOR
    assert governor(GOVERNOR, twin) == twin


def test_a_selector_that_is_not_known_or_another_namespace_selects_nothing() -> None:
    assert isinstance(governor(replace(GOVERNOR, selector=None)), str)
    assert isinstance(governor(replace(GOVERNOR, namespace="other")), str)


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace", "", None])
def test_every_mode_but_off_is_applied_to_new_pods(mode: str | None) -> None:
    vpa = replace(GOVERNOR, update=UpdatePolicyManifest(mode))
    assert governor(vpa) == vpa


def test_in_mode_off_only_a_boost_is_applied() -> None:
    off = replace(GOVERNOR, update=UpdatePolicyManifest("Off"))
    assert governor(off) == "the VPA of Deployment 'web' is in mode Off"
    for boosting in (replace(off, startup=BOOST), replace(off, policies=(ContainerPolicyManifest("c", startup=BOOST),))):
        assert governor(boosting) == boosting


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        (None, "no controller that could be a target is above ReplicaSet 'web-1'"),
        (PodOwnerReference("StatefulSet", "web"), "no VPA names StatefulSet 'web'"),
        (
            Unresolved("its owners form a circle"),
            Unresolved("the topmost controller above ReplicaSet 'web-1' is not known: its owners form a circle"),
        ),
    ],
)
def test_what_the_owners_lead_to_is_the_only_thing_that_counts(top: Any, reason: str) -> None:
    assert governor(GOVERNOR, top=top) == reason


def test_a_pod_that_no_controller_owns_is_governed_by_nothing() -> None:
    assert governor(GOVERNOR, ownerReferences=None) == "no controller owns the pod"
    owner = {"kind": "ReplicaSet", "name": "web-1", "apiVersion": "apps/v1"}
    assert governor(GOVERNOR, ownerReferences=[owner]) == "no controller owns the pod"
    assert governor(GOVERNOR, ownerReferences=[owner | {"controller": False}]) == "no controller owns the pod"


def test_an_owner_of_which_nothing_else_is_known_is_its_own_topmost_controller() -> None:
    tables = Tables({("default", "ReplicaSet", "web-1"): [GOVERNOR]})
    assert admission_review.governing(pod_spec.read(pod(container())), tables) == GOVERNOR
