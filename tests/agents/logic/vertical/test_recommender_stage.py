"""The recommender as a stage: what it says, when, why; and that neither order, batches, partition nor a resume change it."""

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.facts.pods import PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, PodName, Workload
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged, VerticalPolicyRemoved
from tests.support.cluster_events import API, GIB, MINUTE, START, scrape, turn, when

Json = dict[str, Any]


HALF_GIB = 500 * 2**20


def open_stage(**changed: Any) -> Any:
    return Recommender(replace(VerticalSettings(bounds_step=0.0), **changed), 0)


def steady(stage: Any, minutes: int, cores: float = 0.1, memory: float = HALF_GIB) -> Any:
    """One sample each minute; what was said last."""
    last = None
    for minute in range(minutes):
        number = START + minute * MINUTE
        decided = stage.step(turn(number, pod_metrics=[scrape(number, [(API.key, "a", "app", cores, memory)])]))
        last = decided[0].event if decided else last
    return last


@pytest.mark.parametrize(
    ("samples", "lower", "upper"),
    [
        # worked numbers: cpu bucket 8 ends at 0.110265 -> 110 m, + int(110 * 0.15) = 16 -> 126 m;
        # memory bucket 26 ends at 546691264, + 82003689 -> 628694953
        (6, (75, 378972981), (36414, 181692841417)),
        (31, (114, 572423439), (6174, 30806052697)),
        (61, (120, 599570229), (3150, 15717373825)),
        (721, (125, 626187697), (378, 1886084859)),
    ],
)
def test_a_steady_container_gets_the_worked_numbers(samples: int, lower: Any, upper: Any) -> None:
    said = steady(open_stage(), samples)
    [container] = said.containers
    assert container.target == Amounts(0.126, 628694953) == container.uncapped
    assert container.lower == Amounts(lower[0] / 1000, lower[1])
    assert container.upper == Amounts(upper[0] / 1000, upper[1])


