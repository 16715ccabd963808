"""What a new pod gets, and in which words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.admission import pod_patch, pod_spec, vpa_manifest
from agents.logic.admission.admission_report import AdmissionPatch
from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.resources import limit_ranges
from agents.logic.resources.target_caps import CapReason
from schemas import exact_quantity
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from schemas.policies.vertical import BoostKind, ContainerPolicy, ControlledValues, StartupBoost, UpdateMode
from schemas.policies.vpa import TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from tests.support.admission_manifests import advice, applied, bounded_by, container, limit_range, pod, policy, vpa

Json = dict[str, Any]

PLAIN, BOOSTING = AdmissionSettings(), AdmissionSettings(cpu_startup_boost=True)
SMALL = {"cpu": "100m", "memory": "100Mi"}
TARGET = {"cpu": "250m", "memory": "200Mi"}


def patched(manifest: Json, governor: Json, *limits: Json, settings: AdmissionSettings = PLAIN) -> AdmissionPatch:
    return pod_patch.patch(pod_spec.read(manifest), vpa_manifest.read(governor), bounded_by(limits), settings)


def outcome(manifest: Json, governor: Json, *limits: Json, settings: AdmissionSettings = PLAIN) -> Json:
    """The first container's resources after the patch."""
    found = patched(manifest, governor, *limits, settings=settings)
    resources: Json = applied(manifest, found.ops)["spec"]["containers"][0]["resources"]
    return resources


def boost(**cpu: Any) -> Json:
    return {"cpu": cpu}


def test_requests_and_limits_are_set_in_upstreams_order_and_words() -> None:
    found = patched(pod(container(requests=SMALL, limits=SMALL)), vpa(advice(target=TARGET)))
    place, notes = "/spec/containers/0/resources", "/metadata/annotations"
    assert list(found.ops) == [
        {"op": "add", "path": notes, "value": {}},
        {"op": "add", "path": f"{place}/requests/cpu", "value": "250m"},
        {"op": "add", "path": f"{place}/requests/memory", "value": "200Mi"},
        {"op": "add", "path": f"{place}/limits/cpu", "value": "250m"},
        {"op": "add", "path": f"{place}/limits/memory", "value": "200Mi"},
        {
            "op": "add",
            "path": f"{notes}/vpaUpdates",
            "value": "Pod resources updated by name: container 0: cpu request, memory request, cpu limit, memory limit",
        },
        {"op": "add", "path": f"{notes}/vpaObservedContainers", "value": "c"},
    ]


def test_what_is_missing_is_made_before_it_is_filled() -> None:
    bare: Json = {"name": "c"}
    found = patched(pod(bare), vpa(advice(target={"cpu": "1"})), limit_range(default={"cpu": "2"}))
    paths = [str(op["path"]).removeprefix("/spec/containers/0/") for op in found.ops]
    assert paths[1:6] == ["resources", "resources/requests", "resources/requests/cpu", "resources/limits", "resources/limits/cpu"]


def test_limits_keep_their_ratio_unless_only_requests_are_controlled() -> None:
    limits = {"cpu": "150m", "memory": "200Mi"}
    manifest = pod(container(requests=SMALL, limits=limits))
    assert outcome(manifest, vpa(advice(target=TARGET)))["limits"] == {"cpu": "375m", "memory": "400Mi"}
    large = pod(container(requests=SMALL, limits={"cpu": "500m", "memory": "500Mi"}))
    only = vpa(advice(target=TARGET), resourcePolicy=policy(controlledValues="RequestsOnly"))
    assert outcome(large, only) == {"requests": TARGET, "limits": {"cpu": "500m", "memory": "500Mi"}}


def test_the_account_says_what_was_there_what_is_set_and_what_capped_it() -> None:
    governor = vpa(advice(target=TARGET), resourcePolicy=policy(maxAllowed={"cpu": "200m"}))
    (change,) = patched(pod(container(requests=SMALL)), governor).containers
    assert {name: amount.text for name, amount in change.requests_before.items()} == SMALL
    assert {name: amount.text for name, amount in change.requests.items()} == {"cpu": "200m", "memory": "200Mi"}
    assert [(cap.by, cap.before.text, cap.after.text) for cap in change.caps] == [(CapReason.MOST_ALLOWED, "250m", "200m")]


