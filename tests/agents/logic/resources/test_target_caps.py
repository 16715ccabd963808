"""What caps a recommendation, against upstream's own and worked cases."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.admission import pod_spec, vpa_manifest
from agents.logic.resources import limit_ranges, resource_lists, target_caps
from agents.logic.resources.limit_ranges import Range
from agents.logic.resources.resource_lists import UnscalableError
from agents.logic.resources.target_caps import Capped, CapReason, ContainerRule
from schemas import exact_quantity
from schemas.decisions.recommendations import ContainerRecommendation, TargetCuts
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import ContainerPolicy
from schemas.units import Bytes, Cores
from tests.support.admission_manifests import advice, bounded_by, container, limit_range, pod, vpa
from tests.support.cluster_events import GIB
from tests.support.examples import LEAK as EXAMPLE_LEAK
from tests.support.vectors import vectors

Json = dict[str, Any]
LEAK = replace(EXAMPLE_LEAK, container="app", most=Bytes(4 * GIB))
WHEN = vpa_manifest.json_fields.NEVER


def capped(recommended: list[Json], containers: list[Json], rules: list[ContainerRule], *limits: Json) -> Capped:
    read = vpa_manifest.read(vpa(*recommended)).advice or ()
    return target_caps.cap(read, pod_spec.read(pod(*containers)).standing, rules, bounded_by(limits))


def texts(found: Any) -> dict[str, str]:
    return {name: amount.text for name, amount in (found or {}).items()}


def in_nano(amounts: dict[str, str]) -> dict[str, int]:
    return {name: exact_quantity.parse(text).nano for name, text in amounts.items()}


def targets(found: Capped) -> list[dict[str, str]]:
    return [texts(each.target) for each in found.advice]


@pytest.mark.parametrize("vector", vectors("admission_capping"))
def test_caps_and_notes_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    vpa = vpa_manifest.read(inputs["vpa"])
    rules = [policy.rule for policy in vpa.policies or ()]
    if vpa.advice is None and vpa.policies is None:
        assert expected["nil_result"]
        return
    containers = pod_spec.read(inputs["pod"]).standing
    if "panic" in expected:
        with pytest.raises(UnscalableError):
            target_caps.cap(vpa.advice or (), containers, rules, bounded_by(inputs["limit_ranges"]))
        return
    found = target_caps.cap(vpa.advice or (), containers, rules, bounded_by(inputs["limit_ranges"]))
    noted = {name: sorted(str(cap) for cap in caps if cap.by is not CapReason.POD_RANGE) for name, caps in found.caps.items()}
    assert {name: notes for name, notes in noted.items() if notes} == expected["notes"]
    theirs = {each["containerName"]: each for each in expected["recommendation"]}
    assert {each.container for each in found.advice} == theirs.keys()
    for each in found.advice:
        fields = {"target": each.target, "lowerBound": each.lower, "upperBound": each.upper, "uncappedTarget": each.uncapped}
        for name, amounts in fields.items():
            # below one byte upstream comes to -1 by mistake; here it is 0
            wanted = {resource: "0" if text == "-1" else text for resource, text in theirs[each.container][name].items()}
            assert in_nano(texts(amounts)) == in_nano(wanted), name  # the log keeps amounts, not how they were written


def test_the_policy_caps_with_a_note_for_each_resource() -> None:
    most, least = resource_lists.read({"cpu": "233m", "memory": "150Mi"}), resource_lists.read({"cpu": "90m", "memory": "80Mi"})
    assert most
    assert least
    high = capped([advice(target={"cpu": "250m", "memory": "200Mi"})], [container()], [ContainerRule("*", most=most)])
    low = capped([advice(target={"cpu": "50m", "memory": "60Mi"})], [container()], [ContainerRule("c", least=least)])
    assert targets(high) == [{"cpu": "233m", "memory": "150Mi"}]
    assert [str(cap) for cap in high.caps["c"]] == ["cpu capped to maxAllowed", "memory capped to maxAllowed"]
    assert targets(low) == [{"cpu": "90m", "memory": "80Mi"}]
    assert [(cap.before.text, cap.after.text) for cap in low.caps["c"]] == [("50m", "90m"), ("60Mi", "80Mi")]


@pytest.mark.parametrize(
    ("limits", "allowed", "target", "expected"),
    [
        ({"cpu": "150m"}, {"max": {"cpu": "300m"}}, {"cpu": "250m"}, {"cpu": "200m"}),
        ({"memory": "150Mi"}, {"min": {"memory": "250Mi"}}, {"memory": "100Mi"}, {"memory": "250Mi"}),
        (None, {"max": {"cpu": "10m"}}, {"cpu": "250m"}, {"cpu": "250m"}),
    ],
)
def test_a_container_limit_range_bounds_the_limit_that_follows(limits: Any, allowed: Json, target: Json, expected: Json) -> None:
    requests = {"cpu": "100m", "memory": "100Mi"}
    found = capped([advice(target=target)], [container(requests=requests, limits=limits)], [], limit_range(**allowed))
    assert targets(found) == [expected]


@pytest.mark.parametrize(
    ("allowed", "given", "expected"),
    [
        ({"max": {"cpu": "600m"}}, ["250m", "250m"], ["200m", "200m"]),
        ({"min": {"cpu": "150m"}}, ["4m", "21m", "90m"], ["6m", "28m", "118m"]),
        ({"max": {"cpu": "80m"}}, ["4m", "21m", "90m"], ["2m", "14m", "62m"]),
        ({"min": {"cpu": "150m"}}, ["15m", "100m"], ["20m", "131m"]),
        ({"max": {"cpu": "90m"}}, ["15m", "100m"], ["11m", "78m"]),
    ],
)
def test_a_pod_limit_range_is_shared_out(allowed: Json, given: list[str], expected: list[str]) -> None:
    """The ratio of limits to requests is 1.5 in the first case, and 1 in the others."""
    limit = "150m" if given == ["250m", "250m"] else "100m"
    containers = [container(f"c{i}", {"cpu": "100m"}, {"cpu": limit}) for i in range(len(given))]
    recommended = [advice(f"c{i}", {"cpu": cpu}) for i, cpu in enumerate(given)]
    found = capped(recommended, containers, [], limit_range(type="Pod", **allowed))
    assert [each["cpu"] for each in targets(found)] == expected
    assert all([cap.by for cap in found.caps[f"c{i}"]] == [CapReason.POD_RANGE] for i in range(len(given)))


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [({"max": {"memory": "1Gi"}}, [357913941, 715827882]), ({"min": {"memory": "4Gi"}}, [1431655765, 2863311530])],
)
def test_shares_of_memory_are_rounded_down(allowed: Json, expected: list[int]) -> None:
    containers = [container(name, {"memory": "1Gi"}, {"memory": "1Gi"}) for name in ("a", "b")]
    recommended = [advice("a", {"memory": "1Gi"}), advice("b", {"memory": "2Gi"})]
    found = capped(recommended, containers, [], limit_range(type="Pod", **allowed))
    assert [each["memory"] for each in targets(found)] == [str(amount) for amount in expected]


def test_a_container_without_advice_takes_part_with_its_requests() -> None:
    containers = [container("a", {"memory": "1"}, {"memory": "1"}), container("b", {"memory": "50M"}, {"memory": "50M"})]
    bounded = advice("a", {"memory": "200M"}, {"memory": "500M"}, {"memory": "500M"})
    with pytest.raises(UnscalableError, match="container 'b', for which nothing is recommended"):
        capped(
            [advice("a", {"memory": "200M"}, {}, {"memory": "1M"})],
            containers,
            [],
            limit_range(type="Pod", min={"memory": "500M"}),
        )
    found = capped([bounded], containers, [], limit_range(type="Pod", min={"memory": "500M"}))
    assert targets(found) == [{"memory": "400M"}, {"memory": "100M"}]


def test_limits_that_stay_cap_the_request() -> None:
    rule = ContainerRule("*", values="RequestsOnly")
    found = capped([advice(target={"cpu": "2"})], [container(requests={"cpu": "1"}, limits={"cpu": "1500m"})], [rule])
    assert targets(found) == [{"cpu": "1500m"}]
    assert [str(cap) for cap in found.caps["c"]] == ["cpu capped to container limit"]


def test_of_several_limit_ranges_the_tightest_bounds_and_the_last_default_count() -> None:
    one = limit_range(max={"cpu": "2"}, min={"cpu": "10m", "memory": "1Mi"}, default={"cpu": "1"})
    other = limit_range(max={"cpu": "1", "memory": "1Gi"}, min={"cpu": "20m"}, default={"memory": "1Gi"})
    found = bounded_by([one, other]).container
    assert found
    assert texts(found.most) == {"cpu": "1", "memory": "1Gi"}
    assert texts(found.least) == {"cpu": "20m", "memory": "1Mi"}
    assert texts(found.default) == {"memory": "1Gi"}


def test_limit_ranges_of_the_log_mean_what_their_manifests_mean() -> None:
    limit = Limit(LimitType.POD, least=Amounts(Cores(0.1)), default_limits=Amounts(None, Bytes(1 << 30)))
    changed = LimitRangeChanged(WHEN, "k", "default", "lr", (limit,))
    manifest = limit_range(type="Pod", min={"cpu": "100m"}, default={"memory": "1Gi"})
    assert limit_ranges.of_events([changed]) == bounded_by([manifest])
    assert limit_ranges.of_events([changed]).pod == Range(
        resource_lists.read({"cpu": "100m"}), None, resource_lists.read({"memory": "1Gi"})
    )


RATIO = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "2Gi"}}
KEPT = ContainerRule("*", values="RequestsOnly")


@pytest.mark.parametrize(
    ("bound", "target", "upstreams", "ours"),
    [
        ({"max": {"cpu": "4"}}, "3", "1", "3"),
        ({"max": {"cpu": "4"}}, "5", "1", "4"),
        ({"min": {"cpu": "2"}}, "100m", "2", "2"),
        ({"type": "Pod", "max": {"cpu": "4"}}, "3", "1", "3"),
        ({"type": "Pod", "min": {"cpu": "2"}}, "100m", "2", "2"),
    ],
)
def test_a_limit_that_stays_as_it_is_bounds_no_request_but_upstream(bound: Json, target: str, upstreams: str, ours: str) -> None:
    """kubernetes/autoscaler#7063: requests only, and a LimitRange whose maximum the limit is at."""
    advised = vpa_manifest.read(vpa(advice(target={"cpu": target}))).advice or ()
    standing, ranges = pod_spec.read(pod(container(**RATIO))).standing, bounded_by([limit_range(**bound)])
    given = [target_caps.cap(advised, standing, [KEPT], ranges, upstream=upstream) for upstream in (True, False)]
    assert [exact_quantity.parse(targets(each)[0]["cpu"]).nano for each in given] == list(
        in_nano({"a": upstreams, "b": ours}).values()
    )


