"""Usage that a metrics store remembered, and rows with times of their own: both count as if they had come when they were made."""

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.logic.usage.container_usage import ContainerUsage, UsageSettings
from agents.logic.usage.pod_index import UNKNOWN
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.names import Workload
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, scrape, turn

HOUR = 60 * MINUTE
DAY = 24 * HOUR
CART = Workload("demo", "web", "Deployment", "cart").key
OWN = {"created", "changed", "offset"}
"""What a state says of its turns and places, and not of usage."""
LABELS = {"app": "api"}

CORES, BYTES = (st.one_of(st.just(math.nan), st.floats(0, most)) for most in (40, 5e10))
PLACES = st.tuples(st.sampled_from([API.key, CART]), st.sampled_from("abc"), st.sampled_from(["app", "side"]))
ROWS = st.lists(st.tuples(PLACES, CORES, BYTES), unique_by=lambda row: row[0], max_size=8)
SEEN = st.lists(st.tuples(PLACES, st.floats(0, 40), BYTES), unique_by=lambda row: row[0], max_size=8)
"""With CPU: what never had any usage goes at the next full hour, which is another turn for history."""
QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def flat(rows: Any) -> Any:
    return [(*place, cores, memory) for place, cores, memory in rows]


def held(usage: ContainerUsage) -> Any:
    """All that is known of usage, bit for bit."""
    parts: dict[str, Any] = {"containers": sorted(usage.containers.keys()), "aggregates": list(usage.aggregates.keys())}
    for rows in (usage.containers, usage.aggregates):
        used = rows.used()
        for name, spec in rows.spec.items():
            if spec.kept and name not in OWN:
                parts[f"{rows.name}.{name}"] = (rows.spans(name).dense(used) if spec.width else rows[name][used]).tobytes()
    return parts


def fold(usage: ContainerUsage, number: int, rows: Any, **changed: Any) -> None:
    usage.scrape(scrape(number, rows, **changed), number / 1000, offset=0)


def open_usage(half_life: float, window: float) -> ContainerUsage:
    """All pods of a workload and container name are one aggregate, so rows of different times meet in it."""
    chosen = UsageSettings(cpu_half_life=half_life, memory_half_life=half_life, window=window)  # type: ignore[arg-type]  # units
    return ContainerUsage(chosen, lambda workload, _pod, container: (workload, container, ""))


@QUICK
@given(
    st.lists(st.tuples(st.integers(1, 3000), ROWS, st.lists(st.floats(0, 86_400), min_size=8, max_size=8)), max_size=4),
    st.sampled_from([(86_400.0, 86_400.0), (30.0, 600.0)]),
)
def test_a_scrape_with_ages_is_its_rows_each_at_its_own_time(scrapes: Any, shape: Any) -> None:
    together, apart = open_usage(*shape), open_usage(*shape)
    number = START
    for minutes, rows, ages in scrapes:
        number += minutes * MINUTE
        fold(together, number, flat(rows), ages=np.array(ages[: len(rows)]))
        for row, age in sorted(zip(flat(rows), ages, strict=False)):
            apart.scrape(scrape(number, [row]), number / 1000 - age, offset=0)
    assert held(together) == held(apart)


def test_first_and_last_are_those_of_all_rows_of_an_aggregate_whatever_their_order() -> None:
    usage = open_usage(86_400.0, 86_400.0)
    rows = [(API.key, name, "app", 0.1, float(GIB)) for name in "abc"]
    fold(usage, START, rows, ages=np.array([60.0, 600.0, 0.0]))
    fold(usage, START + HOUR, rows, ages=np.array([0.0, 60.0, 120.0]))
    assert usage.aggregates["first"][0] == START / 1000 - 600
    assert usage.aggregates["last"][0] == START / 1000 + 3600
    assert usage.aggregates["count"][0] == 6


def open_stage() -> Recommender:
    stage = Recommender(VerticalSettings(), 0)
    stage.step(turn(START - MINUTE, pod_changes=[pod(name, START, labels=LABELS) for name in "ab"]))
    return stage


@QUICK
@given(st.lists(st.tuples(st.integers(1, 24 * 60), SEEN), min_size=1, max_size=7), st.integers(0, 7))
def test_history_and_then_live_usage_is_all_of_it_live(steps: Any, cut: int) -> None:
    numbers = [START + MINUTE * sum(minutes for minutes, _ in steps[: i + 1]) for i in range(len(steps))]
    every = [(number, flat(rows)) for number, (_, rows) in zip(numbers, steps, strict=True)]
    live, seeded = open_stage(), open_stage()
    past = [scrape(number, rows, history=True) for number, rows in every[:cut]]
    seeded.step(turn(every[min(cut, len(every)) - 1][0] if cut else START, pod_metrics=past))
    for place, (number, rows) in enumerate(every):
        live.step(turn(number, pod_metrics=[scrape(number, rows)]))
        if place >= cut:
            seeded.step(turn(number, pod_metrics=[scrape(number, rows)]))
    assert held(live.usage) == held(seeded.usage)


def test_history_of_what_was_counted_already_changes_nothing() -> None:
    stage = open_stage()
    rows = [(API.key, "a", "app", 0.1, float(GIB)), (CART, "c", "app", 0.1, float(GIB))]
    stage.step(turn(START, pod_metrics=[scrape(START, rows)]))
    before = held(stage.usage)
    past = [scrape(number, rows, history=True) for number in range(START - DAY, START + 1, HOUR)]
    stage.step(turn(START + MINUTE, pod_metrics=past))
    assert held(stage.usage) == before


def test_history_of_pods_that_nobody_told_of_counts_for_their_workload() -> None:
    stage = open_stage()
    rows = [(API.key, name, "app", 0.1, float(GIB)) for name in "ax"]
    decided = stage.step(turn(START, pod_metrics=[scrape(START - DAY, rows, history=True)]))
    assert sorted(stage.usage.aggregates.keys()) == [(API.key, "app", UNKNOWN), (API.key, "app", "app=api")]
    said: Any = [*decided, *stage.step(turn(START + MINUTE))][0].event
    assert said.because["containers"]["app"]["samples"] == 2


def test_history_stays_until_its_last_sample_is_eight_days_old() -> None:
    stage = open_stage()
    rows = [(API.key, "x", "app", 0.1, float(GIB))]
    past = [scrape(START - hours * HOUR, rows, history=True) for hours in (300, 250, 190)]
    stage.step(turn(START, pod_metrics=past))
    # the last is 190 h old at START; 8 days are 192 h
    unknown = (API.key, "app", UNKNOWN)
    for hours, left in ((1, True), (2, False)):
        stage.step(turn(START + hours * HOUR))
        assert (unknown in stage.usage.aggregates, (API.key, "x", "app") in stage.usage.containers) == (left, left)
