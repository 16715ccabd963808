"""The bounds of numbers that somebody else's answer holds: pauses, counts, samples, times. Each has one, and it is here.

Whatever stands in an answer, such as `Retry-After: 99999999999999`, a sample of 1e300 or a negative count, becomes a number that
we can compute with, or counts as absent. Nothing here raises, whatever it is given.
"""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from schemas.bounds import MOST_INT32
from schemas.units import Seconds

LONGEST_PAUSE = Seconds(300.0)  # whatever the other side asks for; an API server asks for a second or ten
MOST_PAGES = 20_000
"""Pages of one list: ten million objects of an API server."""
LONGEST_TOKEN = 64 << 10
"""Characters of what names the next page."""
_HALF = 0.5
_LONGEST_NUMBER = 400  # characters; Python refuses integers of more than 4,300 digits, and reads long ones slowly


def pause(seconds: float) -> Seconds:
    """A pause from 0 to `LONGEST_PAUSE`; 0 for what is no number."""
    return Seconds(0.0) if math.isnan(seconds) else Seconds(min(max(seconds, 0.0), LONGEST_PAUSE))


def asked_pause(retry_after: str | None, date: str | None = None) -> Seconds | None:
    """The pause that `Retry-After` asks for, in seconds or as a time; None where it asks for none."""
    if retry_after is None or len(retry_after) > _LONGEST_NUMBER:
        return None
    seconds = number(retry_after)
    if math.isnan(seconds):
        # The answer's own `Date` and not our time, because the other side's clock may be wrong.
        then, now = _http_date(retry_after), _http_date(date or "")
        seconds = (then - now).total_seconds() if then is not None and now is not None else 0.0
    return pause(seconds) if seconds > 0.0 else None


def number(text: str) -> float:
    """A number that is written in an answer, which may be infinite; NaN for what is none."""
    try:
        return float(text) if len(text) <= _LONGEST_NUMBER else math.nan
    except ValueError:
        return math.nan


def count(value: object, most: int = MOST_INT32) -> int:
    """A count from 0 to `most` that an object of an API holds; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124  # only NaN differs from itself
        return 0
    return int(min(max(value, 0), most))


def place(at: float, first: float, step: Seconds, places: int) -> int | None:
    """The place of a moment in a row that begins at `first` and has one place each `step`; None outside of the row."""
    distance = (at - first) / step
    return round(distance) if -_HALF <= distance < places - _HALF else None


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
