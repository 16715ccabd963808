"""Containers that are estimated early get what their own turn would have given them, to the byte."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.engine.turn import Turn
from agents.logic.vertical import recommendation_schedule, recommender_stage
from agents.logic.vertical.policy_code import CodePolicy, EvidenceColumns, RecommendedColumns
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.facts.nodes import NodeChanged
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, PodName, Workload
from schemas.policies.vertical import ContainerMode, ContainerPolicy, VerticalPolicyChanged, VerticalPolicyRemoved
from tests.support.cluster_events import GIB, START, scrape, turn, when

OWNERS = [Workload("demo", "web", "Deployment", f"app-{n}") for n in range(3)]
NAMES = ("app", "side")
OFF = ContainerMode.OFF

owners, names = st.sampled_from(OWNERS), st.sampled_from(NAMES)
CHANGE = st.one_of(
    st.builds(
        lambda rows: ("pod-metrics", rows),
        st.lists(
            st.tuples(owners.map(lambda owner: owner.key), st.just("a"), names, st.floats(0, 40), st.floats(0, 5e10)),
            unique_by=lambda row: row[:3],
            min_size=3,
        ),
    ),
    st.builds(lambda owner, name: ("oom-events", (owner, name)), owners, names),
    st.builds(lambda owner: ("pod-changes", PodDeleted(when(START), owner, PodName("web", "a", "u"))), owners),
    st.builds(
        lambda owner: (
            "pod-changes",
            PodChanged(when(START), owner, PodName("web", "a", "u"), PodPhase.RUNNING, when(START), (ContainerSeen("app"),)),
        ),
        owners,
    ),
    st.builds(
        lambda target, version, entry: ("policies", VerticalPolicyChanged(when(START), target, version, containers=(entry,))),
        st.sampled_from(["demo/*", *(owner.key for owner in OWNERS)]),
        st.sampled_from("12"),
        st.sampled_from([ContainerPolicy("app", mode=OFF), ContainerPolicy("app", max_allowed=Amounts(0.01, 1000))]),  # type: ignore[arg-type]  # units
    ),
    st.builds(lambda owner: ("policies", VerticalPolicyRemoved(when(START), owner.key)), owners),
    st.builds(
        lambda name, cpu: ("cluster-changes", NodeChanged(when(START), "demo", name, Amounts(cpu, GIB))),
        st.sampled_from("ab"),
        st.sampled_from([0.1, 4.0]),
    ),
)
STEP = st.tuples(st.lists(CHANGE, max_size=2), st.lists(st.sampled_from([1, 250, 500, 7_000, 61_000, 4_000_000]), max_size=25))
SETTINGS = st.sampled_from(
    [
        {},
        {"node_cap": True},
        {"heartbeat": 90.0},
        {"heartbeat": 45.0},
        {"interval": 7.0, "heartbeat": 100.0},
        {"bounds_step": 0.3},
        {"memory_window": 30.0, "memory_windows": 1},
    ]
)


def taken(number: int, changes: list[tuple[str, Any]]) -> Turn:
    inputs: dict[str, list[Any]] = {}
    for topic, change in changes:
        event = change
        if topic == "pod-metrics":
            event = scrape(number, change)
        elif topic == "oom-events":
            event = ContainerOOMKilled(when(number), change[0], PodName("web", "a", "u"), change[1], 1, GIB, None)  # type: ignore[arg-type]  # units
        inputs.setdefault(topic.replace("-", "_"), []).append(event)
    return turn(number, **inputs)


def turns(steps: list[Any], apart: int, start: int = START) -> list[Turn]:
    """Each step's changes, then its quiet turns, the last length of which goes on for some more."""
    found, number = [], start
    for changes, lengths in steps:
        number += apart
        found.append(taken(number, changes))
        for length in [*lengths, *[(lengths or [apart])[-1]] * 12]:
            number += length
            found.append(turn(number))
    return found


def taking_one_by_one(stage: Recommender) -> Recommender:
    """The same stage without estimates for later turns."""
    stage.early.due = lambda *_: None  # type: ignore[method-assign]
    return stage


def dumped(stage: Recommender) -> dict[str, bytes]:
    return {chunk: stage.dump(chunk) for chunk in stage.chunks()}


@given(st.lists(STEP, min_size=1, max_size=6), SETTINGS, st.sampled_from([500, 1_000, 3_000]), st.sampled_from([0, 20, 90]))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_estimated_early_is_what_each_turn_would_have_found(
    steps: list[Any], changed: Any, apart: int, before_the_hour: int
) -> None:
    rules = VerticalSettings(**{"bounds_step": 0.0, **changed})
    early, alone = Recommender(rules, 0), taking_one_by_one(Recommender(rules, 0))
    for each in turns(steps, apart, START - before_the_hour * 1000):
        assert list(early.step(each)) == list(alone.step(each))
        assert dumped(early) == dumped(alone)


def test_a_state_loaded_amid_quiet_turns_goes_on_as_the_one_that_was_dumped() -> None:
    rules = VerticalSettings()
    first = Recommender(rules, 0)
    rows = [(owner.key, "a", name, 0.3, 2.0 * GIB) for owner in OWNERS for name in NAMES]
    said = [list(first.step(taken(START + n * 500, [("pod-metrics", rows)] if n == 0 else []))) for n in range(40)]
    second = Recommender(rules, 0)
    for chunk, data in sorted(dumped(first).items()):
        second.load(chunk, data)
    later = [turn(START + n * 500) for n in range(40, 200)]
    assert [list(first.step(each)) for each in later] == (found := [list(second.step(each)) for each in later])
    assert sum(map(len, said + found)) == 2 * len(OWNERS)


