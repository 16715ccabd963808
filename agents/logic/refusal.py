"""Which events a stage must not take in, and the sentence that says why. It knows only the event.

A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside. Late, odd or unknown is not
bad: that is for the stages to judge.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache

import numpy as np

from agents.logic.turns import Event
from schemas.decisions import RequestsRecommended
from schemas.facts import ContainerOOMKilled, MetricsScraped, PodChanged
from schemas.names import Amounts, Workload
from schemas.policies import ControlChanged, VerticalPolicyChanged, VerticalPolicyRemoved

MOST_CORES = 1e6
MOST_BYTES = 1e16

_YEARS = range(1970, 2200)


def refuse(event: Event) -> str | None:
    """Why this event must not be taken in; None if it may be."""
    return next(_reasons(event), None)


def _reasons(event: Event) -> Iterator[str]:
    yield from _time("at", event.at)
    if not isinstance(event, MetricsScraped | VerticalPolicyChanged | VerticalPolicyRemoved | ControlChanged):
        yield from _workload(event.workload)
    match event:
        case MetricsScraped():
            yield from _scrape(event)
        case PodChanged():
            for i, seen in enumerate(event.containers):
                yield from _amounts(f"containers[{i}].requests", seen.requests)
                yield from _amounts(f"containers[{i}].limits", seen.limits)
        case ContainerOOMKilled():
            yield from _number("memory_request", event.memory_request, MOST_BYTES)
            yield from _number("memory_limit", event.memory_limit, MOST_BYTES)
        case _:
            yield from _judgement(event)


def _judgement(event: Event) -> Iterator[str]:
    """Policies and decisions."""
    match event:
        case VerticalPolicyChanged():
            for i, entry in enumerate(event.containers):
                yield from _amounts(f"containers[{i}].min_allowed", entry.min_allowed)
                yield from _amounts(f"containers[{i}].max_allowed", entry.max_allowed)
        case ControlChanged():
            yield from _number("budget", event.budget, 1.0)
        case RequestsRecommended():
            for i, named in enumerate(event.containers):
                for field in ("lower", "target", "upper", "uncapped"):
                    yield from _amounts(f"containers[{i}].{field}", getattr(named, field))
        case _:
            pass


def _scrape(event: MetricsScraped) -> Iterator[str]:
    lengths = {name: len(getattr(event, name)) for name in ("workloads", "pods", "containers", "cores", "memory")}
    if len(set(lengths.values())) > 1:
        yield f"the columns of a scrape must be of equal length, not {lengths}"
    odd = _odd_key(event.workloads)
    if odd is not None:
        yield odd
    if not math.isfinite(event.window) or event.window < 0:
        yield f"window is {event.window}, which is no length of time"
    yield from _column("cores", event.cores, MOST_CORES)
    yield from _column("memory", event.memory, MOST_BYTES)


@lru_cache(maxsize=2048)
def _odd_key(workloads: tuple[str, ...]) -> str | None:
    """The first of these that is no workload key. Scrapes repeat their names, so the answer is kept."""
    for place, key in enumerate(workloads):
        try:
            Workload.parse(key)
        except ValueError as error:
            return f"workloads[{place}]: {error}"
    return None


def _workload(workload: Workload) -> Iterator[str]:
    try:
        Workload.parse(workload.key)
    except ValueError as error:
        yield f"workload: {error}"


def _column(name: str, values: Sequence[float], most: float) -> Iterator[str]:
    """The first bad number of a column; NaN is absent and good."""
    numbers = np.asarray(values, np.float64)
    if not len(numbers):
        return
    if np.fmin.reduce(numbers) < 0 or np.fmax.reduce(numbers) > most:
        place = int(np.flatnonzero((numbers < 0) | (numbers > most))[0])
        yield from _number(f"{name}[{place}]", float(numbers[place]), most)


def _amounts(path: str, amounts: Amounts) -> Iterator[str]:
    yield from _number(f"{path}.cpu", amounts.cpu, MOST_BYTES)
    yield from _number(f"{path}.memory", amounts.memory, MOST_BYTES)


def _number(path: str, value: float | None, most: float) -> Iterator[str]:
    if value is None:
        return
    if not math.isfinite(value):
        yield f"{path} is {value}, which is not a finite number"
    elif value < 0:
        yield f"{path} is {value}; an amount cannot be negative"
    elif value > most:
        yield f"{path} is {value}; more than {most:g} is not possible"


def _time(path: str, at: datetime) -> Iterator[str]:
    if at.year not in _YEARS:
        yield f"{path} is {at.isoformat()}, a time that no clock of ours shows"
