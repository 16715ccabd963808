"""The rate limit: no span of time has more requests than the burst and the rate allow."""

from hypothesis import given
from hypothesis import strategies as st

from streams.consumers.executing.acting_consumer import RateLimit


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 5))
def test_no_span_of_time_has_more_requests_than_the_burst_and_its_share(rests: list[float], burst: int) -> None:
    now, asked = [0.0], []
    limit = RateLimit(2.0, burst, clock=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    for rest in rests:
        now[0] += rest
        limit.wait()
        asked.append(now[0])
    for first in range(len(asked)):
        for last in range(first, len(asked)):
            assert last - first + 1 <= burst + (asked[last] - asked[first]) * 2.0 + 1e-6


def test_what_is_too_soon_waits_as_long_as_it_must_and_no_longer() -> None:
    now, slept = [1000.0], list[float]()
    limit = RateLimit(2.0, 2, clock=lambda: now[0], sleep=slept.append)
    for _ in range(3):
        limit.wait()
    assert slept == [0.5]
    now[0] += 10.0
    for _ in range(3):
        limit.wait()
    assert slept == [0.5, 0.5]
