"""What is kept of crons: always what a search from now on would find, however the clocks are changed, and found once."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronClock, CronEntry
from schemas import cron_schedules
from schemas.cron_schedules import CronSchedule

MIDNIGHT = 1_767_225_600
"""2026-01-01T00:00:00Z."""
ZONES = ("", "Europe/Berlin", "Africa/Cairo", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca")


def field(low: int, high: int) -> st.SearchStrategy[str]:
    return st.just("*") | st.integers(low, high).map(str) | st.integers(1, high).map("*/{}".format) | st.just("*")


SCHEDULES = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(" ".join) | st.sampled_from(
    ["0 0 30 2 *", "@every 90s", "@every 1h", "CRON_TZ=Asia/Tokyo 0 9 * * *", "0 0 29 2 *"]
)
CRONS = st.lists(
    st.builds(CronEntry, st.just("c"), SCHEDULES, SCHEDULES, st.integers(1, 9), st.sampled_from(ZONES)), min_size=1, max_size=3
)
STEPS = st.lists(st.sampled_from([0.5, 15, 60, 900, 3600, 21_600, 86_400, 700_000, 20_000_000]), max_size=40)


@given(crons=CRONS, start=st.integers(1_262_304_000, 1_900_000_000), steps=STEPS)
@example([CronEntry("c", "36,43,15 23 * * 0", "0 5 * * *", 5, "Australia/Lord_Howe")], 1_853_866_682, [21_600] * 30)
@example([CronEntry("c", "6,3,46 * * 1 *", "0 5 * * *", 5, "Africa/Cairo")], 1_394_480_726, [86_400] * 300)
def test_it_says_what_a_search_from_now_on_says(crons: list[CronEntry], start: int, steps: list[float]) -> None:
    clock, upstream, now = CronClock(), CronClock(upstream=True), float(start)
    for step in steps:
        assert clock.wanted("c/n/Ehpa/x", crons, now, least=0) == ehpa_crons.wanted(crons, now, least=0)
        assert upstream.wanted("c/n/Ehpa/x", crons, now, least=0) == ehpa_crons.wanted(crons, now, least=0, upstream=True)
        now += step


def test_a_cron_is_looked_at_once_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, search = list[float](), CronSchedule.last

    def counted(self: CronSchedule, now: float, zone: object) -> int | None:
        searches.append(now)
        return search(self, now, zone)  # type: ignore[arg-type]  # what it is given

    monkeypatch.setattr(CronSchedule, "last", counted)
    clock = CronClock()
    crons = [CronEntry("day", "0 8 * * *", "0 18 * * *", 5, "Europe/Berlin")]
    found = [clock.wanted("k", crons, MIDNIGHT + 15 * n, least=1) for n in range(5_760)]
    assert (found.count(5), found.count(1)) == (10 * 240, 14 * 240), "240 rounds an hour, ten hours of the day"
    assert len(searches) == 2 * 1440


def test_crons_that_change_are_read_anew_and_one_that_cannot_be_read_is_said_each_time() -> None:
    clock = CronClock()
    for _ in range(2):
        with pytest.raises(ValueError, match="'x' has 1 fields"):
            clock.wanted("k", [CronEntry("c", "x", "0 1 * * *", 3)], MIDNIGHT, least=1)
    always = [CronEntry("c", "0 0 1 1 *", "0 0 30 2 *", 4)]
    assert clock.wanted("k", always, MIDNIGHT, least=1) == 4
    assert clock.wanted("k", [], MIDNIGHT, least=2) == 2


@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", ", * * * *", "* , * * *", "* * , * *", "* * * , *", "* * , * ,"]
)
def test_a_moment_that_cannot_be_is_not_looked_for(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("it was searched for")

    monkeypatch.setattr(cron_schedules, "_next", fail)
    assert cron_schedules.parse(text).next(MIDNIGHT, cron_schedules.load("")) is None


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 30 2 1", "0 0 31 1,2 *", "* * , * 1", "0 0 31 12 ?"])
def test_a_moment_that_is_rare_comes(text: str) -> None:
    assert cron_schedules.parse(text).next(MIDNIGHT, cron_schedules.load("")) is not None


def test_a_schedule_too_long_to_read_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="a schedule has at most 1000"):
        cron_schedules.parse("1," * 1_000 + " * * * *")
    with pytest.raises(ValueError, match="is no duration"):
        cron_schedules.parse("@every " + "1" * 900)


def test_the_31st_moved_on_by_a_month_without_one_is_the_first_of_the_next() -> None:
    """As Go's AddDate has it. 1 April 2012 has no midnight in Havana, so the search stood at 31 March; it ended in an error."""
    zone = cron_schedules.load("America/Havana")
    assert cron_schedules.parse("35 4 * 12 *").next(1_330_523_078, zone) == 1_354_440_900, (
        "2 December 2012, 04:35, as it came from 1 December, 23:00"
    )
