"""A memory leak in words: how fast, when the container is full, and what it is given at most."""

from datetime import datetime

from agents.why.node_texts import bytes_text
from schemas.decisions.recommendations import MemoryLeak, MemoryLeakFound

WORD = "leaking"
_HOUR = 3600.0


def in_words(leak: MemoryLeak, now: datetime) -> str:
    """`leaking, about 300 MiB/h, full in 3 h`."""
    return f"{WORD}, about {bytes_text(leak.rate)}/h, {_full(leak, now)}"


def at_length(leak: MemoryLeak) -> str:
    """The same with the numbers that it follows from, and the bound of growth; for a decision, which knows no present."""
    seen = f"rose in each hour since {leak.since:%Y-%m-%d %H:%M}, by about {bytes_text(leak.rate)}/h to {bytes_text(leak.memory)}"
    when = (
        "has no limit" if leak.limit is None else f"reaches its limit of {bytes_text(leak.limit)} at {leak.full:%Y-%m-%d %H:%M}"
    )
    bound = f"so at most {bytes_text(leak.most)} are recommended ({bytes_text(leak.target)} when the leak was found)"
    return f"whose lowest use in {leak.pod.name} {seen}; it {when}; {bound}"


def found(event: MemoryLeakFound) -> str:
    """What a decision about a leak says."""
    return "whose memory was not seen to rise for a day" if event.over else at_length(event.leak)


def _full(leak: MemoryLeak, now: datetime) -> str:
    if leak.full is None:
        return "without a limit"
    hours = (leak.full - now).total_seconds() / _HOUR
    if hours <= 0.0:
        return "full by now"
    return f"full in {hours:.0f} h" if hours >= 1.5 else f"full in {max(1.0, hours * 60):.0f} min"  # noqa: PLR2004  # as people round
