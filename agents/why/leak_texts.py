"""A memory leak in words: how fast, when the container is full, what it is given at most; and events about limited memory."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from agents.why.scaling_texts import Numbers
from schemas.decisions.recommendations import LeakEnd, MemoryLeak, MemoryLeakFound
from schemas.decisions.vpa_conditions import MemoryLimitFound
from schemas.units import bytes_text

WORD = "leaking"
_ENDS = {
    LeakEnd.RELEASED: "gave more than half of what it had gained back",
    LeakEnd.RESTARTED: "was restarted",
    LeakEnd.REPLACED: "is gone with its pod",
}
_HOUR = 3600.0


def in_words(leak: MemoryLeak, now: datetime) -> str:
    """`leaking, about 300 MiB/h, full in 3 h`; empty for a leak that has ended."""
    if leak.ended is not None:
        return ""
    return f"{WORD}, about {bytes_text(leak.rate)}/h, {_full(leak, now)}"


def at_length(leak: MemoryLeak) -> str:
    """The same with the numbers that it follows from, and the bound of growth; for a decision, which knows no present."""
    seen = f"rose in each hour since {leak.since:%Y-%m-%d %H:%M}, by about {bytes_text(leak.rate)}/h to {bytes_text(leak.memory)}"
    when = (
        "has no limit" if leak.limit is None else f"reaches its limit of {bytes_text(leak.limit)} at {leak.full:%Y-%m-%d %H:%M}"
    )
    bound = f"so at most {bytes_text(leak.most)} are recommended ({bytes_text(leak.target)} when the leak was found)"
    if leak.ended is not None:
        return f"whose lowest use in {leak.pod.name} {seen}, until it {ended(leak)}; {bound}"
    return f"whose lowest use in {leak.pod.name} {seen}; it {when}; {bound}"


def ended(leak: MemoryLeak) -> str:
    """`was restarted (seen at 2026-01-05 14:05)`, of a leak that has ended."""
    return "" if leak.ended is None or leak.end is None else f"{_ENDS[leak.end]} (seen at {leak.ended:%Y-%m-%d %H:%M})"


def found(event: MemoryLeakFound) -> str:
    """What a decision about a leak says."""
    if not event.over:
        return at_length(event.leak)
    return (
        f"which in {event.leak.pod.name} {ended(event.leak)}" if event.leak.end else "whose memory was not seen to rise for a day"
    )


def _full(leak: MemoryLeak, now: datetime) -> str:
    if leak.full is None:
        return "without a limit"
    hours = (leak.full - now).total_seconds() / _HOUR
    # The estimate of when it is full may be older than the present.
    if hours <= 0.0:
        return "full by now"
    return f"full in {hours:.0f} h" if hours >= 1.5 else f"full in {max(1.0, hours * 60):.0f} min"  # noqa: PLR2004  # as people round


# What events about memory that leaks, or that is kept from a workload, are called in an explanation, and their numbers.


def _leak(event: MemoryLeakFound) -> str:
    return "memory leak over" if event.over else "memory leak goes on" if event.again else "memory leak found"


def _limit(event: MemoryLimitFound) -> Numbers:
    return {"workload": event.workload.key, **({} if event.over else {"reason": event.message})}


NUMBERS: Mapping[type, Callable[[Any], Numbers]] = {
    MemoryLeakFound: lambda event: {
        "workload": event.workload.key,
        "container": f"{event.leak.container}, {found(event)}",
    },
    MemoryLimitFound: _limit,
}
"""By the class of the event."""

WHAT: Mapping[type, Callable[[Any], str]] = {
    MemoryLeakFound: _leak,
    MemoryLimitFound: lambda event: "memory limit over" if event.over else "memory limit found",
}
"""What an event is called in plain words, which depends on what it says."""