def test_a_scaling_for_the_whole_pod_is_in_the_account_and_not_in_the_annotation() -> None:
    governor = vpa(advice(target={"cpu": "1"}, lower={"cpu": "1"}, upper={"cpu": "1"}))
    manifest = pod(container(requests={"cpu": "100m"}, limits={"cpu": "100m"}))
    found = patched(manifest, governor, limit_range(type="Pod", max={"cpu": "500m"}))
    assert [cap.by for cap in found.containers[0].caps] == [CapReason.POD_RANGE]
    updates = next(op["value"] for op in found.ops if str(op["path"]).endswith("vpaUpdates"))
    assert str(updates).endswith(", cpu request, cpu limit")
    assert "scaled" not in str(updates)


def test_without_a_recommendation_only_the_containers_are_listed() -> None:
    found = patched(pod(container("a", SMALL), container("b", SMALL), annotations={"k": "v"}), vpa())
    assert list(found.ops) == [{"op": "add", "path": "/metadata/annotations/vpaObservedContainers", "value": "a, b"}]


def test_init_containers_are_never_touched() -> None:
    manifest = pod(container(requests=SMALL))
    manifest["spec"]["initContainers"] = [container("init", SMALL) | {"restartPolicy": "Always"}]
    found = patched(manifest, vpa(advice("init", TARGET)))
    assert [op["path"] for op in found.ops] == ["/metadata/annotations", "/metadata/annotations/vpaObservedContainers"]


def test_names_are_escaped_in_paths() -> None:
    found = patched(pod(container(requests={})), vpa(advice(target={"example.com/a~b": "1"})))
    assert "/spec/containers/0/resources/requests/example.com~1a~0b" in [op["path"] for op in found.ops]


def test_a_resource_without_a_name_is_left_out() -> None:
    found = patched(pod(container(requests=SMALL)), vpa(advice(target={"": "1", "cpu": "1"})))
    assert [op["value"] for op in found.ops if "/requests/" in str(op["path"])] == ["1"]


def test_claims_survive_and_a_status_does_not_hide_what_the_spec_lacks() -> None:
    manifest = pod({"name": "c", "resources": {"claims": [{"name": "gpu"}]}})
    manifest["status"] = {"containerStatuses": [{"name": "c", "resources": {"requests": SMALL, "limits": SMALL}}]}
    resources = outcome(manifest, vpa(advice(target=TARGET)))
    assert resources == {"claims": [{"name": "gpu"}], "requests": TARGET, "limits": TARGET}


def test_in_mode_off_nothing_is_set() -> None:
    found = patched(pod(container(requests=SMALL)), vpa(advice(target=TARGET), updatePolicy={"updateMode": "Off"}))
    assert [op["path"] for op in found.ops] == ["/metadata/annotations", "/metadata/annotations/vpaObservedContainers"]


@pytest.mark.parametrize(
    ("said", "most", "expected"),
    [
        (boost(type="Factor", factor=2), "0", "200m"),
        (boost(factor=2), "0", "200m"),
        (boost(type="Quantity", quantity="500m"), "0", "600m"),
        (boost(type="Factor", factor=2), "40m", "40m"),
    ],
)
def test_a_boost_multiplies_or_adds_up_to_the_most_that_is_allowed(said: Json, most: str, expected: str) -> None:
    settings = AdmissionSettings(cpu_startup_boost=True, most_boosted_cpu=exact_quantity.parse(most))
    manifest = pod(container(requests={"cpu": "1m"}, limits={"cpu": "1m"}))
    governor = vpa(advice(target={"cpu": "100m"}), startupBoost=said)
    assert outcome(manifest, governor, settings=settings) == {"requests": {"cpu": expected}, "limits": {"cpu": expected}}
    assert outcome(manifest, governor) == {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}