def test_the_reasons_suffice_to_redo_the_sum() -> None:
    said = steady(open_stage(), 31)
    because, container = said.because, said.containers[0]
    numbers, rules = because["containers"]["app"], because["settings"]
    sure = min(30 / 1440, numbers["samples"] / 1440)
    for resource, unit in (("cpu", 1000), ("memory", 1)):
        part = numbers[resource]
        assert part["confidence"] == pytest.approx(sure)
        amounts = {}
        for bound, factor in (("lower", (1 + 0.001 / sure) ** -2), ("target", 1.0), ("upper", 1 + 1 / sure)):
            base = int(part["percentiles"][bound] * unit)
            amounts[bound] = max(int((base + int(base * rules["margin"])) * factor), int(part["minimum"] * unit))
        for bound, amount in amounts.items():
            assert getattr(getattr(container, bound), resource) * unit == pytest.approx(amount, abs=1)
    assert (numbers["first"], numbers["last"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z")


def test_a_recommendation_is_said_to_the_workload_and_to_its_cluster_with_its_causes() -> None:
    stage = open_stage()
    policy = VerticalPolicyChanged(when(START), "demo/*", "7")
    stage.step(turn(START, policies=[policy], pod_metrics=[scrape(START, [(API.key, "a", "app", 0.1, GIB)])]))
    number = START + MINUTE
    decided = stage.step(turn(number))
    assert [(d.topic, d.key) for d in decided] == [("recommendations", API.key), ("recommendations-by-cluster", "demo")]
    assert decided[0].event is decided[1].event
    assert decided[0].event.id == f"recommender/0/{number}/requests/{API.key}"
    assert [str(p) for p in decided[0].cause] == [
        f"ullage.policies.v1:0:{START // 1000}",
        f"ullage.pod-metrics.v1:0:{START // 1000}",
    ]
    assert decided[0].event.because["policy"]["version"] == "7"


def test_what_did_not_move_is_said_again_only_after_an_hour() -> None:
    stage = open_stage(bounds_step=10.0)
    said = []
    for minute in range(130):
        number = START + minute * MINUTE
        rows = [(API.key, "a", "app", 0.1, GIB)]
        if stage.step(turn(number, pod_metrics=[scrape(number, rows)])):
            said.append(minute)
    assert said[0] == 1
    assert np.diff(said[1:]).tolist() == [60] * (len(said) - 2)
    assert len(said) in (3, 4)


def test_an_oom_kill_is_answered_in_its_own_turn() -> None:
    stage = open_stage()
    steady(stage, 10)
    number = START + 9 * MINUTE + 500
    killed = ContainerOOMKilled(when(number), API, PodName("web", "a", "u"), "app", 1, 1000 * 2**20, None)
    decided = stage.step(turn(number, oom_events=[killed]))
    # 1000 MiB * 1.2 = 1258291200 bytes replaces 500 MiB; it lies in bucket 40, which ends at 1278397629
    expected = 1278397629 + int(1278397629 * 0.15)
    assert decided[0].event.containers[0].target.memory == expected
    assert decided[0].event.last_oom.pod.uid == "u"


def test_what_kills_showed_of_containers_that_nobody_measures_lasts_until_there_are_none_for_eight_days() -> None:
    stage, hour, said, cron = open_stage(), 3_600_000, list[tuple[int, int]](), replace(API, kind="CronJob")
    for number in range(0, 30 * 24, 6):
        at, pod = START + number * hour, PodName("web", f"a-{number}", f"u-{number}")
        kill = ContainerOOMKilled(when(at), cron, pod, "app", 1, 32 * 2**20, 32 * 2**20, started=when(at - 5000))
        kills = [kill] if number < 20 * 24 else []
        decided = stage.step(turn(at, oom_events=kills, pod_changes=[PodDeleted(when(at), cron, pod)] if kills else []))
        said += [(number, len(each.event.containers)) for each in decided]
    assert {number // 24 for number, containers in said if not containers} == {27}


def test_a_kill_at_the_limit_of_the_pod_itself_counts_by_what_was_used_and_never_beyond_that_limit() -> None:
    most = 550 * 2**20
    for limit, expected in ((most, most), (2 * most, 600 * 2**20)):
        stage = open_stage()
        steady(stage, 10)
        number = START + 9 * MINUTE + 500
        at_pods = ContainerOOMKilled(when(number), API, PodName("web", "a", "u"), "app", 1, 10**9, None, pod_limit=limit)
        for own in (at_pods, replace(at_pods, restarts=2, started=when(number - 1000))):
            decided = stage.step(turn(number := number + 1, oom_events=[own]))[0]
        # 500 MiB were used, of which 100 MiB more is upstream's bump; the margin and the bucket's end come to 22 % at most.
        assert expected < decided.event.containers[0].target.memory < 1.22 * expected
        assert decided.event.last_oom.pod_limit == limit


@pytest.mark.parametrize("late", [0, 1, 90])
def test_an_oom_kill_counts_though_its_pod_is_gone_by_then(late: int) -> None:
    stage = open_stage()
    steady(stage, 10)
    number = START + 9 * MINUTE + 500
    gone = PodDeleted(when(number), API, PodName("web", "a", "u"))
    if late:
        stage.step(turn(number, pod_changes=[gone]))
    killed = ContainerOOMKilled(when(number), API, PodName("web", "a", "u"), "app", 1, 1000 * 2**20, None)
    decided = stage.step(turn(number + late * MINUTE, oom_events=[killed], pod_changes=[] if late else [gone]))
    assert decided[0].event.containers[0].target.memory > 1000 * 2**20


def test_a_policy_bounds_the_amounts_and_the_longest_target_wins() -> None:
    stage = open_stage()
    wide = VerticalPolicyChanged(when(START), "*", "1", containers=(ContainerPolicy("*", min_allowed=Amounts(9.0, None)),))
    near = VerticalPolicyChanged(
        when(START), "demo/web/*", "2", containers=(ContainerPolicy("app", Amounts(0.5, None), Amounts(None, 10**8)),)
    )
    stage.step(turn(START - MINUTE, policies=[wide, near]))
    container = steady(stage, 6).containers[0]
    assert container.target == Amounts(0.5, 10**8)
    assert container.uncapped == Amounts(0.126, 628694953)
    number = START + 6 * MINUTE
    decided = stage.step(turn(number, policies=[VerticalPolicyRemoved(when(number), "demo/web/*")]))
    assert decided[0].event.containers[0].target == Amounts(9.0, 628694953)


def test_an_amount_never_seen_is_not_recommended() -> None:
    said = steady(open_stage(), 3, memory=math.nan)
    assert said.containers[0].target == Amounts(0.126, None)


def test_containers_of_one_pod_share_the_minimum() -> None:
    stage = open_stage()
    rows = [(API.key, "a", name, 0.001, 2**20) for name in ("app", "side")]
    stage.step(turn(START, pod_metrics=[scrape(START, rows)]))
    decided = stage.step(turn(START + MINUTE))
    assert [(c.container, c.target) for c in decided[0].event.containers] == [
        ("app", Amounts(0.012, 131072000)),
        ("side", Amounts(0.012, 131072000)),
    ]


def test_a_deleted_pod_leaves_its_usage_behind_and_its_window_not() -> None:
    stage = open_stage()
    steady(stage, 3)
    number = START + 3 * MINUTE
    gone = PodDeleted(when(number), API, PodName("web", "a", "u"))
    stage.step(turn(number, pod_changes=[gone]))
    assert len(stage.usage.containers) == 0
    assert len(stage.usage.aggregates) == 1


def test_what_has_no_samples_for_eight_days_is_forgotten() -> None:
    stage = open_stage()
    steady(stage, 3)
    stage.step(turn(START + 8 * 24 * 60 * MINUTE + 60 * MINUTE))
    assert (len(stage.usage.aggregates), len(stage.usage.containers), len(stage.announced.table)) == (0, 0, 0)


# properties

KEYS = [Workload("demo", f"ns{i % 2}", "Deployment", f"w{i}").key for i in range(3)]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["app", "side"]),
        st.one_of(st.just(math.nan), st.floats(0, 40)),
        st.one_of(st.just(math.nan), st.floats(0, 5e10)),
    ),
    unique_by=lambda row: row[:3],
    max_size=8,
)
STEPS = st.lists(st.tuples(st.integers(1, 40 * 60), ROWS, st.booleans(), st.booleans()), min_size=1, max_size=7)


