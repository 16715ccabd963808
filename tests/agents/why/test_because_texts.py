"""A `because` in words: the shapes that our stages write, and everything else as it is."""

from datetime import UTC, datetime

import pytest

from agents.why import because_texts, event_descriptions
from schemas.bounds import AMOUNT_LIMIT
from schemas.decisions.recommendations import ContainerRecommendation, OomSource, OomSourceState, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged
from schemas.units import Bytes, Cores

GIB, MIB = 1 << 30, 1 << 20

PLAN: dict[str, object] = {
    "mode": "apply",
    "why": ["outside its bounds", "old enough and far from its target"],
    "difference": 1.114,
    "containers": {
        "cart": {
            "requests": {"cpu": 0.25, "memory": 400 * MIB},
            "lower": {"cpu": 0.123, "memory": 716 * MIB},
            "target": {"cpu": 0.323, "memory": 1.45 * GIB},
            "upper": {"cpu": None, "memory": 7 * GIB},
        }
    },
    "pods": {"workload": {"live": 3, "running": 2, "being_changed": 1}},
    "policy": {"target": "demo/*", "version": "7", "place": "p:0:1"},
    "budget": 0.1,
}
FOUND: dict[str, object] = {
    "settings": {"margin": 0.15, "target_cpu_percentile": 0.9},
    "containers": {
        "cart": {
            "samples": 86,
            "first": "2026-01-05T00:01:00Z",
            "last": "2026-01-05T00:29:00Z",
            "cpu": {"percentiles": {"lower": 0.11, "target": 0.281, "upper": 0.331}, "confidence": 0.25, "minimum": 0.025},
            "memory": {"percentiles": {"lower": GIB, "target": GIB, "upper": GIB}, "confidence": 0.25, "max_allowed": 4 * GIB},
        }
    },
    "last_oom": {
        "at": "2026-01-05T00:24:30Z",
        "container": "cart",
        "pod": "cart-a",
        "memory_request": 400 * MIB,
        "counted": True,
    },
}


def test_a_plan_says_first_why_and_then_each_amount_with_its_unit() -> None:
    assert list(because_texts.in_words(PLAN)) == [
        "why: outside its bounds and old enough and far from its target",
        "cart cpu: 250m requested, 323m recommended (bounds: 123m to not set)",
        "cart memory: 400.0 MiB requested, 1.45 GiB recommended (bounds: 716.0 MiB to 7.00 GiB)",
        "mode: apply",
        "requests are off their target by: 111%",
        "pods: of the workload 2 of 3 running, 1 being changed",
        "policy: 'demo/*', version 7",
        "share of pods that may be away at one time: 10%",
    ]


def test_a_recommendation_says_the_percentiles_the_margin_and_the_kill_that_counted() -> None:
    margin = " at the target percentile, plus 15% margin"
    assert list(because_texts.in_words(FOUND)) == [
        "cart: 86 samples from 2026-01-05 00:01:00 to 2026-01-05 00:29:00",
        f"cart cpu: 281m{margin}; lower percentile 110m, upper 331m, confidence 0.25; at least 25m",
        f"cart memory: 1.00 GiB{margin}; lower percentile 1.00 GiB, upper 1.00 GiB, confidence 0.25; policy: at most 4.00 GiB",
        "last OOM kill: 2026-01-05 00:24:30, container cart of cart-a, which requested 400.0 MiB",
        "settings: 2 that the sum depends on (-v shows them, and every number in full)",
    ]


def test_a_kill_at_the_limit_of_the_pod_itself_is_told_as_one() -> None:
    kill = {**FOUND["last_oom"], "pod_limit": 500 * MIB}  # type: ignore[dict-item]  # a mapping
    told = [line for line in because_texts.in_words({**FOUND, "last_oom": kill}) if line.startswith("last OOM kill")]
    assert told[0].endswith("which requested 400.0 MiB, at its pod's own limit of 500.0 MiB")


