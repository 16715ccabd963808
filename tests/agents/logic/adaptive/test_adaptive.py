"""`adaptive` in the recommender: who it decides for, what it promises, and that a person can redo what it says."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.logic.adaptive import adaptive_policy, cpu_experts, memory_experts
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.why import because_texts
from schemas.names import Amounts
from schemas.policies import Policy, vpa_annotations
from schemas.policies.vertical import ContainerPolicy, Tuning, UpdateMode, VerticalPolicyChanged
from schemas.units import Cores, Fraction
from tests.support.cluster_events import API, MINUTE, START, pod, scrape, turn, vpa

MIB = 2**20


def opened(**changed: Any) -> Recommender:
    return Recommender(replace(VerticalSettings(), **changed), 0, {"adaptive": adaptive_policy.POLICY}.get)


def decided(
    stage: Recommender, use: list[tuple[float, float]], policies: list[Policy] | None = None, *, minutes: int = 5
) -> list[Any]:
    """The recommendations of a pod that used these cores and bytes, so many minutes apart."""
    labels = {"labels": {"app": "api"}}
    stage.step(turn(START - MINUTE, policies=policies or [], pod_changes=[pod("a", START - MINUTE, **labels)]))
    found = []
    for place, (cores, memory) in enumerate(use):
        number = START + place * minutes * MINUTE
        usage = scrape(number, [(API.key, "a", "app", cores, memory)], window=minutes * 60.0)
        found += [each.event for each in stage.step(turn(number, pod_metrics=[usage])) if each.topic == "recommendations"]
    return found


def swinging(count: int) -> list[tuple[float, float]]:
    """A day that swings, with noise that is always the same."""
    chance = np.random.default_rng(7)
    level = 1.0 + 0.5 * np.sin(np.arange(count) * 2 * np.pi / 288)
    cores, memory = level * chance.lognormal(0.0, 0.2, count), level * chance.lognormal(0.0, 0.05, count) * 900 * MIB
    return list(zip(cores.tolist(), memory.tolist(), strict=True))


@pytest.mark.parametrize(
    ("settings_", "annotation", "decides"),
    [
        ({}, None, False),
        ({}, "adaptive", True),
        ({"policy": "adaptive"}, None, True),
        ({"policy": "adaptive"}, "built-in", False),
    ],
)
def test_it_decides_where_settings_or_an_annotation_ask_for_it(settings_: Any, annotation: str | None, decides: bool) -> None:
    annotations = {} if annotation is None else {"ullage/*.policy": annotation}
    last = decided(opened(**settings_), swinging(12), [vpa(annotations=annotations)])[-1]
    assert ("policy_grounds" in last.because) is decides


@pytest.mark.parametrize(
    ("annotations", "promised"),
    [
        ({}, (0.05, 0.5)),
        ({"ullage/app.risk_cpu": "0.01"}, (0.01, 0.5)),
        ({"ullage/*.risk_oom": "2"}, (0.05, 2.0)),
        ({"ullage/*.policy": "built-in"}, None),
    ],
)
def test_a_namespace_chooses_what_decides_and_the_risks_where_a_vpa_does_not(annotations: Any, promised: Any) -> None:
    tuning = Tuning(risk_cpu=Fraction(0.05), risk_oom=0.5)
    everywhere = VerticalPolicyChanged(
        datetime.fromtimestamp((START - MINUTE) / 1000, UTC),
        f"{API.cluster}/{API.namespace}/*",
        "v1",
        UpdateMode.OFF,
        (ContainerPolicy("*", policy="adaptive", tuning=tuning),),
    )
    bounded = ContainerPolicy("*", min_allowed=Amounts(Cores(2.0)))
    last = decided(opened(), swinging(12), [everywhere, vpa(annotations=annotations, containers=(bounded,))])[-1]
    grounds = last.because.get("policy_grounds", {}).get("app")
    assert (None if grounds is None else (grounds["cpu_short_promised"], grounds["memory_kills_promised"])) == (
        None if promised is None else (pytest.approx(promised[0]), pytest.approx(promised[1]))
    )
    assert last.containers[0].target.cpu == 2.0  # the VPA's own bound holds all the same
    assert "*" in last.because["policy"]["beside"]
    assert f"the policy '{everywhere.target}'" in "\n".join(because_texts.in_words(last.because))


def redone(grounds: dict[str, Any]) -> tuple[float, float]:
    """Cores and bytes, worked out as a person would from what `why` shows."""
    wanted = max(
        grounds["cpu_proposed"] * grounds["cpu_margin"], grounds["cpu_least"], grounds["cpu_raise"] * grounds["cpu_last"]
    )
    prior = grounds["cpu_prior"]
    moves = prior is None or wanted > prior * grounds["cpu_up"] or wanted < prior * grounds["cpu_down"]
    cores = wanted if moves else prior
    if grounds["cpu_raised_by"]:
        cores = grounds["cpu_raised_by"] * grounds["cpu_raise"]
    size, prior = grounds["memory_of"] * grounds["memory_factor"], grounds["memory_prior"]
    if prior is not None and size > prior:
        size = max(size, prior * grounds["memory_up"])
    return cores, size


@pytest.mark.parametrize("count", [2, 40, 80, 333, 451, 600])
def test_a_decision_can_be_redone_by_hand_from_the_numbers_shown(count: int) -> None:
    checked = 0
    for last in decided(opened(policy="adaptive", bounds_step=0.0), swinging(count))[-60:]:
        [container] = last.containers
        grounds = last.because["policy_grounds"]["app"]
        cores, size = redone(grounds)
        assert (cores, size) == (
            pytest.approx(grounds["cpu_request"], rel=2e-6),
            pytest.approx(grounds["memory_request"], rel=2e-6),
        )
        assert container.target.cpu == int(grounds["cpu_request"] * 1000) / 1000
        assert container.target.memory == int(max(grounds["memory_request"], grounds["memory_least"]))
        checked += 1
    assert checked


def test_what_is_said_of_a_decision_has_its_promise_and_what_a_notch_would_cost() -> None:
    last = decided(opened(policy="adaptive"), swinging(600))[-1]
    grounds = last.because["policy_grounds"]["app"]
    assert grounds["cpu_short_promised"] == pytest.approx(0.02)
    assert grounds["cpu_less_request"] < grounds["cpu_expert_request"] < grounds["cpu_more_request"]
    assert grounds["cpu_cost"] * cpu_experts.KEEP <= min(grounds["cpu_more_cost"], grounds["cpu_less_cost"]) * 1.1
    sides = {side: grounds[f"memory_{side}_margin"] for side in ("more", "less")}
    assert any(sides.values())  # the highest and the lowest margin have one neighbour
    for side, sign in (("more", 1), ("less", -1)):
        if sides[side] is not None:
            assert (sides[side] - grounds["memory_margin"]) * sign > 0
            assert grounds[f"memory_{side}_cost"] * sign >= 0.0 >= grounds[f"memory_{side}_kills"] * sign
    said = "\n".join(because_texts.in_words(last.because))
    assert f"expert '{grounds['cpu_expert']}'" in said
    assert "promised at most 2.00%" in said
    assert f"the next higher is '{grounds['cpu_more_expert']}'" in said
    assert "a margin of" in said.partition("one notch ")[2]


def test_use_above_the_request_is_kept_within_the_promise() -> None:
    use = swinging(4 * 288)
    stage = opened(policy="adaptive")
    force, over = float("nan"), 0
    stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
    for place, (cores, memory) in enumerate(use):
        over += cores > force
        number = START + place * 5 * MINUTE
        usage = scrape(number, [(API.key, "a", "app", cores, memory)], window=300.0)
        for each in stage.step(turn(number, pod_metrics=[usage])):
            if each.topic == "recommendations":
                force = float(each.event.containers[0].target.cpu or 0)
                assert force >= int(cores * 1000) / 1000 or each.event.because.get("policy_fault")
    assert over / len(use) <= 0.02 + (cpu_experts.MOST - cpu_experts.FIRST) / (cpu_experts.STEP * len(use))
    assert over / len(use) <= 0.03


def test_the_promise_of_cpu_is_kept_on_the_first_day_of_what_bursts_every_few_minutes() -> None:
    chance = np.random.default_rng(3)
    minutes = 24 * 60
    cores = np.where(chance.random(minutes) < 0.4, 0.5, 0.08) * chance.lognormal(0.0, 0.05, minutes)
    last = decided(opened(policy="adaptive"), [(each, 200.0 * MIB) for each in cores.tolist()], minutes=1)[-1]
    grounds = last.because["policy_grounds"]["app"]
    assert grounds["cpu_short_delivered"] <= grounds["cpu_short_promised"]


def test_a_promise_that_is_nearly_used_up_is_named_where_it_chose_the_expert() -> None:
    use = [(2.0 ** (place / 24), 200.0 * MIB) for place in range(100)]
    last = decided(opened(policy="adaptive", risk_cpu=0.001), use)[-1]
    assert last.because["policy_grounds"]["app"]["cpu_held"] == 1
    assert "nearly used up, so only experts that kept it are followed" in "\n".join(because_texts.in_words(last.because))


def test_where_a_change_evicts_the_bounds_are_as_wide_as_the_built_in_ones() -> None:
    for mode, wide in (("Recreate", True), ("InPlace", False)):
        policy = vpa(annotations={"ullage/*.policy": "adaptive"}, update_mode=mode)
        [container] = decided(opened(), swinging(60), [policy])[-1].containers
        assert (container.lower.cpu < container.target.cpu < container.upper.cpu) is wide


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 64.0), st.floats(1.0, 2.0**38)), min_size=1, max_size=60))
def test_a_request_is_never_below_the_use_that_was_seen_last(use: list[tuple[float, float]]) -> None:
    stage = opened(policy="adaptive", bounds_step=0.0)
    stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
    for place, (cores, memory) in enumerate(use):
        number = START + place * 5 * MINUTE
        stage.step(turn(number, pod_metrics=[scrape(number, [(API.key, "a", "app", cores, memory)], window=300.0)]))
        state, _ = stage.feed.remembered(adaptive_policy.POLICY, np.array([0]))
        assert state["cpu_applied"][0] >= np.float32(cores)
        assert state["memory_applied"][0] >= np.float32(memory)


def test_a_request_is_not_lowered_below_use_where_much_risk_is_allowed() -> None:
    stage = opened(policy="adaptive", risk_cpu=0.2)
    stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
    for place, (cores, memory) in enumerate(swinging(400)):
        number = START + place * 5 * MINUTE
        stage.step(turn(number, pod_metrics=[scrape(number, [(API.key, "a", "app", cores, memory)], window=300.0)]))
        state, _ = stage.feed.remembered(adaptive_policy.POLICY, np.array([0]))
        assert state["cpu_applied"][0] >= np.float32(cores)


def test_the_risks_have_bounds_in_annotations() -> None:
    assert vpa_annotations.fault({"ullage/*.risk_cpu": "0.05", "ullage/app.policy": "adaptive"}) is None
    assert "lies from 0.001 to 0.2" in str(vpa_annotations.fault({"ullage/*.risk_cpu": "0.5"}))
    assert "none of adaptive, built-in" in str(vpa_annotations.fault({"ullage/*.policy": "mine"}))


def test_what_is_hardly_known_is_not_given_more_memory_than_the_built_in_estimator_gives() -> None:
    use = [(0.2, (600 + 30 * (place // 12 % 2)) * MIB) for place in range(200)]
    ours = decided(opened(policy="adaptive"), use)[-1].containers[0].target.memory
    built_in = decided(opened(), use)[-1].containers[0].target.memory
    assert 630 * MIB < ours <= built_in / memory_experts.DOWN
