"""What a kill soon after a start does to the least memory that is recommended."""

from datetime import timedelta

from agents.logic.vertical.memory_floors import LASTS, MemoryFloors
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import PodName
from schemas.units import Bytes, Seconds
from tests.support.cluster_events import API, GIB, START, when

KEY = f"{API.key}/app"


def kill(request: int | None, ran: float | None = 15.0) -> ContainerOOMKilled:
    started = None if ran is None else when(START) - timedelta(seconds=ran)
    had = None if request is None else Bytes(request)
    return ContainerOOMKilled(when(START), API, PodName("web", "a", "uid-a"), "app", 1, had, had, started=started)


def floors(*kills: ContainerOOMKilled, quick: float = 600.0) -> MemoryFloors:
    found = MemoryFloors(Seconds(quick))
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


def test_kills_after_long_runs_of_unknown_length_or_without_a_request_give_no_floor() -> None:
    assert [least(floors(kill(*said))) for said in ((GIB, 600.0), (GIB, None), (None,), (GIB, -1.0))] == [None] * 4
    assert least(floors(kill(GIB), quick=0.0)) is None


def test_a_floor_ends_a_day_after_its_last_kill() -> None:
    found = floors(kill(GIB))
    assert (least(found, START + LASTS - 1), least(found, START + LASTS)) == (2 * GIB, None)
    found.expire(START + LASTS)
    assert len(found.table) == 0
