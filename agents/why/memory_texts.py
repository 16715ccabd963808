"""What events about memory that leaks, or that is kept from a workload, are called in an explanation, and their numbers."""

from collections.abc import Callable, Mapping
from typing import Any

from agents.why import leak_texts
from agents.why.node_texts import Numbers
from schemas.decisions.recommendations import MemoryLeakFound
from schemas.decisions.vpa_conditions import MemoryLimitFound


def _leak(event: MemoryLeakFound) -> str:
    return "memory leak over" if event.over else "memory leak goes on" if event.again else "memory leak found"


def _limit(event: MemoryLimitFound) -> Numbers:
    return {"workload": event.workload.key, **({} if event.over else {"reason": event.message})}


NUMBERS: Mapping[type, Callable[[Any], Numbers]] = {
    MemoryLeakFound: lambda event: {
        "workload": event.workload.key,
        "container": f"{event.leak.container}, {leak_texts.found(event)}",
    },
    MemoryLimitFound: _limit,
}
"""By the class of the event."""

WHAT: Mapping[type, Callable[[Any], str]] = {
    MemoryLeakFound: _leak,
    MemoryLimitFound: lambda event: "memory limit over" if event.over else "memory limit found",
}
"""What an event is called in plain words, which depends on what it says."""
