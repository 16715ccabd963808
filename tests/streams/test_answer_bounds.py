"""Numbers of the other side: whatever an answer says, what comes in is a number that we can compute with, and lists end."""

import itertools
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Seconds
from streams import answer_bounds
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube.api import ApiRequest, ApiResponse, refusal_error
from streams.clients.kube.refusals import RETRY_AFTER
from streams.errors import GiveUp, TryAgain

ABSURD = [
    "99999999999999",
    "-99999999999999",
    "1e300",
    "-1e300",
    "1e400",
    "NaN",
    "Infinity",
    "9" * 399,
    "9" * 10_000,
    "",
    "soon",
    "٣",
]
NUMBERS = st.one_of(st.floats(), st.integers(-(10**400), 10**400), st.text(), st.none(), st.booleans(), st.lists(st.none()))
TEXTS = st.one_of(st.sampled_from(ABSURD), st.text(), st.floats().map(str), st.integers(-(10**30), 10**30).map(str))


def refused(header: str | None, body: str = "{}", date: str | None = None) -> TryAgain:
    error = refusal_error(ApiResponse(429, body.encode(), header, date), ApiRequest("/x", "resizing", "shop/p"))
    assert isinstance(error, TryAgain)
    return error


@given(TEXTS, TEXTS)
def test_a_pause_is_one_that_somebody_can_wait_for(header: str, date: str) -> None:
    error = refused(header, date=date)
    assert 0.0 < error.after <= answer_bounds.LONGEST_PAUSE
    assert datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=error.after)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_so_is_one_that_the_servers_status_asks_for(seconds: float) -> None:
    error = refused(None, f'{{"details":{{"retryAfterSeconds":{seconds!r}}}}}')
    assert 0.0 < error.after <= answer_bounds.LONGEST_PAUSE


@given(st.one_of(st.floats(), st.integers(-(10**300), 10**300)))
def test_no_error_of_ours_asks_for_more(seconds: float) -> None:
    after = TryAgain(doing="asking", to="somebody", answer="no", after=Seconds(seconds)).after
    assert 0.0 <= after <= answer_bounds.LONGEST_PAUSE


@pytest.mark.parametrize(
    ("header", "date", "after"),
    [
        ("7", None, 7.0),
        ("7.5", None, 7.5),
        ("0", None, RETRY_AFTER),
        ("-3", None, RETRY_AFTER),
        ("99999999999999", None, 300.0),
        ("Sun, 01 Mar 2026 00:00:20 GMT", "Sun, 01 Mar 2026 00:00:05 GMT", 15.0),
        ("Sun, 01 Mar 2026 00:00:20 GMT", None, RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "Sun, 01 Mar 2026 00:00:05 GMT", 300.0),
        ("Sat, 01 Jan 2000 00:00:00 GMT", "Sun, 01 Mar 2026 00:00:05 GMT", RETRY_AFTER),
    ],
)
def test_seconds_and_times_are_understood(header: str, date: str | None, after: float) -> None:
    assert refused(header, date=date).after == after


@given(NUMBERS, st.integers(0, 1 << 31))
def test_a_count_is_a_count_whatever_an_object_holds(value: object, most: int) -> None:
    assert 0 <= answer_bounds.count(value, most) <= most


@given(TEXTS)
def test_a_sample_is_a_number_or_none(text: str) -> None:
    assert isinstance(answer_bounds.number(text), float)


@given(st.floats(allow_nan=False), st.floats(0, 1e10), st.floats(0.001, 1e6), st.integers(1, 10_000))
def test_a_moment_is_in_the_row_or_left_out(at: float, first: float, step: float, places: int) -> None:
    place = answer_bounds.place(at, first, Seconds(step), places)
    assert place is None or 0 <= place < places
    assert place is not None or not first <= at <= first + (places - 1) * step or math.isclose(at, first + (places - 1) * step)


@given(st.lists(st.one_of(st.text(min_size=1), st.integers(), st.just("x" * 100_000)), min_size=1))
def test_a_list_ends_whatever_tokens_it_is_given(tokens: list[object]) -> None:
    pages = PageTokens("listing", "pods", 50)
    for count, token in enumerate(itertools.cycle(tokens)):
        assert count < 50
        try:
            if not pages.following(token):
                return
        except GiveUp:
            return


def test_an_honest_list_is_followed_to_its_end() -> None:
    pages = PageTokens("listing", "pods", 3)
    assert [pages.following(token) for token in ("a", "b", None)] == ["a", "b", ""]
