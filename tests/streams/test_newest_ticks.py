"""The newest tick that counts is found from the end, past records without number and ticks from the future."""

import pytest

from streams import newest_ticks
from streams.codec.event_codec import tick, tick_number
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog

FIVE_MINUTES, DAY = 300_000, 86_400_000


class Site:
    """A log whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 10 * DAY
        self.log = MemoryLog(now=lambda: self.now)
        self.log.create("t", 1)

    def ticks(self, *numbers: int) -> None:
        self.log.append([tick("t", 0, number) for number in numbers])

    def others(self, count: int) -> None:
        self.log.append([NewRecord("t", 0, b"k", b"v")] * count)

    def newest(self, most: int | None = None) -> int | None:
        record = newest_ticks.newest_tick(self.log, "t", 0, most=most)
        return None if record is None else tick_number(record)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(newest_ticks, "FIRST_STRIDE", 2)
    return Site()


def test_the_last_tick_is_found_however_many_records_follow_it(site: Site) -> None:
    assert site.newest() is None
    site.ticks(9 * DAY, 9 * DAY + 500)
    site.others(50)
    assert site.newest() == 9 * DAY + 500
    assert (site.newest(most=50), site.newest(most=51)) == (None, 9 * DAY + 500)


def test_a_tick_far_ahead_of_its_time_and_a_repeated_one_are_nothing(site: Site) -> None:
    site.ticks(site.now, site.now + DAY, site.now + 500, site.now - FIVE_MINUTES)
    assert site.newest() == site.now + 500
    site.ticks(site.now + DAY)
    assert site.newest() == site.now + 500


def test_ticks_far_ahead_are_nothing_also_the_first_and_in_small_steps(site: Site) -> None:
    site.ticks(*(site.now + DAY + n * 1000 for n in range(5)))
    assert site.newest() is None
    site.ticks(site.now, *(site.now + n * FIVE_MINUTES // 2 for n in range(1, 49)))
    assert site.newest() == site.now + FIVE_MINUTES


def test_however_many_ticks_are_nothing_the_one_before_them_is_found(site: Site) -> None:
    site.ticks(site.now, *(site.now + DAY + n for n in range(300)))
    assert site.newest() == site.now
