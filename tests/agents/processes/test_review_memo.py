"""A remembered answer is the one that would be given anew, and is forgotten as soon as anything that it rests on changes."""

import copy
import json
from typing import Any

import pytest

from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.units import Cores
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.review_interface import Review, UnknownOwner
from tests.support import admission_manifests
from tests.support.admission_scene import CLUSTER, START, AdmissionScene

WEB = ControllerKey("default", "Deployment", "web")
NOTE = "/metadata/annotations/ullage~1admission"


@pytest.fixture
def scene() -> AdmissionScene:
    made = AdmissionScene()
    made.vpa()
    made.recommend()
    made.view.catch_up()
    return made


def judged(scene: AdmissionScene, review: dict[str, Any], top: Any = WEB) -> Review:
    return scene.admission.judge(json.dumps(review).encode(), lambda _: top)


def anew(scene: AdmissionScene, review: dict[str, Any], top: Any = WEB) -> Review:
    """By somebody who remembers nothing."""
    view = scene.new_view()
    view.catch_up()
    return view.reviewer.review(json.dumps(review).encode(), lambda _: top)


def review(scene: AdmissionScene, uid: str = "u-1") -> dict[str, Any]:
    return admission_manifests.review(scene.pod(), uid=uid)


def test_the_pods_of_a_rollout_are_answered_alike_each_under_its_own_uid(scene: AdmissionScene) -> None:
    first, second = judged(scene, review(scene, "one")), judged(scene, review(scene, "two"))
    assert (first.uid, second.uid) == ("one", "two")
    assert json.loads(second.body)["response"].pop("uid") == "two"
    assert first.body.replace(b"one", b"two") == second.body == anew(scene, review(scene, "two")).body
    assert (first.changes, first.workload, first.cause) == (second.changes, second.workload, second.cause)


CHANGES = {
    "labels": (("metadata", "labels"), {"app": "b"}),
    "namespace": (("metadata", "namespace"), "elsewhere"),
    "name": (("metadata", "name"), "another"),
    "owner": (("metadata", "ownerReferences"), []),
    "annotations": (("metadata", "annotations"), {"vpaObservedContainers": "c"}),
    "resources": (("spec", "containers", 0, "resources"), {"requests": {"cpu": "7"}, "limits": {"cpu": "14"}}),
    "container": (("spec", "containers", 0, "name"), "d"),
    "status": (
        ("status",),
        {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "9"}, "limits": {"cpu": "9"}}}]},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_pod_that_differs_in_anything_that_counts_is_judged_anew(scene: AdmissionScene, name: str) -> None:
    judged(scene, review(scene))
    path, value = CHANGES[name]
    other = copy.deepcopy(review(scene))
    place = other["request"]["object"]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert judged(scene, other) == anew(scene, other)


@pytest.mark.parametrize("field", ["dryRun", "operation", "namespace", "resource", "requestKind", "subResource"])
def test_a_request_that_differs_is_judged_anew(scene: AdmissionScene, field: str) -> None:
    judged(scene, review(scene))
    other = review(scene)
    other["request"][field] = {"dryRun": True, "operation": "UPDATE", "namespace": "x", "subResource": "resize"}.get(
        field, {"group": "", "version": "v2", "resource": "pods", "kind": "Pod"}
    )
    assert judged(scene, other) == anew(scene, other)


def test_a_new_recommendation_policy_limit_range_or_owner_counts_at_once(scene: AdmissionScene) -> None:
    same = review(scene)
    assert "cpu request 250m" in judged(scene, same).changes
    scene.recommend(turn=1, cpu=0.5)
    scene.view.catch_up()
    assert "cpu request 500m" in judged(scene, same).changes
    limit = Limit(LimitType.CONTAINER, most=Amounts(Cores(0.3), None), default_limits=Amounts(Cores(0.3), None))
    event = LimitRangeChanged(START, CLUSTER, "default", "lr", (limit,))
    scene.policy(event, event.key)
    scene.view.catch_up()
    assert judged(scene, same) == anew(scene, same)
    assert "cpu request 500m" not in judged(scene, same).changes
    assert judged(scene, same, UnknownOwner("nobody answered")).status == "error"
    assert judged(scene, same, ControllerKey("default", "Deployment", "other")).status == "skipped"
    assert judged(scene, same).status == "applied"


def amounts(judged: Review) -> list[dict[str, Any]]:
    """All operations of a patch but the note of admission."""
    return [op for op in admission_manifests.operations(json.loads(judged.body)) if op["path"] != NOTE]


def note(judged: Review) -> dict[str, Any]:
    [op] = [op for op in admission_manifests.operations(json.loads(judged.body)) if op["path"] == NOTE]
    return op


def test_the_same_recommendation_published_again_is_the_one_that_the_outcome_names(scene: AdmissionScene) -> None:
    before = judged(scene, review(scene))
    scene.recommend(turn=1)
    scene.view.catch_up()
    after = judged(scene, review(scene))
    assert amounts(before) == amounts(after)
    assert note(before) != note(after), "a pod's note says which recommendation it follows"
    assert before.decision != after.decision
    assert before.cause != after.cause