def test_a_boosted_limit_keeps_its_ratio_and_what_was_there_is_kept() -> None:
    governor = vpa(advice(target={"cpu": "100m"}), startupBoost=boost(type="Factor", factor=3))
    manifest = pod(container(requests={"cpu": "100m"}, limits={"cpu": "300m"}))
    assert outcome(manifest, governor, settings=BOOSTING) == {"requests": {"cpu": "300m"}, "limits": {"cpu": "900m"}}
    only = pod(container(requests={"cpu": "100m"}))
    found = applied(only, patched(only, governor, settings=BOOSTING).ops)
    assert found["metadata"]["annotations"]["vpaCpuStartupBoost/c"] == '{"requests":{"cpu":"100m"},"limits":{}}'
    assert found["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "300m"}}


@pytest.mark.parametrize(("limit", "expected"), [("150m", "149m"), ("1m", "1m"), ("1", "300m")])
def test_a_boosted_request_stays_a_millicore_below_a_limit_that_stays(limit: str, expected: str) -> None:
    boosted = {"resourcePolicy": policy(controlledValues="RequestsOnly"), "startupBoost": boost(type="Factor", factor=3)}
    manifest = pod(container(requests={"cpu": "1m"}, limits={"cpu": limit}))
    resources = outcome(manifest, vpa(advice(target={"cpu": "100m" if limit != "1m" else "1m"}), **boosted), settings=BOOSTING)
    assert resources == {"requests": {"cpu": expected}, "limits": {"cpu": limit}}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (boost(type="Factor", factor=0), "boost factor must be >= 1"),
        (boost(type="Factor"), "startupBoost.CPU.Factor is required when Type is Factor or not specified"),
        (boost(type="Quantity"), "startupBoost.CPU.Quantity is required when Type is Quantity"),
        (boost(type="More"), "unsupported startup boost type: More"),
        ({}, "startupBoost has no cpu"),
    ],
)
def test_a_boost_that_cannot_be_applied_leaves_the_pod_as_it_is(said: Json, reason: str) -> None:
    found = patched(pod(container(requests=SMALL)), vpa(advice(target=TARGET), startupBoost=said), settings=BOOSTING)
    assert found == AdmissionPatch(reason=reason, failed=True)


def test_in_mode_off_a_pod_limit_range_that_has_no_answer_keeps_no_boost() -> None:
    """Upstream clears the recommendation first."""
    manifest = pod(container(requests={"cpu": "250m"}, limits={"cpu": "250m"}), container("d", limits={"memory": "100Mi"}))
    said = {"startupBoost": boost(type="Factor", factor=2), "updatePolicy": {"updateMode": "Off"}}
    limits = limit_range(type="Pod", max={"memory": "64Mi"}, default={"memory": "64Mi"})
    governor = vpa(advice("d", *[{"cpu": "1", "memory": "1Gi"}] * 3), **said)
    assert outcome(manifest, governor, limits, settings=BOOSTING)["requests"] == {"cpu": "500m"}
    assert patched(manifest, governor | {"spec": governor["spec"] | {"updatePolicy": None}}, limits, settings=BOOSTING).failed


def test_a_boost_is_applied_in_mode_off_and_not_to_a_container_that_is_off() -> None:
    said = {"startupBoost": boost(type="Factor", factor=2), "updatePolicy": {"updateMode": "Off"}}
    manifest = pod(container(requests={"cpu": "100m"}))
    assert outcome(manifest, vpa(advice(target={"cpu": "1"}), **said), settings=BOOSTING) == {"requests": {"cpu": "200m"}}
    off = vpa(advice(target={"cpu": "1"}), **said, resourcePolicy=policy(mode="Off"))
    assert [op["path"] for op in patched(manifest, off, settings=BOOSTING).ops][
        -1
    ] == "/metadata/annotations/vpaObservedContainers"
    assert outcome(manifest, off, settings=BOOSTING) == {"requests": {"cpu": "100m"}}


def test_what_the_log_says_is_patched_like_what_the_manifest_says() -> None:
    changed = VpaChanged(
        vpa_manifest.json_fields.NEVER,
        "k",
        "default",
        "name",
        vpa_manifest.json_fields.NEVER,
        target_ref=TargetRef("Deployment", "web", "apps/v1"),
        selector=(),
        update_mode=UpdateMode.IN_PLACE,
        containers=(ContainerPolicy("*", max_allowed=Amounts(Cores(0.2)), controlled_values=ControlledValues.REQUESTS_ONLY),),
        boost=StartupBoost(BoostKind.QUANTITY, quantity=Cores(0.5)),
    )
    amounts = Amounts(Cores(0.25), Bytes(262144000))
    recommended = [ContainerRecommendation("c", amounts, amounts, amounts, amounts)]
    same = {"cpu": "250m", "memory": "250Mi"}
    governor = vpa(
        advice(target=same, lower=same, upper=same),
        updatePolicy={"updateMode": "InPlace"},
        resourcePolicy=policy(maxAllowed={"cpu": "200m"}, controlledValues="RequestsOnly"),
        startupBoost=boost(type="Quantity", quantity="500m"),
    )
    manifest = pod(container(requests=SMALL))
    read = pod_spec.read(manifest)
    found = pod_patch.patch(read, vpa_manifest.of_event(changed, recommended), limit_ranges.NONE, BOOSTING)
    assert found == patched(manifest, governor, settings=BOOSTING)
    assert vpa_manifest.of_event(changed, None).advice is None


