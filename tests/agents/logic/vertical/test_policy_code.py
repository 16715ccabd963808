"""Policies written as code in the recommender: what they see, that they decide, what becomes of faults, and one in shadow."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.logic.vertical.policy_code import (
    CodePolicy,
    EvidenceColumns,
    HistogramColumns,
    PolicyFault,
    PolicyState,
    RecommendedColumns,
    SampleColumns,
    StateColumn,
    answer,
)
from agents.logic.vertical.policy_feed import nothing_remembered
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.policies import policy_sources
from schemas.names import Amounts
from tests.support.cluster_events import API, MINUTE, START, pod, scrape, turn
from tests.support.commands import ROOT
from tests.support.cost_in_steps import steps

Recommend = Callable[[EvidenceColumns], RecommendedColumns]
NAME = "mine@0123456789abcdef"
BUILT_IN_RULE = policy_sources.load(policy_sources.read(str(ROOT / "examples/built_in_rule.py")))


def as_built_in(usage: EvidenceColumns) -> RecommendedColumns:
    return usage.builtin


def of_peaks(usage: EvidenceColumns) -> RecommendedColumns:
    """Two cores, and twice the recent peak."""
    two, peak = np.full(len(usage.samples), 2.0), usage.recent_peak * 2
    return RecommendedColumns(two, two, two, peak, peak, peak)


def divides_by_nothing(usage: EvidenceColumns) -> RecommendedColumns:
    return RecommendedColumns(*[np.full(1, 1 // int(usage.samples[0] * 0))] * 6)


def stateless(recommend: Recommend, reference: str = NAME, *, strict: bool = False) -> CodePolicy:
    return CodePolicy(reference, lambda usage, _: recommend(usage), strict=strict)


def look_up(recommend: Recommend) -> Callable[[str], CodePolicy | None]:
    return lambda reference: stateless(recommend) if reference == NAME else None


def opened(recommend: Recommend = as_built_in, **changed: Any) -> Recommender:
    return Recommender(replace(VerticalSettings(bounds_step=0.0), **changed), 0, look_up(recommend))


def decided(stage: Recommender, minutes: int = 6, memory: float = 500 * 2**20) -> list[Any]:
    """All decisions but the copies of the last turn that had any, after one sample a minute of two pods."""
    last: list[Any] = []
    stage.step(turn(START - MINUTE, pod_changes=[pod(name, START - MINUTE) for name in ("a", "b")]))
    for minute in range(minutes):
        number = START + minute * MINUTE
        rows = [(API.key, name, "app", 0.1, memory) for name in ("a", "b")]
        said = stage.step(turn(number, pod_metrics=[scrape(number, rows)]))
        last = [each for each in said if "cluster" not in each.topic] or last
    return last


def test_a_policy_that_returns_the_built_in_amounts_decides_exactly_as_the_built_in_does() -> None:
    [built_in], [mine] = decided(opened()), decided(opened(policy=NAME))
    assert mine.event.containers == built_in.event.containers
    assert mine.event.because["decided_by"] == NAME
    assert "decided_by" not in built_in.event.because


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 900.0), st.floats(0.0, 2.0**42)), min_size=1, max_size=8), st.sampled_from((1, 9, 300)))
def test_the_built_in_rule_written_as_a_policy_decides_exactly_as_the_built_in_does(
    use: list[tuple[float, float]], apart: int
) -> None:
    sides = []
    for policy in ("", NAME):
        stage, said = opened(lambda usage: BUILT_IN_RULE.recommend(usage, nothing_remembered(0)), policy=policy), []
        stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
        for place, (cores, memory) in enumerate(use):
            number = START + place * apart * MINUTE
            said += stage.step(turn(number, pod_metrics=[scrape(number, [(API.key, "a", "app", cores, memory)])]))
        sides.append([(each.event.at, each.event.containers) for each in said if each.topic == "recommendations"])
        assert not any("policy_fault" in each.event.because for each in said if each.topic == "recommendations")
    assert sides[0]
    assert sides[0] == sides[1]


def test_what_a_policy_says_is_recommended_within_the_bounds_of_the_settings() -> None:
    [said] = decided(opened(of_peaks, policy=NAME, maximum_cpu=1.5))
    [container] = said.event.containers
    assert container.target == Amounts(1.5, 1000 * 2**20)
    assert container.uncapped == Amounts(2.0, 1000 * 2**20)


def test_a_policy_sees_what_the_built_in_estimator_sees() -> None:
    seen: list[EvidenceColumns] = []

    def look(usage: EvidenceColumns) -> RecommendedColumns:
        seen.append(usage)
        return usage.builtin

    [said] = decided(opened(look, policy=NAME))
    usage, about = seen[-1], said.event.because["containers"]["app"]
    for histogram, resource in ((usage.cpu, "cpu"), (usage.memory, "memory")):
        assert isinstance(histogram, HistogramColumns)
        shares = zip(about[resource]["percentiles"].values(), (0.5, 0.9, 0.95), strict=True)
        assert all(histogram.percentile(share).tolist() == [found] for found, share in shares)
    assert usage.samples.tolist() == [about["samples"]]
    assert usage.recent_peak.tolist() == [500 * 2**20]
    assert usage.last[0] - usage.first[0] == (about["samples"] / 2 - 1) * 60
    with pytest.raises(ValueError, match="read-only"):
        usage.cpu.weights[0, 0] = 1.0


def test_where_a_policy_fails_the_built_in_decides_and_says_why() -> None:
    [built_in], [mine] = decided(opened()), decided(opened(divides_by_nothing, policy=NAME))
    assert mine.event.containers == built_in.event.containers
    assert mine.event.because["policy_fault"] == (
        "it raised ZeroDivisionError: integer division or modulo by zero; the built-in estimator decided"
    )


def column(*values: float) -> Any:
    return np.array(values, np.float64)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"target_cpu": column(1.0, 2.0)}, r"target_cpu has shape \(2,\) of float64, and must have shape \(1,\) of float64"),
        ({"target_cpu": np.array([1])}, r"target_cpu has shape \(1,\) of int64"),
        ({"target_cpu": 1.0}, "target_cpu is float, not an array"),
        ({"lower_cpu": column(-1.0)}, "lower_cpu of container 0 is -1"),
        ({"upper_memory": column(np.inf)}, "upper_memory of container 0 is inf"),
        ({"upper_memory": column(0.5)}, "memory of container 0: lower 1, target 1, upper 0.5 are not in this order"),
        ({"upper_memory": column(np.nan)}, "memory: a container has some of lower, target and upper, and NaN for the others"),
    ],
)
def test_an_answer_that_is_no_recommendation_is_a_fault_that_names_it(changed: Any, sentence: str) -> None:
    good = RecommendedColumns(*[column(1.0)] * 6)
    nothing = HistogramColumns(column(0.0, 1.0), np.zeros((1, 2)))
    usage = EvidenceColumns(
        nothing, nothing, lambda: column(0.0), *[column(0.0)] * 3, lambda: good, column(0.0), column(0.0), np.array([True])
    )
    state = nothing_remembered(1)
    assert answer(stateless(as_built_in), usage, state).tolist() == [[1.0]] * 6
    with pytest.raises(PolicyFault, match=sentence):
        answer(stateless(lambda _: replace(good, **changed)), usage, state)


def test_a_turn_under_a_policy_that_remembers_runs_no_more_than_1_6_times_the_python_of_one_without() -> None:
    """A backtest of few containers is all such turns; what it costs is measured by `tests/bench/policy_costs.py`."""

    def above_the_peak(usage: EvidenceColumns, state: PolicyState) -> RecommendedColumns:
        own, floor = usage.builtin, state["peak"] * 1.2
        memory = (own.lower_memory, np.fmax(own.target_memory, floor), np.fmax(own.upper_memory, floor))
        return RecommendedColumns(own.lower_cpu, own.target_cpu, own.upper_cpu, *memory)

    def remember(samples: SampleColumns, state: PolicyState) -> None:
        state["peak"] = np.fmax(state["peak"] * 0.5, samples.memory)

    policy = CodePolicy(NAME, above_the_peak, remember, state=(StateColumn("peak"),))

    def lines(reference: str) -> int:
        stage = Recommender(VerticalSettings(policy=reference), 0, lambda name: policy if name == NAME else None)
        stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
        turns = [turn(at, pod_metrics=[scrape(at, [(API.key, "a", "app", 0.1, 5e8)])]) for at in (START, START + MINUTE)]
        stage.conclude(turns[0])
        return steps(lambda: stage.conclude(turns[1]))

    assert lines(NAME) <= 1.6 * lines("")


@pytest.mark.parametrize(
    ("changed", "seen"),
    [({}, (0.1, 9e8)), ({"window_peaks": False}, (0.1, 5e8)), ({"cpu_peaks": True}, (0.7, 9e8))],
)
def test_a_policy_observes_the_highest_use_within_a_window_where_the_estimator_does(
    changed: dict[str, bool], seen: tuple[float, float]
) -> None:
    shown: list[tuple[float, float]] = []

    def look(samples: SampleColumns, _: PolicyState) -> None:
        shown.append((samples.cpu[0], samples.memory[0]))

    policy = CodePolicy(NAME, lambda usage, _: usage.builtin, look, state=(StateColumn("nothing"),))
    stage = Recommender(VerticalSettings(policy=NAME, **changed), 0, lambda name: policy if name == NAME else None)  # type: ignore[arg-type]
    stage.step(turn(START - MINUTE, pod_changes=[pod("a", START - MINUTE)]))
    sample = replace(scrape(START, [(API.key, "a", "app", 0.1, 5e8)]), cores_max=np.array([0.7]), memory_max=np.array([9e8]))
    stage.step(turn(START, pod_metrics=[sample]))
    assert shown == [seen]


def test_a_strict_policy_ends_what_runs_it() -> None:
    stage = Recommender(
        VerticalSettings(policy=NAME), 0, lambda name: stateless(divides_by_nothing, strict=True) if name == NAME else None
    )
    with pytest.raises(PolicyFault, match="ZeroDivisionError"):
        decided(stage)


def test_a_policy_in_shadow_changes_nothing_and_says_what_it_would_and_the_difference() -> None:
    alone, beside = decided(opened()), decided(opened(of_peaks, shadow_policy=NAME))
    assert [each.topic for each in beside] == ["recommendations", "shadow-recommendations", "shadow-differences"]
    assert beside[0].event.containers == alone[0].event.containers
    said, compared = beside[1].event, beside[2].event
    assert (said.policy, said.reason, said.workload) == (NAME, "", API)
    assert said.containers[0].target == Amounts(2.0, 1000 * 2**20)
    in_force = alone[0].event.containers[0].target
    [pair] = compared.containers
    assert (pair.in_force, pair.shadow) == (in_force, Amounts(2.0, 1000 * 2**20))
    assert (compared.in_force, compared.shadow, compared.pods) == ("built-in", NAME, 2)
    assert compared.cores == pytest.approx(compared.pods * (2.0 - in_force.cpu))
    assert compared.bytes == compared.pods * (1000 * 2**20 - in_force.memory)
    assert beside[1].cause == beside[0].cause


def test_the_built_in_estimator_can_be_in_shadow_of_a_policy() -> None:
    [_, said, compared] = decided(opened(of_peaks, policy=NAME, shadow_policy="built-in"))
    [built_in] = decided(opened())
    assert said.event.containers[0].target == built_in.event.containers[0].target == Amounts(0.126, 628694953)
    assert (compared.event.in_force, compared.event.shadow) == (NAME, "built-in")


def test_a_fault_of_a_policy_in_shadow_is_told_in_its_own_topic_alone() -> None:
    [said, shadow, _] = decided(opened(divides_by_nothing, shadow_policy=NAME))
    assert "policy_fault" not in said.event.because
    assert shadow.event.reason == "it raised ZeroDivisionError: integer division or modulo by zero"


def test_rules_that_name_a_policy_nobody_has_are_refused() -> None:
    with pytest.raises(KeyError, match="other@"):
        Recommender(VerticalSettings(policy="other@00"), 0)
