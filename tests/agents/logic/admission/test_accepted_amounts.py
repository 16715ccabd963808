"""What the API server would refuse is patched in part, or not at all, and the reason is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.admission import pod_patch, pod_spec, vpa_manifest
from agents.logic.admission.admission_report import AdmissionPatch
from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.resources import pod_acceptance
from agents.logic.resources.pod_acceptance import Rules
from schemas import exact_quantity
from schemas.facts.update_facts import QuotaScope, ResourceQuotaChanged
from tests.support.admission_manifests import advice, applied, bounded_by, container, limit_range, pod, policy, vpa
from tests.support.examples import AT

Json = dict[str, Any]
SMALL = {"cpu": "100m", "memory": "100Mi"}
LARGE = {"cpu": "500m", "memory": "400Mi"}


def quota(hard: Json, used: Json | None = None, *scopes: QuotaScope) -> ResourceQuotaChanged:
    return ResourceQuotaChanged(AT, "demo", "default", "q", hard, dict.fromkeys(hard, "0") | (used or {}), scopes)


def patched(manifest: Json, governor: Json, rules: Rules) -> AdmissionPatch:
    return pod_patch.patch(
        pod_spec.read(manifest), vpa_manifest.read(governor), rules.ranges, AdmissionSettings(), lambda _: rules
    )


def resources(manifest: Json, found: AdmissionPatch) -> list[Json]:
    return [each["resources"] for each in applied(manifest, found.ops)["spec"]["containers"]]


def updates(manifest: Json, found: AdmissionPatch) -> str:
    return str(applied(manifest, found.ops)["metadata"]["annotations"].get("vpaUpdates", ""))


def test_the_sum_of_requests_stays_within_the_pods_own_request() -> None:
    manifest = pod(container(requests=SMALL), container("d", requests=SMALL))
    manifest["spec"]["resources"] = {"requests": {"cpu": "600m"}, "limits": {"cpu": "2"}}
    found = patched(manifest, vpa(advice(target=LARGE), advice("d", target=LARGE)), Rules())
    assert [each["requests"] for each in resources(manifest, found)] == [{"cpu": "300m", "memory": "400Mi"}] * 2
    why = "cpu is changed only in part: the containers' cpu requests of 612m are above 600m, the pod's own request"
    assert why in updates(manifest, found)
    assert found.containers[0].held == (why,)


def test_a_limit_stays_within_the_pods_own_limit_and_the_request_within_it() -> None:
    manifest = pod(container(requests={"memory": "100Mi"}, limits={"memory": "100Mi"}))
    manifest["spec"]["resources"] = {"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi"}}
    found = patched(manifest, vpa(advice(target={"memory": "1Gi"})), Rules())
    [given] = resources(manifest, found)
    assert given["requests"] == given["limits"] == {"memory": "114Mi"} or 100 < int(given["limits"]["memory"][:3]) <= 134
    assert pod_acceptance.worse(pod_spec.read(manifest).whole, pod_spec.read(applied(manifest, found.ops)).whole, Rules()) is None


SHARED = [("0", 1, "500m"), ("0", 4, "200m"), ("700m", 1, "100m"), ("0", 1000, "100m")]


@pytest.mark.parametrize(("used", "coming", "expected"), SHARED)
def test_a_quota_is_shared_by_all_pods_that_are_still_wanted(used: str, coming: int, expected: str) -> None:
    manifest = pod(container(requests={"cpu": "100m"}))
    rules = Rules(quotas=[quota({"requests.cpu": "800m"}, {"requests.cpu": used})], coming=coming)
    found = patched(manifest, vpa(advice(target={"cpu": "500m"})), rules)
    assert resources(manifest, found)[0]["requests"] == {"cpu": expected}


def test_a_rollout_in_a_quota_makes_all_its_pods() -> None:
    used, manifest = 0, pod(container(requests={"cpu": "100m"}))
    for left in range(4, 0, -1):
        rules = Rules(quotas=[quota({"requests.cpu": "500m"}, {"requests.cpu": f"{used}m"})], coming=left)
        found = patched(manifest, vpa(advice(target={"cpu": "250m"})), rules)
        used += int(resources(manifest, found)[0]["requests"]["cpu"][:-1])
    assert 400 < used <= 500


def test_a_pod_that_gets_less_fits_into_a_quota_that_is_full() -> None:
    manifest = pod(container(requests=LARGE))
    rules = Rules(quotas=[quota({"requests.cpu": "1"}, {"requests.cpu": "1"})])
    found = patched(manifest, vpa(advice(target=SMALL)), rules)
    assert resources(manifest, found)[0]["requests"] == SMALL


def test_a_pod_without_amounts_stays_so_where_a_quota_would_then_demand_limits() -> None:
    manifest = pod(container())
    rules = Rules(quotas=[quota({"limits.cpu": "100"}, None, QuotaScope("NotBestEffort"))])
    found = patched(manifest, vpa(advice(target=SMALL)), rules)
    assert "requests" not in resources(manifest, found)[0]
    assert "ResourceQuota 'q' demands a cpu limit of container 'c'" in updates(manifest, found)


def test_a_policy_that_wants_less_than_a_limit_range_allows_stops_at_the_bound() -> None:
    manifest = pod(container(requests=LARGE, limits=LARGE))
    ranges = bounded_by([limit_range(min={"cpu": "200m"}, max={"memory": "450Mi"})])
    governor = vpa(advice(target=SMALL), resourcePolicy=policy(maxAllowed={"cpu": "50m"}))
    found = patched(manifest, governor, Rules(ranges))
    [given] = resources(manifest, found)
    assert 200 <= int(given["requests"]["cpu"][:-1]) <= 207
    assert given["requests"]["memory"] == "100Mi"


@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_a_ratio_of_limit_to_request_is_kept(kind: str) -> None:
    """autoscaler#1812: requests are lowered, limits stay, and pods are refused."""
    manifest = pod(container(requests={"cpu": "100m"}, limits={"cpu": "200m"}))
    ranges = bounded_by([limit_range(type=kind, maxLimitRequestRatio={"cpu": "2"})])
    governor = vpa(advice(target={"cpu": "10m"}), resourcePolicy=policy(controlledValues="RequestsOnly"))
    found = patched(manifest, governor, Rules(ranges))
    assert resources(manifest, found)[0]["requests"] == {"cpu": "100m"}
    assert "more than 2 times its request" in updates(manifest, found)


