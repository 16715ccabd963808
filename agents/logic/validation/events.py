"""Which events a stage must not take in, and the sentence that says why. It knows only the event.

A bad number in a histogram or in a plan cannot be taken back, so it is stopped here and set aside. Late, odd or unknown is not
bad: that is for the stages to judge.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache

import numpy as np

from agents.engine.turn import Event
from agents.logic.usage import histogram_checkpoints
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.names import Amounts, Workload
from schemas.outcomes import ActionFinished, StatusWritten
from schemas.policies import vpa_annotations
from schemas.policies.control import ControlChanged
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vertical import ContainerPolicy, Tuning, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.subjects import Subject

MOST_CORES = 1e6
MOST_BYTES = 1e16
MOST_AGE = 86_400.0
"""Seconds: the rows of one scrape are of about one time."""

_YEARS = range(1970, 2200)

_WITHOUT_WORKLOAD = (
    MetricsScraped,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
    VpaChanged,
    VpaRemoved,
    LimitRangeChanged,
    LimitRangeRemoved,
    ControlChanged,
    NodeChanged,
    NodeRemoved,
    SourceReported,
    StatusWritten,
)


def refuse(event: Event) -> str | None:
    """Why this event must not be taken in; None if it may be."""
    return next(_reasons(event), None)


def _reasons(event: Event) -> Iterator[str]:
    yield from _time("at", event.at)
    if isinstance(event, ActionFinished):
        yield from _subject(event.subject)
    elif not isinstance(event, _WITHOUT_WORKLOAD):
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
            yield from _number("memory_used", event.memory_used, MOST_BYTES)
        case NodeChanged():
            yield from _amounts("allocatable", event.allocatable)
        case SourceReported():
            yield from _at_least("period", event.period, 0.001)
        case CheckpointSeen():
            yield from _none_or_one(histogram_checkpoints.fault(event))
        case _:
            yield from _judgement(event)


def _judgement(event: Event) -> Iterator[str]:
    """Policies and decisions."""
    match event:
        case VerticalPolicyChanged():
            yield from _policies(event.containers)
        case VpaChanged():
            yield from _vpa(event)
        case LimitRangeChanged():
            yield from _limits(event.limits)
        case ControlChanged():
            yield from _number("budget", event.budget, 1.0)
        case RequestsRecommended():
            for i, named in enumerate(event.containers):
                for field in ("lower", "target", "upper", "uncapped"):
                    yield from _amounts(f"containers[{i}].{field}", getattr(named, field))
        case _:
            pass


def _vpa(event: VpaChanged) -> Iterator[str]:
    if event.target_ref is not None:
        yield from _workload(Workload(event.cluster, event.namespace, event.target_ref.kind, event.target_ref.name))
    if event.min_replicas is not None and event.min_replicas <= 0:
        yield f"min_replicas is {event.min_replicas}; it must be above 0"
    if len(event.recommenders) > 1:
        yield f"recommenders are {', '.join(event.recommenders)}; there may be one at most"
    if event.selector is None and event.target_ref is not None and not event.unsupported:
        yield "there is no selector, and nothing that says why"
    yield from _policies(event.containers)
    yield from _none_or_one(vpa_annotations.fault(event.annotations))


def _policies(entries: Sequence[ContainerPolicy]) -> Iterator[str]:
    for i, entry in enumerate(entries):
        path = f"containers[{i}]"
        yield from _amounts(f"{path}.min_allowed", entry.min_allowed)
        yield from _amounts(f"{path}.max_allowed", entry.max_allowed)
        odd = sorted(set(entry.controlled_resources or ()) - {"cpu", "memory"})
        if odd:
            yield f"{path}.controlled_resources names '{odd[0]}'; there are cpu and memory"
        yield from _at_least(f"{path}.oom_ratio", entry.oom_ratio, 1.0)
        yield from _at_least(f"{path}.oom_minimum", entry.oom_minimum, 0.0)
        yield from _at_least(f"{path}.memory_window", entry.memory_window, 1.0)
        yield from _at_least(f"{path}.memory_windows", entry.memory_windows, 1.0)
        yield from _tuning(f"{path}.tuning", entry.tuning)


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    for i, limit in enumerate(limits):
        for field in ("least", "most", "default_limits", "default_requests"):
            yield from _amounts(f"limits[{i}].{field}", getattr(limit, field))
        for name, ratio in limit.ratios.items():
            yield from _at_least(f"limits[{i}].ratios.{name}", ratio, 1.0)


def _tuning(path: str, tuning: Tuning) -> Iterator[str]:
    yield from _amounts(f"{path}.minimum", tuning.minimum)
    for field in fields(tuning):
        if field.name.endswith("percentile"):
            yield from _number(f"{path}.{field.name}", getattr(tuning, field.name), 1.0)
    yield from _number(f"{path}.margin", tuning.margin, vpa_annotations.MOST_MARGIN)
    yield from _at_least(f"{path}.cpu_half_life", tuning.cpu_half_life, vpa_annotations.LEAST_HALF_LIFE)
    yield from _at_least(f"{path}.memory_half_life", tuning.memory_half_life, vpa_annotations.LEAST_HALF_LIFE)


def _at_least(path: str, value: float | None, least: float) -> Iterator[str]:
    yield from _number(path, value, MOST_BYTES)
    if value is not None and value < least:
        yield f"{path} is {value}; it must be at least {least:g}"


def _none_or_one(reason: str | None) -> Iterator[str]:
    if reason is not None:
        yield reason


def _scrape(event: MetricsScraped) -> Iterator[str]:
    lengths = {name: len(getattr(event, name)) for name in ("workloads", "pods", "containers", "cores", "memory")}
    if len(set(lengths.values())) > 1:
        yield f"the columns of a scrape must be of equal length, not {lengths}"
    odd = _odd_key(event.workloads)
    if odd is not None:
        yield odd
    if not math.isfinite(event.window) or event.window < 0:
        yield f"window is {event.window}, which is no length of time"
    if len(event.ages) not in (0, len(event.pods)):
        yield f"ages has {len(event.ages)} rows, and there are {len(event.pods)} pods"
    yield from _column("ages", event.ages, MOST_AGE)
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


def _subject(subject: Subject) -> Iterator[str]:
    if subject.workload:
        try:
            Workload.parse(subject.workload)
        except ValueError as error:
            yield f"subject.workload: {error}"


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