def test_a_cpu_percentile_is_shown_as_the_sum_takes_it_in_whole_millicores() -> None:
    # upstream cuts 125.8m to 125m and adds int(125 * 0.15) = 18: the target is 143m
    percentiles = {"lower": 0.1102656, "target": 0.1257789, "upper": 0.1257789}
    web = {"samples": 3, "cpu": {"percentiles": percentiles, "confidence": 1}}
    _, cpu, *_ = because_texts.in_words({"settings": {"margin": 0.15}, "containers": {"web": web}})
    assert cpu == "web cpu: 125m at the target percentile, plus 15% margin; lower percentile 110m, upper 125m, confidence 1"


def test_a_recommendation_says_the_bounds_that_a_vpas_status_shows() -> None:
    lower, target, upper = (
        Amounts(Cores(0.123), Bytes(716 * MIB)),
        Amounts(Cores(0.3), Bytes(GIB)),
        Amounts(Cores(3.461), Bytes(7 * GIB)),
    )
    cart = ContainerRecommendation("cart", lower, target, upper, target)
    at = datetime(2026, 1, 5, tzinfo=UTC)
    workload = Workload("prod", "shop", "Deployment", "cart")
    event = RequestsRecommended("i", at, workload, (cart,), {"containers": {}}, pods=1, oom_source=OomSource(OomSourceState.NONE))
    assert "bounds: (cart 123m / 716.0 MiB to 3461m / 7.00 GiB)" in list(
        because_texts.in_words(event_descriptions.because(event))
    )


def test_in_full_every_value_stands_as_the_record_has_it() -> None:
    said = list(because_texts.in_full(FOUND))
    assert said[0] == "settings: (margin 0.15, target_cpu_percentile 0.9)"
    assert len(said) == len(FOUND)
    assert list(because_texts.in_full({"confidence": 0.1 + 0.2, "bytes": 1_123_456_789})) == [
        "confidence: 0.30000000000000004",
        "bytes: 1123456789",
    ]


def test_floors_and_bounds_that_are_none_are_told_with_units_and_without_signs() -> None:
    killed = {"memory": 2 * GIB, "killed_under": 512 * MIB, "failures": 2, "killed": "2026-01-05T00:24:30.123000Z"}
    node = {"node": "n1", "cpu": 2.0, "memory": 4 * GIB, "cut": {"upper_memory": AMOUNT_LIMIT}, "place": "n:0:1"}
    last = "2 failures, the last counted at 2026-01-05 00:24:30"
    assert list(because_texts.in_words({"floors": {"web": killed}, "node": node})) == [
        "largest node: 'n1' has 2000m / 4.00 GiB for pods; cut down to it: upper memory without a bound",
        f"needed to start: web at least 2.00 GiB since it was killed under 512.0 MiB ({last})",
    ]


def _unmeasured(amounts: dict[str, object], **settings: object) -> list[str]:
    """What is said of CPU and memory of a container without a sample; its amounts in cores of CPU, and in GiB of memory."""
    nothing = {"percentiles": {"lower": 0.0, "target": 0.0, "upper": 0.0}, "confidence": 0.0}
    memory = {name: amount * GIB for name, amount in amounts.items() if isinstance(amount, float)}
    web = {"samples": 0, "first": None, "last": None, "cpu": {**nothing, **amounts}, "memory": {**nothing, **memory}}
    samples, *rest = because_texts.in_words({"settings": {"margin": 0.15, **settings}, "containers": {"web": web}})
    assert samples == "web: 0 samples"
    return rest[:2]


def test_of_a_container_without_samples_it_is_said_that_nothing_was_measured_and_which_minimum_counts() -> None:
    least: dict[str, object] = {"minimum": 0.25}
    assert _unmeasured(least, recommend_unseen=False) == [
        f"web {what}: nothing was measured yet, so nothing is recommended" for what in ("cpu", "memory")
    ]
    for more, words, cpu, memory in (
        ({}, "the least of any container", "250m", "256.0 MiB"),
        ({"min_allowed": 0.5}, "the policy's minimum", "500m", "512.0 MiB"),
        ({"min_allowed": 0.125}, "the least of any container", "250m", "256.0 MiB"),
        ({"min_allowed": 0.5, "max_allowed": 0.125}, "the policy's maximum", "125m", "128.0 MiB"),
    ):
        said = "nothing was measured yet, so the target is"
        assert _unmeasured({**least, **more}, recommend_unseen=True) == [
            f"web cpu: {said} {words}, {cpu}",
            f"web memory: {said} {words}, {memory}",
        ]


