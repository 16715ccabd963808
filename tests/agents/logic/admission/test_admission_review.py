"""Reviews in and out, whatever they hold."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.admission import admission_review as reviews
from agents.logic.admission import vpa_manifest
from agents.logic.admission.admission_report import ReviewStatus
from agents.logic.admission.admission_review import Reply
from agents.logic.admission.pod_spec import PodOwnerReference
from agents.logic.admission.vpa_manifest import AdmissionSettings, Vpa
from tests.support.admission_manifests import advice, applied, bounded_by, container, limit_range, operations, pod, review, vpa
from tests.support.admission_tables import Tables

Json = dict[str, Any]

SETTINGS = AdmissionSettings()
SMALL, TARGET = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "250m", "memory": "200Mi"}
GOVERNOR = replace(vpa_manifest.read(vpa(advice(target=TARGET))), selector=())
BOUNDED = {"default": bounded_by([limit_range(max={"cpu": "200m"}, default={"cpu": "1"})])}
OWNER, TOP = PodOwnerReference("ReplicaSet", "web-1", "apps/v1"), PodOwnerReference("Deployment", "web", "apps/v1")


def lookup(governor: Vpa = GOVERNOR, bounds: Any = None) -> Tables:
    return Tables({("default", "Deployment", "web"): [governor]}, bounds or {}, {("default", OWNER): TOP})


def answer(asked: Any, governor: Vpa = GOVERNOR, **bounds: Any) -> Reply:
    return reviews.answer(asked, lookup(governor, bounds), SETTINGS)


def response(asked: Any) -> Json:
    found = answer(asked).review["response"]
    assert isinstance(found, dict)
    return found


def let_through(asked: Any, words: str) -> None:
    """Allowed without a patch, and why is said in a warning and in the account."""
    found = answer(asked)
    said = found.review["response"]
    assert isinstance(said, dict)
    assert said["allowed"] is True
    assert "patch" not in said
    assert words in said["warnings"][0]
    assert words in found.account.reason
    assert found.account.status is ReviewStatus.ERROR


@pytest.mark.parametrize("form", [lambda asked: asked, json.dumps, lambda asked: json.dumps(asked).encode()])
def test_a_review_is_answered_with_a_patch_in_base64(form: Any) -> None:
    manifest = pod(container(requests=SMALL))
    found = answer(form(review(manifest)))
    assert found.review["kind"] == "AdmissionReview"
    assert found.review["apiVersion"] == "admission.k8s.io/v1"
    said = found.review["response"]
    assert isinstance(said, dict)
    assert said.keys() == {"uid", "allowed", "patch", "patchType"}
    assert (said["uid"], said["allowed"], said["patchType"]) == ("u-1", True, "JSONPatch")
    assert applied(manifest, operations(found.review))["spec"]["containers"][0]["resources"]["requests"] == TARGET


def test_the_account_names_the_pod_the_vpa_and_every_change() -> None:
    found = answer(review(pod(container(requests=SMALL)), dryRun=True)).account
    assert (found.status, found.vpa, found.namespace, found.name) == (ReviewStatus.APPLIED, "name", "default", "p")
    assert (found.uid, found.resource, found.operation, found.dry_run) == ("u-1", "pods", "CREATE", True)
    assert [change.container for change in found.containers] == ["c"]
    assert not answer(review(pod(container(requests=SMALL)))).account.dry_run


def test_a_dry_run_is_answered_like_any_other() -> None:
    manifest = pod(container(requests=SMALL))
    assert response(review(manifest, dryRun=True)) == response(review(manifest))


def test_a_pod_without_a_name_is_known_by_its_start_and_the_namespace_of_the_request() -> None:
    manifest = pod(container(requests=SMALL), name=None, namespace=None, generateName="web-1-")
    found = answer(review(manifest), default=BOUNDED["default"])
    assert (found.account.name, found.account.namespace) == ("web-1-%", "default")
    set_to = applied(manifest, operations(found.review))["spec"]["containers"][0]["resources"]["requests"]
    assert set_to == {"cpu": "20m", "memory": "200Mi"}  # 200m at most, at the ratio of 100m to the default limit of 1


def test_a_pod_that_nothing_governs_is_skipped_without_a_warning() -> None:
    said = response(review(pod(container(requests=SMALL), ownerReferences=None)))
    assert said == {"uid": "u-1", "allowed": True}


def test_asked_again_the_answer_is_empty() -> None:
    manifest = pod(container(requests=SMALL))
    once = applied(manifest, operations(answer(review(manifest)).review))
    found = answer(review(once))
    assert found.review["response"] == {"uid": "u-1", "allowed": True}
    assert (found.account.status, found.account.reason) == (ReviewStatus.SKIPPED, "the pod is as the patch would leave it")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"null", "it is null"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"request": NaN}', "'NaN' is no JSON"),
        (b'{"request": 1' + b"0" * 5000 + b"}", "it is no JSON"),
        (b" " * (6 * 1024 * 1024), "it has 6291456 bytes, and 5242880 are read at most"),
        ({}, "it has no request"),
        ({"request": []}, "it has no request"),
        ({"request": {"uid": 5}}, "uid is a number where a string belongs"),
        ({"request": {"uid": "u", "resource": "pods"}}, "resource is a string where an object belongs"),
        ({"request": {"uid": "u"}}, "resource '' of group '' is not served here"),
        (review({}, resource="nodes"), "resource 'nodes' of group 'autoscaling.k8s.io' is not served here"),
        (review(None), "the pod has no metadata"),
        (review("pod"), ". is a string where an object belongs"),
        (review(pod(container(requests={"cpu": "1x"}))), "quantities must match the regular expression"),
        (review(pod(container(requests={"cpu": []}))), "quantities must match the regular expression"),
        (review(pod({"name": 5})), "spec.containers.name is a number where a string belongs"),
        (review(pod(container(), labels={"app": 1})), "metadata.labels[app] is a number where a string belongs"),
        (review(pod(), resource="pods", resource_version=1) | {"request": None}, "it has no request"),
    ],
)
def test_what_cannot_be_read_is_let_through_with_a_warning(asked: Any, words: str) -> None:
    let_through(asked, words)


def test_only_pods_of_version_1_are_patched() -> None:
    asked = review(pod(container(requests=SMALL)))
    asked["request"]["resource"]["version"] = "v2"
    let_through(asked, "only v1 Pods are supported")


@pytest.mark.parametrize("other", [{"operation": "UPDATE"}, {"operation": "DELETE"}, {"subResource": "eviction"}])
def test_only_new_pods_are_patched(other: Json) -> None:
    assert response(review(pod(container(requests=SMALL)), **other)) == {"uid": "u-1", "allowed": True}


def test_a_failure_of_the_arithmetic_is_let_through() -> None:
    bounds = {"default": bounded_by([limit_range(type="Pod", min={"cpu": "9"})])}
    asked = review(pod(container(requests=SMALL, limits=SMALL), container("b", SMALL, SMALL)))
    tables = lookup(
        replace(GOVERNOR, advice=(replace(GOVERNOR.advice[0], upper={"cpu": GOVERNOR.advice[0].target["cpu"]}),)), bounds
    )  # type: ignore[index]  # there is one
    said = reviews.answer(asked, tables, SETTINGS).review["response"]
    assert isinstance(said, dict)
    assert said["allowed"] is True
    assert "for which nothing is recommended" in said["warnings"][0]


@pytest.mark.parametrize("start", [b'{"request": {"uid": "u-7", ', b'{"kind": "x", "request": {"uid":"u-7"' + b" " * 6_000_000])
def test_the_uid_is_answered_even_when_the_rest_cannot_be_read(start: bytes) -> None:
    assert response(start)["uid"] == "u-7"


@pytest.mark.parametrize(
    ("amount", "milli"), [(1, "2500m"), (0.5, "1250m"), ("5e-1", "1250m"), ("500e-3", "1250m"), ("1e99999999", None)]
)
def test_amounts_in_any_notation_are_read_exactly(amount: Any, milli: str | None) -> None:
    """The limit is 2.5 times the request of 100m ... of 1, so it follows to 2.5 times the amount recommended."""
    manifest = pod(container(requests={"cpu": amount}, limits={"cpu": 1.25 if amount != 1 else "2.5"}))
    found = answer(review(manifest), replace(GOVERNOR, advice=vpa_manifest.read(vpa(advice(target={"cpu": "1"}))).advice))
    limits = [op["value"] for op in operations(found.review) if op["path"].endswith("/limits/cpu")]
    assert limits == (["2500m"] if milli else ["1"])


def test_a_thousand_containers_are_patched_in_one_go() -> None:
    names = [f"c{i}" for i in range(1_000)]
    governor = replace(vpa_manifest.read(vpa(*(advice(name, TARGET) for name in names))), selector=())
    found = answer(review(pod(*(container(name, SMALL) for name in names))), governor)
    assert len(found.account.containers) == 1_000
    assert len(operations(found.review)) == 3 + 2 * 1_000


def test_a_vpa_is_completed_and_its_warnings_are_passed_on() -> None:
    said = answer(review(vpa(), resource="verticalpodautoscalers", name="name"))
    assert operations(said.review) == [{"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}]
    auto = response(review(vpa(updatePolicy={"updateMode": "Auto"}), resource="verticalpodautoscalers", operation="UPDATE"))
    assert auto["allowed"] is True
    assert "deprecated" in auto["warnings"][0]


def test_a_vpa_that_breaks_the_rules_is_denied_with_all_that_is_wrong() -> None:
    bad = vpa(updatePolicy={"updateMode": "bad", "minReplicas": 0})
    found = answer(review(bad, resource="verticalpodautoscalers", name="name"))
    said = found.review["response"]
    assert isinstance(said, dict)
    assert said["allowed"] is False
    assert said["status"]["code"] == 422
    assert said["status"]["details"]["kind"] == "VerticalPodAutoscaler"
    assert len(said["status"]["details"]["causes"]) == 2
    assert found.account.status is ReviewStatus.DENIED


def test_on_an_update_the_old_object_counts_and_on_a_deletion_nothing_does() -> None:
    broken = vpa(resourcePolicy={"containerPolicies": [{"containerName": "c", "controlledResources": ["gpu"]}]})
    asked = {"resource": "verticalpodautoscalers", "oldObject": broken}
    assert response(review(broken, **asked))["allowed"] is False
    assert response(review(broken, operation="UPDATE", **asked))["allowed"] is True
    assert response(review(None, operation="DELETE", **asked)) == {"uid": "u-1", "allowed": True}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1Gi", "100m", "1e9999999", "Off", "CREATE"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MANIFESTS = [pod(container(requests=SMALL, limits=SMALL)), vpa(advice(target=TARGET), updatePolicy={"updateMode": "Auto"}), {}]


def places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a manifest."""
    inner = list(found.items()) if isinstance(found, dict) else list(enumerate(found)) if isinstance(found, list) else []
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A good review with arbitrary JSON somewhere in it."""
    asked = review(draw(st.sampled_from(MANIFESTS)), resource=draw(st.sampled_from(["pods", "verticalpodautoscalers"])))
    asked = json.loads(json.dumps(asked | {"request": asked["request"] | {"oldObject": draw(st.sampled_from(MANIFESTS))}}))
    *parents, last = draw(st.sampled_from(places(asked)[1:]))
    place = asked
    for part in parents:
        place = place[part]
    place[last] = draw(JSON)
    return asked


def sound(found: Reply) -> None:
    """An answer that an API server takes: valid JSON, and only a VPA object is ever denied."""
    said = found.review["response"]
    assert isinstance(said, dict)
    json.dumps(found.review, allow_nan=False).encode()
    assert isinstance(said["uid"], str)
    assert said["allowed"] is True or found.account.resource == "verticalpodautoscalers"
    assert found.account.ops or found.account.reason
    operations(found.review)


@given(JSON)
def test_any_json_is_answered(asked: Any) -> None:
    sound(answer(json.dumps(asked)))
    if isinstance(asked, dict):
        sound(answer(asked))


@given(damaged())
def test_any_damage_to_a_review_is_answered(asked: Any) -> None:
    sound(answer(asked))
    sound(answer(json.dumps(asked)))


@given(st.binary())
def test_any_bytes_are_answered(asked: bytes) -> None:
    sound(answer(asked))