def test_annotations_that_would_be_too_long_are_not_made() -> None:
    manifest = pod(container(requests=SMALL), annotations={"note": "x" * (256 * 1024 - 50)})
    found = patched(manifest, vpa(advice(target=LARGE)), Rules())
    assert (found.ops, found.failed) == ((), True)
    assert "longer than 262144 bytes" in found.reason


_AMOUNTS = {
    "cpu": st.sampled_from([None, "0", "50m", "100m", "300m", "1", "3"]),
    "memory": st.sampled_from([None, "0", "100", "1Mi", "2097153", "64Mi", "100Mi", "3Gi"]),
}


@st.composite
def _scenes(draw: Any) -> tuple[Json, Json, Rules]:
    """A pod of one resource, the VPA that governs it, and what bounds it: its own amounts, a LimitRange, a quota."""
    resource = draw(st.sampled_from(["cpu", "memory"]))

    def lists(*names: str) -> Json:
        return {name: {resource: text} for name in names if (text := draw(_AMOUNTS[resource]))}

    containers = [lists("requests", "limits", "target") for _ in range(draw(st.integers(1, 4)))]
    manifest = pod(*(container(f"c{n}", each.get("requests", {}), each.get("limits", {})) for n, each in enumerate(containers)))
    manifest["spec"]["resources"] = lists("requests", "limits")
    ratio = draw(st.sampled_from([None, "1", "2", "4"]))
    bounds = lists("min", "max") | ({"maxLimitRequestRatio": {resource: ratio}} if ratio else {})
    ranges = bounded_by([limit_range(type=draw(st.sampled_from(["Container", "Pod"])), **bounds)])
    hard = {f"{kind}.{resource}": amounts[resource] for kind, amounts in lists("requests", "limits").items()}
    governor = vpa(*(advice(f"c{n}", target=each["target"]) for n, each in enumerate(containers) if "target" in each))
    return manifest, governor, Rules(ranges, [quota(hard)] if hard else [], draw(st.integers(1, 5)))


@given(_scenes())
def test_whatever_is_accepted_without_the_patch_is_accepted_with_it(scene: tuple[Json, Json, Rules]) -> None:
    manifest, governor, rules = scene
    found = patched(manifest, governor, rules)
    before, after = (pod_spec.read(each).whole for each in (manifest, applied(manifest, found.ops)))
    assert pod_acceptance.worse(before, after, rules) is None


def test_shares_of_a_limit_range_on_pods_are_a_byte_more_where_they_would_be_short() -> None:
    manifest = pod(*(container(name, {"memory": "50Mi"}, {"memory": "50Mi"}) for name in ("c", "d", "e")))
    ranges = bounded_by([limit_range(type="Pod", min={"memory": "100"})])
    found = patched(manifest, vpa(*(advice(name, target={"memory": "10"}) for name in ("c", "d", "e"))), Rules(ranges))
    assert [each["requests"]["memory"] for each in resources(manifest, found)] == ["34", "34", "34"]


MUST_STATE = [
    ({"requests.cpu": "300m"}, {"cpu": "300m", "memory": "400Mi"}),
    ({"requests.cpu": "250m", "requests.memory": "10Gi"}, {"cpu": "250m", "memory": "400Mi"}),
    ({"requests.cpu": "1", "requests.memory": "100Mi"}, {"cpu": "500m", "memory": "100Mi"}),
    ({"requests.cpu": "0", "requests.memory": "10Gi"}, {}),
]


@pytest.mark.parametrize(("hard", "expected"), MUST_STATE)
def test_a_pod_without_amounts_gets_both_resources_where_a_quota_demands_one_beside_the_other(hard: Json, expected: Json) -> None:
    """kubernetes#26969: with amounts it leaves the scope BestEffort. Each resource alone was refused for want of the other."""
    found = patched(pod(container()), vpa(advice(target=LARGE)), Rules(quotas=[quota(hard, None, QuotaScope("NotBestEffort"))]))
    given_requests = resources(pod(container()), found)[0].get("requests", {})
    assert given_requests.keys() == expected.keys()
    for name, most in expected.items():
        asked, bound = (exact_quantity.parse(text).nano for text in (given_requests[name], most))
        assert 0.97 * bound <= asked <= bound
