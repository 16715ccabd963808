"""Validates policies, facts and decisions about scaling: gives a sentence for each value that nobody may compute with."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from schemas import bounds
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast
from schemas.facts.replica_scaling import MOST_ROWS, HpaSeen, LoadHistoryRead, LoadScraped, ScaleSeen
from schemas.ids import DecisionId
from schemas.policies import scaling_amounts
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged

MOST_REPLICAS = scaling_amounts.MOST_COUNT
"""The most replicas of one workload."""
MOST_AGE = 86_400.0
"""The most seconds between the rows of a scrape, which are of about one time, and between the values of a history."""


def scaling_reasons(event: Event) -> Iterator[str]:
    """Why an event must be refused; nothing for a good event, or for one of another capability."""
    match event:
        case LoadScraped():
            yield from _scrape(event)
        case LoadHistoryRead():
            yield from _history(event)
        case EhpaChanged():
            yield from _replicas(event, "min_replicas", "max_replicas", "specific_replicas")
            yield from _target(event.target)
            yield from _spec(event)
        case TimeSeriesPredictionChanged():
            yield from bounds.number("window_seconds", event.window_seconds)
            yield from _target(event.target)
        case HpaSeen():
            yield from _replicas(event, "min_replicas", "max_replicas", "current", "desired")
            yield from scaling_amounts.reasons(event.metrics, event.behavior)
        case ScaleSeen():
            yield from _replicas(event, "replicas", "status_replicas")
        case LoadForecast():
            yield from _decision_id(event.id)
        case _:
            pass


def _replicas(event: object, *fields: str) -> Iterator[str]:
    for field in fields:
        yield from bounds.number(field, getattr(event, field), MOST_REPLICAS)


def _spec(event: EhpaChanged) -> Iterator[str]:
    """Check the amounts that a stage computes with."""
    # Nobody computes with an object that cannot be carried out, and its owner reads why in its status.
    if event.unsupported:
        return
    yield from scaling_amounts.reasons(event.metrics, event.behavior)
    if event.prediction is not None:
        window = event.prediction.window_seconds
        yield from bounds.number("prediction.predictionWindowSeconds", window, scaling_amounts.MOST_COUNT)


def _target(key: str) -> Iterator[str]:
    yield from bounds.workload_key("target_ref", key) if key else ()


def _decision_id(text: str) -> Iterator[str]:
    try:
        DecisionId.parse(text)
    except ValueError as error:
        yield f"id: {error}"


def _scrape(event: LoadScraped) -> Iterator[str]:
    lengths = {name: len(getattr(event, name)) for name in ("workloads", "series", "values")}
    if len(set(lengths.values())) > 1:
        yield f"the columns of a scrape must be of equal length, not {lengths}"
    yield from bounds.count("values", event.values, MOST_ROWS)
    if len(event.ages) not in (0, len(event.values)):
        yield f"ages has {len(event.ages)} rows, and there are {len(event.values)} values"
    yield from _odd_names(event.workloads, event.series)
    yield from _amounts("values", event.values)
    yield from _between("ages", event.ages, 0.0, MOST_AGE)


# Scrapes repeat their names.
@lru_cache(maxsize=2048)
def _odd_names(workloads: tuple[str, ...], series: tuple[str, ...]) -> tuple[str, ...]:
    """What is wrong with the first bad name."""
    faults = [reason for place, key in enumerate(workloads) for reason in bounds.workload_key(f"workloads[{place}]", key)]
    faults += [reason for place, name in enumerate(series) for reason in bounds.text(f"series[{place}]", name)]
    return tuple(faults[:1])


def _history(event: LoadHistoryRead) -> Iterator[str]:
    yield from bounds.count("values", event.values, MOST_ROWS)
    yield from bounds.at_least("step", event.step, 1.0, MOST_AGE)
    yield from _amounts("values", [value for value in event.values if value is not None])


def _amounts(name: str, values: Sequence[float]) -> Iterator[str]:
    # Loads may be below zero, because a query can return anything.
    yield from _between(name, values, -bounds.MOST_NUMBER, bounds.MOST_NUMBER)


def _between(name: str, values: Sequence[float], least: float, most: float) -> Iterator[str]:
    numbers = np.asarray(values, np.float64)
    odd = np.flatnonzero(~((numbers >= least) & (numbers <= most)))
    if len(odd):
        yield f"{name}[{odd[0]}] is {numbers[odd[0]]:g}; it must be between {least:g} and {most:g}"