def test_shares_of_memory_are_rounded_up_so_that_their_sum_is_the_least_amount() -> None:
    names, hundred = ("c", "d", "e"), {"memory": "100"}
    advised = vpa_manifest.read(vpa(*(advice(name, target={"memory": "10"}) for name in names))).advice or ()
    standing = pod_spec.read(pod(*(container(name, hundred, hundred) for name in names))).standing
    given = [
        target_caps.cap(advised, standing, [], bounded_by([limit_range(type="Pod", min=hundred)]), upstream=u)
        for u in (True, False)
    ]
    assert [[each["memory"] for each in targets(found)] for found in given] == [["33"] * 3, ["34"] * 3]


def test_beside_a_limit_that_stays_the_others_share_what_is_left_of_a_pods_maximum() -> None:
    advised = vpa_manifest.read(vpa(advice(target={"cpu": "3"}), advice("d", target={"cpu": "3"}))).advice or ()
    both = container(**RATIO), container("d", {"cpu": "1"}, {"cpu": "1"})
    rules, ranges = [ContainerRule("c", values="RequestsOnly")], bounded_by([limit_range(type="Pod", max={"cpu": "6"})])
    found = target_caps.cap(advised, pod_spec.read(pod(*both)).standing, rules, ranges, upstream=False)
    assert [in_nano(each) for each in targets(found)] == [in_nano({"cpu": "3"}), in_nano({"cpu": "2"})]