def test_asked_again_a_request_that_a_limit_range_lets_go_only_a_part_of_the_way_stays_there() -> None:
    """A 64th of what is left would be a little more each time."""
    manifest = pod(container(requests={}))
    governor = vpa(advice(target={"memory": "7Ki"}), resourcePolicy=policy(controlledValues="RequestsOnly"))
    limits = limit_range(type="Container", max={"memory": "4Ki"})
    first = patched(manifest, governor, limits)
    assert first.containers[0].held[0].startswith("memory is changed only in part")
    assert patched(applied(manifest, first.ops), governor, limits).ops == ()


AMOUNTS = st.integers(1, 20000)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Json, Json, list[Json], AdmissionSettings]:
    def amounts() -> Json:
        kept = draw(st.sets(st.sampled_from(["cpu", "memory"])))
        found = {"cpu": f"{draw(AMOUNTS)}m", "memory": f"{draw(AMOUNTS)}Ki"}
        return {name: found[name] for name in kept}

    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    containers = [container(name, draw(st.sampled_from([amounts(), None])), amounts()) for name in names]
    recommended = [advice(name, amounts(), amounts(), amounts()) for name in draw(st.sets(st.sampled_from(names)))]
    entries = {"min": amounts(), "max": amounts(), "default": amounts()}
    kept = {name: entries[name] for name in draw(st.sets(st.sampled_from(list(entries))))}
    limits = [limit_range(type=draw(st.sampled_from(["Container", "Pod"])), **kept)]
    rules = policy(maxAllowed=amounts(), controlledValues=draw(st.sampled_from(["RequestsOnly", "RequestsAndLimits"])))
    spec: Json = {"resourcePolicy": rules}
    if draw(st.booleans()):
        spec["startupBoost"] = boost(type="Factor", factor=draw(st.integers(1, 4)))
    return pod(*containers), vpa(*recommended, **spec), limits, draw(st.sampled_from([PLAIN, BOOSTING]))


@given(cases())
def test_asked_again_about_the_same_pod_there_is_nothing_to_do(case: tuple[Json, Json, list[Json], AdmissionSettings]) -> None:
    manifest, governor, limits, settings = case
    first = patched(manifest, governor, *limits, settings=settings)
    again = patched(applied(manifest, first.ops), governor, *limits, settings=settings)
    assert again.ops == ()
    assert again.reason


def test_asked_again_after_another_webhook_injected_a_container_it_is_looked_after() -> None:
    governor = vpa(advice(target=TARGET), advice("proxy", {"cpu": "10m"}))
    manifest = pod(container(requests=SMALL))
    once = applied(manifest, patched(manifest, governor).ops)
    once["spec"]["containers"].append(container("proxy", {"cpu": "100m"}))
    twice = applied(once, patched(once, governor).ops)
    assert [each["resources"]["requests"] for each in twice["spec"]["containers"]] == [TARGET, {"cpu": "10m"}]
    assert twice["metadata"]["annotations"]["vpaObservedContainers"] == "c, proxy"


def test_a_pod_made_from_a_copy_of_a_patched_one_is_patched_when_its_amounts_are_others() -> None:
    manifest = pod(container(requests=SMALL))
    copy = applied(manifest, patched(manifest, vpa(advice(target=TARGET))).ops)
    found = outcome(copy, vpa(advice(target={"cpu": "1", "memory": "1Gi"})))
    assert found["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_boost_is_not_boosted_again_and_its_annotation_stays() -> None:
    governor = vpa(startupBoost=boost(type="Factor", factor=2))
    manifest = pod(container(requests={"cpu": "100m"}))
    once = applied(manifest, patched(manifest, governor, settings=BOOSTING).ops)
    assert patched(once, governor, settings=BOOSTING).ops == ()
    kept = json.loads(once["metadata"]["annotations"]["vpaCpuStartupBoost/c"])
    assert kept == {"requests": {"cpu": "100m"}, "limits": {}}


@pytest.mark.parametrize(
    ("resource", "one", "other", "near"),
    [
        ("cpu", "1010m", "1", True),
        ("cpu", "1011m", "1", False),
        ("cpu", "990m", "1", True),
        ("cpu", "989m", "1", False),
        ("cpu", "52m", "50m", True),
        ("cpu", "53m", "50m", False),
        ("memory", "1010000", "1M", True),
        ("memory", "1010001", "1M", False),
        ("memory", "12", "10", True),
        ("memory", "13", "10", False),
    ],
)
def test_amounts_are_near_within_a_hundredth_or_two_roundings(resource: str, one: str, other: str, *, near: bool) -> None:
    assert pod_patch._near(resource, exact_quantity.parse(one), exact_quantity.parse(other)) is near