def turns(steps: list[Any], shape: Json = lambda rows: [rows]) -> Any:
    number, made = START, []
    for minutes, rows, killed, deleted in steps:
        number += minutes * MINUTE
        inputs = {"pod_metrics": [scrape(number, part) for part in shape(rows)]}
        if killed and rows:
            pod = PodName("ns", rows[0][1], "u")
            inputs["oom_events"] = [ContainerOOMKilled(when(number), Workload.parse(rows[0][0]), pod, rows[0][2], 1, GIB, None)]
        if deleted and rows:
            inputs["pod_changes"] = [PodDeleted(when(number), Workload.parse(rows[-1][0]), PodName("ns", rows[-1][1], "u"))]
        made.append(turn(number, **inputs))
    return made


def content(decided: list[Any]) -> Any:
    """Decisions without the places of scrapes, which differ when a scrape is cut in two."""
    return [(d.topic, d.key, d.event) for d in decided]


def resumed(stage: Any) -> Any:
    fresh = open_stage()
    for chunk in sorted(stage.chunks()):
        fresh.load(chunk, stage.dump(chunk))
    return fresh


def dumped(stage: Any) -> Any:
    return {chunk: stage.dump(chunk) for chunk in stage.chunks()}


QUICK = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(STEPS, st.integers(0, 6))
def test_a_resumed_snapshot_is_as_if_it_had_never_stopped(steps: list[Any], cut: int) -> None:
    through, stopped = open_stage(), open_stage()
    for place, each in enumerate(turns(steps)):
        if place == cut:
            stopped = resumed(stopped)
        assert list(through.step(each)) == list(stopped.step(each))
    assert dumped(through) == dumped(stopped)


@QUICK
@given(STEPS)
def test_what_a_checkpoint_writes_piece_by_piece_is_the_whole_state(steps: list[Any]) -> None:
    stage, written = open_stage(), {}
    for each in turns(steps):
        stage.step(each)
        written |= {chunk: stage.dump(chunk) for chunk in stage.take_dirty()}
    assert written == dumped(stage)


@QUICK
@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_of_containers_in_a_scrape_changes_nothing(steps: list[Any], chance: random.Random) -> None:
    one, other = open_stage(), open_stage()
    mixed = [(m, chance.sample(rows, len(rows)), False, False) for m, rows, *_ in steps]
    for a, b in zip(turns([(m, r, False, False) for m, r, *_ in steps]), turns(mixed), strict=True):
        assert list(one.step(a)) == list(other.step(b))


@QUICK
@given(STEPS, st.integers(0, 8))
def test_one_scrape_is_as_good_as_two(steps: list[Any], cut: int) -> None:
    one, other = open_stage(), open_stage()
    ordered = [(m, sorted(rows, key=lambda row: row[:3]), k, d) for m, rows, k, d in steps]
    halves = turns(ordered, shape=lambda rows: [rows[:cut], rows[cut:]])
    for a, b in zip(turns(ordered), halves, strict=True):
        assert content(one.step(a)) == content(other.step(b))


@QUICK
@given(STEPS)
def test_other_workloads_in_the_partition_change_nothing(steps: list[Any]) -> None:
    def of(key: Any) -> Any:
        return [(m, [r for r in rows if r[0] == key], False, False) for m, rows, *_ in steps]

    together = open_stage()
    said = [content(together.step(each)) for each in turns([(m, r, False, False) for m, r, *_ in steps])]
    for key in KEYS:
        alone = open_stage()
        mine = [content(alone.step(each)) for each in turns(of(key))]
        assert mine == [[d for d in decided if d[2].workload.key == key] for decided in said]