@pytest.mark.parametrize(
    ("free", "target", "bounded", "cuts", "reason"),
    [
        (9, 9, ContainerPolicy("app"), TargetCuts({"memory": "n1"}), None),
        (9, 4, ContainerPolicy("app", max_allowed=Amounts(4.0, Bytes(4 * GIB))), TargetCuts(), "MaxAllowed"),
        (2, 3, ContainerPolicy("app", min_allowed=Amounts(3.0, Bytes(3 * GIB))), TargetCuts({"memory": "n1"}), "MinAllowed"),
        (9, 4, ContainerPolicy("app", max_allowed=Amounts(5.0, Bytes(5 * GIB))), TargetCuts({"memory": "n1"}), "LargestNode"),
        (9, 4, ContainerPolicy("app"), TargetCuts({"cpu": "n1"}, (LEAK,)), "MemoryLeak"),
        (9, 4, ContainerPolicy("app"), TargetCuts({"cpu": "n1"}, (replace(LEAK, container="other"),)), "MaximumOfSettings"),
    ],
)
def test_what_made_a_recommendation_another_is_named_as_the_one_that_it_is(
    free: int, target: int, bounded: ContainerPolicy, cuts: TargetCuts, reason: str | None
) -> None:
    wanted, given = Amounts(float(free), Bytes(free * GIB)), Amounts(float(target), Bytes(target * GIB))  # type: ignore[arg-type]  # units
    recommended = ContainerRecommendation("app", given, given, given, wanted)
    found = target_caps.cut_by("memory", recommended, bounded, cuts)
    assert (found and found.reason) == reason
    if found is not None and free > target:
        assert target_caps.memory_bound(recommended, bounded, None, cuts).reason == reason
        named = {"LargestNode": "'n1'", "MemoryLeak": "it leaks", "MaximumOfSettings": "vertical.maximum_memory"}
        assert named.get(found.reason, "4.00 GiB") in found.clause
