"""The rate limit: no span of time has more requests than the burst and the rate allow."""

from hypothesis import given
from hypothesis import strategies as st

from streams.consumers.executing.rate_limit import RateLimit


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
