"""A recommendation comes into force as the updater would bring it: the same pods are due, by the same thresholds."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.backtest.recorded_containers import RecordedContainers, SimulatedUpdates
from agents.logic.governing_policies import PolicyRecord, WorkloadPolicy
from agents.logic.updates.candidate import PodSituation, reasons
from agents.logic.updates.pod_advice import AlikePods, Bounding, WorkloadAdvice
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater_records import NO_HISTORY, NewestRecommendation, PodRecord
from schemas import times
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, Place, PodName
from schemas.policies.vertical import UpdateMode
from schemas.units import Bytes, Cores
from tests.support.small_pipeline import START, START_MS, WEB

POD = PodName("shop", "web-0", "uid-web")
HOUR = 3_600_000
SETTINGS = UpdateSettings()
UPSTREAM = UpdateSettings(profile="upstream")
"""After a kill upstream changes a pod whatever is recommended, as the backtest does; we only give it more memory."""
PLACE = Place("ullage.recommendations.v1", 0, 0)


def seen(*requests: Amounts) -> PodChanged:
    containers = tuple(ContainerSeen(f"c{i}", amounts) for i, amounts in enumerate(requests))
    return PodChanged(START, WEB, POD, PodPhase.RUNNING, START, containers, started=START)


def advice(lower: float, target: float, upper: float) -> tuple[float, ...]:
    """The same number of cores and MiB."""
    return (lower, target, upper, *(each * (1 << 20) for each in (lower, target, upper)))


def one_pod(request: float) -> tuple[RecordedContainers, SimulatedUpdates]:
    rows = RecordedContainers()
    rows.pod_changed(seen(Amounts(Cores(request), Bytes(int(request * (1 << 20))))))
    return rows, SimulatedUpdates(rows, SETTINGS)


def test_a_difference_below_ten_percent_within_the_bounds_changes_nothing_at_any_age() -> None:
    rows, updates = one_pod(100.0)
    rows.advise([(WEB.key, "c0")], [advice(50.0, 104.0, 200.0)])  # 4 % of each resource
    assert [updates.step(START_MS + hours * HOUR) for hours in (1, 11, 12, 100)] == [0, 0, 0, 0]


def test_a_larger_difference_within_the_bounds_waits_until_the_pod_is_old_enough_and_then_begins_anew() -> None:
    rows, updates = one_pod(100.0)
    rows.advise([(WEB.key, "c0")], [advice(50.0, 106.0, 200.0)])  # 6 % of each resource is 12 % in all
    assert [updates.step(START_MS + hours * HOUR) for hours in (1, 11, 12, 13)] == [0, 0, 1, 0]
    assert rows["cpu"][0] == 106.0
    rows.advise([(WEB.key, "c0")], [advice(50.0, 120.0, 200.0)])
    assert [updates.step(START_MS + hours * HOUR) for hours in (14, 23, 24)] == [0, 0, 1]


def test_in_place_a_pod_goes_on_and_nothing_of_it_is_lowered_again_while_it_cools_down() -> None:
    rows, _ = one_pod(100.0)
    updates, minute = SimulatedUpdates(rows, SETTINGS, in_place=True), 60_000
    steps = []
    for number, cores in enumerate((200.0, 150.0, 250.0, 150.0)):  # down waits, up does not
        rows.advise([(WEB.key, "c0")], [advice(cores, cores, cores)])
        steps.append((updates.step(START_MS + number * minute), rows["cpu"][0]))
    assert steps == [(1, 200.0), (0, 200.0), (1, 250.0), (0, 250.0)]
    assert updates.step(START_MS + 16 * minute) == 0
    assert updates.step(START_MS + 17 * minute) == 1, "15 minutes after the last change"
    assert rows.started[0] == times.to_seconds(START)


def test_a_request_outside_its_bounds_is_changed_at_once_and_a_pod_as_a_whole() -> None:
    rows = RecordedContainers()
    rows.pod_changed(seen(Amounts(Cores(1.0)), Amounts(Cores(5.0))))
    updates = SimulatedUpdates(rows, SETTINGS)
    rows.advise([(WEB.key, "c0")], [(2.0, 3.0, 4.0, *[np.nan] * 3)])
    rows.advise([(WEB.key, "c1")], [(4.0, 5.0, 6.0, *[np.nan] * 3)])
    assert updates.step(START_MS) == 2
    assert list(rows["cpu"][:2]) == [3.0, 5.0]


def test_a_pod_that_is_made_anew_begins_with_the_target_and_that_is_no_disruption() -> None:
    rows, updates = one_pod(100.0)
    rows.advise([(WEB.key, "c0")], [advice(50.0, 104.0, 200.0)])
    assert updates.step(START_MS + HOUR) == 0
    again = PodChanged(START, WEB, PodName("shop", "web-0", "another"), PodPhase.RUNNING, START, seen(Amounts()).containers)
    rows.pod_changed(again)
    assert (rows["cpu"][0], updates.step(START_MS + 2 * HOUR)) == (104.0, 0)


cores = st.integers(1, 12).map(lambda quarter: quarter / 4)
memory = st.integers(1, 12).map(float)
container = st.tuples(st.none() | cores, st.none() | memory, st.none() | st.tuples(*[cores] * 3, *[memory] * 3))


def amounts_of(cores: float, memory: float) -> Amounts:
    return Amounts(Cores(cores), cast("Bytes", memory))


def _sorted(numbers: tuple[float, ...]) -> tuple[float, ...]:
    return (*sorted(numbers[:3]), *sorted(numbers[3:]))


@given(
    st.lists(container, min_size=1, max_size=3),
    st.integers(0, 30 * 60),
    st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_a_pod_is_due_exactly_when_the_updater_says_so(containers: Any, age: int, kill: Any) -> None:
    now = START_MS + age * 60_000
    event = seen(*(Amounts(cpu, memory) for cpu, memory, _ in containers))
    rows = RecordedContainers()
    rows.pod_changed(event)
    recommended: list[ContainerRecommendation] = []
    for i, (_, _, bounds) in enumerate(containers):
        if bounds is not None:
            found = _sorted(bounds)
            rows.advise([(WEB.key, f"c{i}")], [found])
            lower, target, upper = map(amounts_of, found[:3], found[3:])
            recommended.append(ContainerRecommendation(f"c{i}", lower, target, upper, target))
    killed = None if kill is None else START + timedelta(minutes=min(kill[0], age))
    if killed is not None:
        rows.killed[0] = times.to_seconds(killed)
        run = ContainerRun(killed, event.started, OOM_KILLED)
        event = replace(event, containers=tuple(replace(each, last_run=run) for each in event.containers))
    newest = NewestRecommendation("id", START_MS, START, PLACE, tuple(recommended))
    policy = PolicyRecord(WorkloadPolicy("*", "1", UpdateMode.RECREATE), PLACE)
    advice = WorkloadAdvice(newest, policy, Bounding()).of(AlikePods(event.containers, None))
    assert advice is not None
    situation = PodSituation(now, WEB.key, PodRecord(event, PLACE), advice, policy, NO_HISTORY, UPSTREAM)
    due = bool(recommended) and bool(reasons(situation))
    assert (SimulatedUpdates(rows, SETTINGS).step(now) > 0) == due
