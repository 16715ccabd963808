"""Which events come from the future: their time lies so far after the turn that would take them in that a clock is wrong.

Usage from the future outweighs all that comes after it, makes it late, and would stay; a kill or a report from the future does
the same to those that follow, and a recommendation of a turn to come would stay the newest until then. Such an event is set
aside. Clocks of sources and of ticks may differ a little: that is let pass.
"""

import numpy as np

from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.load import LoadHistoryRead, LoadScraped
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.ids import DecisionId
from schemas.times import from_ms

MOST_AHEAD = 300.0
"""Seconds that a time may lie after the turn's: what clocks may differ, as Kerberos has it."""

_LAST = 1e11
"""Seconds since the epoch: what lies further is written as a number, as no calendar holds it."""

_CPU, _MEMORY = "cpu.reference", "memory.reference"
_MOST_REFERENCE = 31 * 86_400.0
"""The same for a histogram's reference, which may lie half a half life after the last sample."""


def ahead(event: Event, turn: int) -> str | None:
    """Why this event must not be taken in by the turn of this number; None if it may be."""
    if type(event) is RequestsRecommended:  # most of what comes in while a worker catches up
        most = turn / 1000 + MOST_AHEAD
        if event.at.timestamp() < most and DecisionId.turn_of(event.id) / 1000 < most:
            return None
    found = (_late_clock(name, at, turn) for name, at in _times(event))
    return next((reason for reason in found if reason is not None), None)


def _times(event: Event) -> list[tuple[str, float]]:
    """The names of an event's times, and the times in seconds since the epoch."""
    times: list[tuple[str, float]] = []
    match event:
        case MetricsScraped():
            times = [("at", event.at.timestamp() - (float(np.min(event.ages)) if len(event.ages) else 0.0))]
        case LoadScraped():
            times = [("at", event.at.timestamp() - float(min(event.ages, default=0.0)))]
        case LoadHistoryRead():
            times = [("the last value's time", event.start.timestamp() + (len(event.values) - 1) * event.step)]
        case ContainerOOMKilled() | SourceReported():
            times = [("at", event.at.timestamp())]
        case CheckpointSeen():
            references = [(_CPU, event.cpu.reference), (_MEMORY, event.memory.reference)]
            times = [("first", event.first), ("last", event.last), *references]
        case RequestsRecommended():
            times = [("at", event.at.timestamp()), ("the turn in its id", DecisionId.turn_of(event.id) / 1000)]
    return times


def _late_clock(name: str, at: float, turn: int) -> str | None:
    """What is wrong with a time in seconds since the epoch."""
    most = _MOST_REFERENCE if name in (_CPU, _MEMORY) else MOST_AHEAD
    if at - turn / 1000 <= most:
        return None
    return f"{name} is {_text(at)}, {at - turn / 1000:g} s after the turn of {from_ms(turn).isoformat()}; {most:g} s are let pass"


def _text(at: float) -> str:
    return from_ms(round(at * 1000)).isoformat() if abs(at) < _LAST else f"{at:g}"
