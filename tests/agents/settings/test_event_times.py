"""Moments as people type them, in the log's own time."""

from datetime import UTC, datetime

import pytest

from agents.settings.event_times import duration, moment
from streams.errors import BadInput

NEWEST = datetime(2026, 1, 5, 3, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("30m", datetime(2026, 1, 5, 3, 0, tzinfo=UTC)),
        ("2d", datetime(2026, 1, 3, 3, 30, tzinfo=UTC)),
        ("03:02", datetime(2026, 1, 5, 3, 2, tzinfo=UTC)),
        ("03:02:09", datetime(2026, 1, 5, 3, 2, 9, tzinfo=UTC)),
        ("23:00", datetime(2026, 1, 4, 23, 0, tzinfo=UTC)),
        ("2026-01-04T12:00", datetime(2026, 1, 4, 12, tzinfo=UTC)),
        ("2026-01-04T12:00+02:00", datetime(2026, 1, 4, 10, tzinfo=UTC)),
    ],
)
def test_a_moment_is_meant_by_the_logs_own_time(text: str, means: datetime) -> None:
    assert moment(text, NEWEST, "--at") == means


@pytest.mark.parametrize("text", ["", "soon", "25:00", "3", "2026-13-01", "99999999d", "-5m"])
def test_what_is_no_time_is_refused_with_the_flag(text: str) -> None:
    with pytest.raises(BadInput, match=f"--at '{text}' is"):
        moment(text, NEWEST, "--at")


def test_a_length_needs_a_unit() -> None:
    assert duration("90s", "--for").total_seconds() == 90
    with pytest.raises(BadInput, match="--for '90' is no length of time"):
        duration("90", "--for")