def test_quiet_turns_share_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet turns cost a handful of estimates in the first minute, in which each of a hundred workloads is due, and then few."""
    calls: list[int] = []
    found = recommender_stage.recommend

    def counted(usage: Any, members: Any, these: Any, rules: Any) -> Any:
        calls.append(len(these.members))
        return found(usage, members, these, rules)

    monkeypatch.setattr(recommender_stage, "recommend", counted)
    stage = Recommender(VerticalSettings(), 0)
    rows = [(f"demo/web/Deployment/app-{n}", "a", "app", 0.3, 2.0 * GIB) for n in range(100)]
    stage.step(taken(START, [("pod-metrics", rows)]))
    decided = [stage.step(turn(START + n * 500)) for n in range(1, 122)]
    assert sum(map(len, decided)) == 2 * 100
    assert len(calls) <= 8 < sum(bool(each) for each in decided)
    assert sum(calls) <= 2 * 100 + recommendation_schedule._FEW
    calls.clear()
    beats = [stage.step(turn(START + n * 500)) for n in range(122, 122 + 20 * 120)]
    assert len(calls) <= 20 < sum(bool(each) for each in beats)


def test_usage_in_each_turn_is_never_estimated_early() -> None:
    stage = Recommender(VerticalSettings(), 0)
    rows = [(owner.key, "a", "app", 0.3, 2.0 * GIB) for owner in OWNERS]
    for n in range(200):
        stage.step(taken(START + n * 500, [("pod-metrics", rows)] if n % 3 == 0 else []))
        assert stage.early._window is None


def by_company(usage: EvidenceColumns) -> RecommendedColumns:
    """As many cores and GiB as there are containers beside this one: what a policy may do, and should not."""
    many = np.full(len(usage.samples), float(len(usage.samples)))
    return RecommendedColumns(many, many, many, many * GIB, many * GIB, many * GIB)


@pytest.mark.parametrize("place", ["policy", "shadow_policy"])
def test_a_policy_written_as_code_is_asked_in_its_turn(place: str) -> None:
    rules = VerticalSettings(**{place: "mine@1"})  # type: ignore[arg-type]  # one of two names
    early, alone = (Recommender(rules, 0, lambda name: CodePolicy(name, by_company) if name else None) for _ in range(2))
    taking_one_by_one(alone)
    rows = [(f"demo/web/Deployment/app-{n}", "a", "app", 0.3, 2.0 * GIB) for n in range(40)]
    for each in (taken(START + n * 500, [("pod-metrics", rows)] if n == 0 else []) for n in range(130)):
        assert list(early.step(each)) == list(alone.step(each))


MANY = [f"demo/web/Deployment/app-{n}" for n in range(30)]
ROWS = [(workload, "a", "app", 2.0, 2.0 * GIB) for workload in MANY]
NODE = NodeChanged(when(START), "demo", "a", Amounts(1.5, 64 * GIB))  # type: ignore[arg-type]  # units


@pytest.mark.parametrize("moment", [70, 74, 78])
@pytest.mark.parametrize(
    ("changed", "surprise", "about"),
    [
        ({"node_cap": True}, [("cluster-changes", replace(NODE, allocatable=Amounts(8.0, 64 * GIB)))], MANY),
        ({}, [("policies", VerticalPolicyChanged(when(START), "demo/*", "1", containers=(ContainerPolicy(mode=OFF),)))], MANY),
        (
            {},
            [("policies", VerticalPolicyChanged(when(START), MANY[3], "1", containers=(ContainerPolicy(mode=OFF),)))],
            MANY[3:4],
        ),
        ({}, [("pod-metrics", [(workload, "a", "app", 30.0, 9.0 * GIB) for workload in MANY])], MANY),
        ({}, [("oom-events", (OWNERS[2], "app"))], [OWNERS[2].key]),
        ({"memory_window": 60.0, "memory_windows": 1}, [], MANY),
    ],
    ids=["a larger node", "all turned off", "one turned off", "more usage", "a kill", "the hour, in which all usage expires"],
)
def test_what_changes_after_quiet_minutes_counts_for_what_was_estimated_before(
    changed: Any, surprise: Any, about: Any, moment: int
) -> None:
    """At any moment within the minute that was estimated together."""
    rules = replace(VerticalSettings(bounds_step=9.0), **changed)
    early, alone = Recommender(rules, 0), taking_one_by_one(Recommender(rules, 0))
    start = START if surprise else START - moment * 5_000  # a whole hour
    changes = {0: [("pod-metrics", ROWS), ("cluster-changes", NODE)], moment: surprise}
    decided = []
    for each in (taken(start + n * 5_000, changes.get(n, [])) for n in range(120)):
        decided.append(list(early.step(each)))
        assert decided[-1] == list(alone.step(each))
        assert dumped(early) == dumped(alone)
    within_a_minute = {each.key for turned in decided[moment : moment + 13] for each in turned if each.topic == "recommendations"}
    assert within_a_minute >= set(about)
