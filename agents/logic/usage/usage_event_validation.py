"""What is wrong with facts about pods and their usage.

Each sentence names a thing that must not be folded, because a bad number in a histogram cannot be taken back. Late, odd or
unknown usage is not refused here; the fold decides about it.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from agents.logic.usage import histogram_checkpoints
from schemas import bounds
from schemas.catalogue import Event
from schemas.facts.pods import PodChanged
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.times import NEVER

MOST_AGE = 86_400.0
"""Seconds: the rows of one scrape are of about one time."""


def reasons(event: Event) -> Iterator[str]:
    """Why an event must not be folded; nothing for a good event, or one of another capability."""
    match event:
        case MetricsScraped():
            yield from _scrape(event)
        case PodChanged():
            for i, seen in enumerate(event.containers):
                yield from bounds.amounts(f"containers[{i}].requests", seen.requests)
                yield from bounds.amounts(f"containers[{i}].limits", seen.limits)
            names = {seen.name for seen in event.containers}
            for i, boosted in enumerate(event.boosted):
                if boosted.name not in names:
                    yield f"boosted[{i}] is '{boosted.name}', which is none of the pod's containers"
                yield from bounds.amounts(f"boosted[{i}].requests", boosted.requests)
                yield from bounds.amounts(f"boosted[{i}].limits", boosted.limits)
        case ContainerOOMKilled():
            for name in ("memory_request", "memory_limit", "memory_used", "pod_limit"):
                yield from bounds.number(name, getattr(event, name), bounds.MOST_BYTES)
        case CheckpointSeen():
            yield from _checkpoint(event)
        case _:
            pass


def _scrape(event: MetricsScraped) -> Iterator[str]:
    lengths = {name: len(getattr(event, name)) for name in ("workloads", "pods", "containers", "cores", "memory")}
    if len(set(lengths.values())) > 1:
        yield f"the columns of a scrape must be of equal length, not {lengths}"
    yield from _odd_keys(event.workloads)
    if not math.isfinite(event.window) or event.window < 0:
        yield f"window is {event.window}, which is no length of time"
    for name in ("ages", "cores_max", "memory_max"):
        length = len(getattr(event, name))
        if length not in (0, len(event.pods)):
            yield f"{name} has {length} rows, and there are {len(event.pods)} pods"
    yield from _column("ages", event.ages, MOST_AGE)
    yield from _column("cores", event.cores, bounds.MOST_CORES)
    yield from _column("memory", event.memory, bounds.MOST_BYTES)
    yield from _column("cores_max", event.cores_max, bounds.MOST_CORES)
    yield from _column("memory_max", event.memory_max, bounds.MOST_BYTES)


def _checkpoint(event: CheckpointSeen) -> Iterator[str]:
    fault = histogram_checkpoints.fault(event)
    if fault is not None:
        yield fault
    yield from bounds.number("count", event.count)
    times = {"first": event.first, "last": event.last, "cpu.reference": event.cpu.reference}
    for name, at in {**times, "memory.reference": event.memory.reference}.items():
        if at != NEVER:
            yield from bounds.second(name, at)
    for name, histogram in (("cpu", event.cpu), ("memory", event.memory)):
        yield from bounds.number(f"{name}.total", histogram.total)
        for bucket, part in histogram.weights.items():
            yield from bounds.number(f"{name}.weights['{bucket}']", part)


@lru_cache(maxsize=2048)
def _odd_keys(workloads: tuple[str, ...]) -> tuple[str, ...]:
    """The first of these that is no workload key."""
    for key in dict.fromkeys(workloads):  # scrapes repeat their names, so the answer is kept
        if next(bounds.workload_key("", key), None) is not None:
            return tuple(bounds.workload_key(f"workloads[{workloads.index(key)}]", key))
    return ()


def _column(name: str, values: Sequence[float], most: float) -> Iterator[str]:
    """The first bad number of a column; NaN is absent and good."""
    numbers = np.asarray(values, np.float64)
    if not len(numbers):
        return
    # fmin and fmax pass over NaN, which stands for a sample that is absent.
    if np.fmin.reduce(numbers) < 0 or np.fmax.reduce(numbers) > most:
        place = int(np.flatnonzero((numbers < 0) | (numbers > most))[0])
        yield from bounds.number(f"{name}[{place}]", float(numbers[place]), most)
