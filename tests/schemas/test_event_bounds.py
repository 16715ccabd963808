"""Bounds of events: every field of every event has them, because they follow from the types."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from schemas import bounds, event_bounds
from schemas.decisions.pod_updates import ResizePlanned
from schemas.facts.pods import PodChanged
from schemas.facts.replica_scaling import LoadHistoryRead, LoadScraped
from schemas.facts.usage import CheckpointSeen, MetricsScraped
from schemas.names import Amounts
from schemas.policies.vpa import VpaChanged
from tests.support import examples, strategies

COLUMNS = {
    MetricsScraped: {"workloads", "pods", "containers", "cores", "memory", "ages"},
    LoadScraped: {"workloads", "series", "values", "ages"},
    LoadHistoryRead: {"values"},
}
LONG = "x" * (bounds.MOST_SENTENCE + 1)


def example(kind: type[Any]) -> Any:
    return next(event for event in examples.EVENTS if type(event) is kind)


def spoiled(value: Any) -> Iterator[Any]:
    """The value with one of its leaves, whichever, far out of bounds. What code never reads stays as it is."""
    if value is None or isinstance(value, bool):
        return
    if is_dataclass(value) and not isinstance(value, type):
        left_out = {"because"} | COLUMNS.get(type(value), set())
        for field in fields(value):
            for bad in spoiled(getattr(value, field.name)) if field.name not in left_out else ():
                yield replace(value, **{field.name: bad})
    elif isinstance(value, Mapping):
        yield {str(n): next(iter(value.values()), 0) for n in range(1_001)}
        yield from ({**value, key: bad} for key, each in value.items() for bad in spoiled(each))
    elif isinstance(value, tuple):
        yield (*value, *value[:1] * 1_001)
        yield from ((*value[:n], bad, *value[n + 1 :]) for n, each in enumerate(value) for bad in spoiled(each))
    else:
        yield from spoiled_leaf(value)


def spoiled_leaf(value: Any) -> Iterator[Any]:
    if type(value) is str:
        yield LONG
    elif isinstance(value, int | float):
        yield from (10**18, math.inf, -math.inf)
    elif isinstance(value, datetime):
        yield from (value.replace(year=9_998), value.replace(year=1))


@pytest.mark.parametrize("event", examples.EVENTS, ids=lambda event: type(event).__name__)
def test_every_field_of_every_event_is_bounded(event: object) -> None:
    assert event_bounds.fault(event) is None
    count = 0
    for bad in spoiled(event):
        if repr(bad) != repr(event):  # events with arrays are not compared
            assert event_bounds.fault(bad) is not None, bad
            count += 1
    assert count >= 2


@given(strategies.events)
def test_what_our_own_parts_write_is_within_bounds(event: object) -> None:
    assert event_bounds.fault(event) is None


def test_the_place_and_the_value_are_named() -> None:
    plan = example(ResizePlanned)
    (name, _), *_ = plan.requests.items()
    absurd = replace(plan, requests={name: Amounts(cpu=1e308)})
    assert event_bounds.fault(absurd) == (f".requests['{name}'].cpu", "is 1e+308; more than 1e+16 is not possible")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("count", 2**63 - 1, "more than 1e+16"),
        ("at", datetime.max.replace(tzinfo=examples.AT.tzinfo), "no clock of ours"),
        ("at", examples.AT.replace(year=1) - timedelta(0), "no clock of ours"),
        ("first", math.inf, "not a finite number"),
        ("vpa", "x" * 4_097, "4097 characters"),
    ],
)
def test_a_checkpoint_with_an_impossible_number_or_time_is_refused(field: str, value: object, words: str) -> None:
    found = event_bounds.fault(replace(example(CheckpointSeen), **{field: value}))
    assert found is not None
    assert words in found[1]


def test_labels_are_bounded_as_a_whole() -> None:
    pod = example(PodChanged)
    fits = {f"key{n:04}": "v" * 9 for n in range(1_000)}
    assert event_bounds.fault(replace(pod, labels=fits)) is None
    too_long = dict.fromkeys(fits, "v" * 20)
    assert event_bounds.fault(replace(pod, labels=too_long)) == (
        ".labels",
        "has 27000 characters; more than 16384 are not possible",
    )


def test_a_vpa_with_thousands_of_policies_is_refused() -> None:
    vpa = example(VpaChanged)
    found = event_bounds.fault(replace(vpa, containers=vpa.containers[:1] * 8_000))
    assert found == (".containers", "has 8000 entries; more than 1000 are not possible")