def test_a_kill_before_the_first_sample_is_a_measurement_of_memory() -> None:
    killed = {"percentiles": dict.fromkeys(("lower", "target", "upper"), GIB), "confidence": 0.0, "minimum": 250 * MIB}
    web = {"samples": 0, "cpu": {"percentiles": {}, "minimum": 0.025}, "memory": killed}
    _, cpu, memory = because_texts.in_words({"containers": {"web": web}})
    assert cpu == "web cpu: nothing was measured yet, so nothing is recommended"
    assert memory.startswith("web memory: 1.00 GiB at the target percentile")


def test_confidence_is_told_with_two_decimals() -> None:
    estimate = {"percentiles": {"target": 0.25}, "confidence": 5.908333333}
    _, cpu, *_ = because_texts.in_words({"containers": {"web": {"samples": 9, "cpu": estimate}}})
    assert "confidence 5.91" in cpu.split(", ")[-1]


def test_what_has_no_bound_is_a_question_about_the_value_and_not_about_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_descriptions, "amount", lambda **_: "unbounded")
    cut = {"target_cpu": 4.5, "upper_cpu": AMOUNT_LIMIT / 1000, "upper_memory": AMOUNT_LIMIT}
    [node] = because_texts.in_words({"node": {"node": "n1", "cut": cut, "place": "n:0:1"}})
    assert node.endswith("target cpu of unbounded, upper cpu without a bound, upper memory without a bound")


def test_a_shape_that_nobody_knows_is_written_out() -> None:
    odd: dict[str, object] = {"containers": {"a": {"factor": 2}}, "policy": None, "last_oom": None, "pods": 3, "count": 4}
    assert list(because_texts.in_words(odd)) == ["a: (factor 2)", "last OOM kill: none", "policy: none", "pods: 3", "count: 4"]


def test_the_node_that_a_pod_was_cut_down_to_and_the_source_of_kills_are_told_in_sentences() -> None:
    node = {"node": "n1", "cpu": 2.0, "memory": 4 * GIB, "cut": {"target_cpu": 4.5, "upper_memory": 8 * GIB}, "place": "n:0:1"}
    alive = {"state": "alive", "source": "kube", "at": "2026-01-05T00:24:30.123000Z"}
    assert list(because_texts.in_words({"oom_source": alive, "node": node})) == [
        "largest node: 'n1' has 2000m / 4.00 GiB for pods; cut down to it: target cpu of 4500m, upper memory of 8.00 GiB",
        "source of OOM kills: 'kube', which reported at 2026-01-05 00:24:30",
    ]
    assert list(because_texts.in_words({"oom_source": {**alive, "state": "silent"}, "node": None})) == [
        "largest node: none known",
        "source of OOM kills: none at work: 'kube' is silent since 2026-01-05 00:24:30",
    ]
    assert list(because_texts.in_words({"oom_source": {"state": "none"}, "node": {**node, "cut": {}}})) == [
        "largest node: 'n1' has 2000m / 4.00 GiB for pods; cut down to it: nothing",
        "source of OOM kills: none has reported itself",
    ]


def test_a_plan_says_what_an_hpa_will_make_of_it() -> None:
    said = list(because_texts.in_words({"hpa_utilization": {"cpu": 5.0, "memory": 0.8333}}))
    assert said == ["the utilisation that HPAs scale by becomes: cpu 5 times what it was, memory 0.833 times what it was"]


def test_a_policy_has_the_bounds_and_the_policies_that_its_entries_name_and_no_others() -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    entries = (ContainerPolicy(policy="adaptive"), ContainerPolicy("app", max_allowed=Amounts(Cores(2.0))))
    said = event_descriptions.numbers(VerticalPolicyChanged(at, "demo/*", "1", containers=entries), None)
    assert (said["bounds"], said["policies"]) == ({"app": "at most 2000m / not set"}, {"*": "adaptive"})
    assert "policies" not in event_descriptions.numbers(VerticalPolicyChanged(at, "demo/*", "1"), None)
