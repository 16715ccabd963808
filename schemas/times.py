"""Times as numbers, and back: the epoch, and the only conversions between aware UTC datetimes and numbers since then.

Ticks and turns count whole milliseconds since the epoch; histograms and metrics count seconds as floats. Nothing here reads a
clock. A time without an offset is a bug: each function raises TypeError or ValueError for it.
"""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Zero of every number of milliseconds or seconds that stands for a time."""
NEVER = -62_135_596_800.0
"""Go's zero time, 0001-01-01, in seconds since the epoch: how its programs write a time that never was."""

_MILLISECOND = timedelta(milliseconds=1)


def from_ms(number: int) -> datetime:
    """The time that is this many milliseconds after the epoch. Raises OverflowError beyond the year 9999."""
    return EPOCH + number * _MILLISECOND


def to_ms(at: datetime) -> int:
    """Whole milliseconds since the epoch, rounded down. Exact: no float is involved."""
    return (at - EPOCH) // _MILLISECOND


def nearest_ms(at: datetime) -> int:
    """Whole milliseconds since the epoch, rounded half to even."""
    whole, rest = divmod(at - EPOCH, _MILLISECOND)
    # The half is told apart by itself: `round` would look at the part alone, and always take it down.
    return whole + round(rest / _MILLISECOND) if rest * 2 != _MILLISECOND else whole + whole % 2


def from_seconds(number: float) -> datetime:
    """The time that is this many seconds after the epoch, to the microsecond.

    Raises ValueError or OverflowError for a number that no datetime can hold.
    """
    return EPOCH + timedelta(seconds=number)


def to_seconds(at: datetime) -> float:
    """Seconds since the epoch."""
    return (at - EPOCH).total_seconds()


def earliest(first: datetime, *others: datetime | None) -> datetime:
    """The earliest of these times, where None stands for no limit."""
    return min((first, *(at for at in others if at is not None)))


def rfc3339(at: datetime) -> str:
    """The time as Kubernetes writes it: RFC 3339 in UTC with a `Z`, and a fraction only where there is one."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
