"""Moments as people type them, in the log's own time: `2026-01-05T03:02`, `03:02`, or `30m` before the newest tick.

All times without an offset are UTC. The reader's clock plays no part, so that the same words mean the same in a recorded log for
ever.
"""

import re
from datetime import UTC, datetime, timedelta

from streams.errors import BadInput

_AGO = re.compile(r"(\d{1,9})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


def moment(text: str, newest: datetime, flag: str) -> datetime:
    """The moment that `text` means in a log whose newest tick is `newest`. Raises BadInput that names the flag."""
    ago, clock = _AGO.fullmatch(text), _CLOCK.fullmatch(text)
    try:
        if ago is not None:
            return newest - duration(text, flag)
        if clock is not None:
            hour, minute, second = (int(part or 0) for part in clock.groups())
            at = newest.replace(hour=hour, minute=minute, second=second, microsecond=0)
            # a time of day is the last such moment that the log has reached
            return at if at <= newest else at - timedelta(days=1)
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise BadInput(f"{flag} '{text}' is no time: give 2026-01-05T03:02, 03:02, or 30m for that long ago") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def stretch(begin: str | None, end: str | None, newest: datetime) -> tuple[datetime | None, datetime | None]:
    """The moments that `--from` and `--to` mean, None where one is not given. Raises BadInput, also for an end too early."""
    since, until = (None if text is None else moment(text, newest, flag) for text, flag in ((begin, "--from"), (end, "--to")))
    if since is not None and until is not None and until <= since:
        raise BadInput(f"--to {end} is not after --from {begin}")
    return since, until


def duration(text: str, flag: str) -> timedelta:
    """A length of time such as `90s`, `30m`, `1h` or `2d`. Raises BadInput that names the flag."""
    match = _AGO.fullmatch(text)
    if match is None:
        raise BadInput(f"{flag} '{text}' is no length of time: give 90s, 30m, 1h or 2d")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise BadInput(f"{flag} '{text}' is longer than any log") from None
