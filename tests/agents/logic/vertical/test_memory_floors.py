"""What a kill soon after a start does to the least memory that is recommended."""

from dataclasses import replace
from datetime import timedelta

from agents.logic.vertical.memory_floors import AT_ONCE, SETTLES, MemoryFloors
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import PodName
from schemas.units import Bytes, Seconds
from tests.support.cluster_events import API, GIB, START, when

KEY = f"{API.key}/app"
WEEK = 7 * 86_400_000
"""Milliseconds for which the floors of these tests hold."""


def kill(request: int | None, ran: float | None = 15.0) -> ContainerOOMKilled:
    started = None if ran is None else when(START) - timedelta(seconds=ran)
    had = None if request is None else Bytes(request)
    return ContainerOOMKilled(when(START), API, PodName("web", "a", "uid-a"), "app", 1, had, had, started=started)


def floors(*kills: ContainerOOMKilled, quick: float = 600.0) -> MemoryFloors:
    found = MemoryFloors(Seconds(quick), Seconds(WEEK / 1000))
    for each in kills:
        found.killed(each, 0.0, START)
    return found


def least(found: MemoryFloors, now: int = START) -> int | None:
    floor = found.floor(KEY, now)
    return None if floor is None else floor.memory


def test_the_first_request_that_was_not_enough_is_doubled_and_each_further_one_made_three_times() -> None:
    assert least(floors(kill(GIB))) == 2 * GIB
    assert least(floors(kill(GIB), kill(2 * GIB))) == 6 * GIB
    assert least(floors(kill(GIB), kill(2 * GIB), kill(6 * GIB))) == 18 * GIB


def test_a_kill_under_no_more_than_was_tried_before_says_nothing_new() -> None:
    assert least(floors(kill(GIB), kill(GIB), kill(GIB // 2))) == 2 * GIB


def test_kills_after_long_runs_of_unknown_length_without_a_request_or_at_the_pods_limit_give_no_floor() -> None:
    at_pods = replace(kill(GIB), memory_limit=None, pod_limit=Bytes(2 * GIB))
    assert (least(floors(at_pods)), least(floors(replace(at_pods, pod_limit=None)))) == (None, 2 * GIB)
    assert [least(floors(kill(*said))) for said in ((GIB, 600.0), (GIB, None), (None,), (GIB, -1.0))] == [None] * 4
    assert least(floors(kill(GIB), quick=0.0)) is None


def test_a_floor_holds_for_as_long_as_memory_is_remembered_after_its_last_kill() -> None:
    found = floors(kill(GIB))
    assert (least(found, START + WEEK - 1), least(found, START + WEEK)) == (2 * GIB, None)
    found.review(START + WEEK, lambda _workload, _container: 0.0)
    assert len(found.table) == 0


def test_who_lived_for_minutes_before_its_second_kill_is_near_to_what_it_needs() -> None:
    assert least(floors(kill(GIB), kill(2 * GIB, ran=AT_ONCE))) == 4 * GIB


def test_a_floor_that_has_stood_for_an_hour_comes_down_to_what_those_use_that_live_with_it() -> None:
    found = floors(kill(GIB), kill(2 * GIB))
    assert found.review(START + SETTLES - 1, lambda _workload, _container: 3.0 * GIB) == set()
    assert found.review(START + SETTLES, lambda _workload, _container: 3.0 * GIB) == {API.key}
    assert least(found) == 3 * GIB
    assert found.of(API.key, ["app"])["app"]["settled"] is True  # type: ignore[index]  # its numbers
    assert found.review(START + 2 * SETTLES, lambda _workload, _container: 2.5 * GIB) == {API.key}
    assert found.review(START + 3 * SETTLES, lambda _workload, _container: 9.0 * GIB) == set()


def test_a_floor_stands_where_nobody_is_seen_to_live_above_what_killed() -> None:
    found = floors(kill(GIB))
    assert found.review(START + SETTLES, lambda _workload, _container: 1.0 * GIB) == set()
    assert least(found) == 2 * GIB
