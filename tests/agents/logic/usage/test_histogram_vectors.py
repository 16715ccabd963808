"""Histograms against upstream's own: buckets, adding, taking away, decay, merging."""

import math
from typing import Any

import numpy as np
import pytest

from agents.engine.tables.row_table import RowTable
from agents.logic.usage.buckets import Buckets, ExponentialBuckets
from agents.logic.usage.histograms import Histograms
from tests.support.histogram_state import state
from tests.support.linear_buckets import Linear
from tests.support.vectors import differences, vectors

Json = dict[str, Any]


def scale(options: Json) -> Any:
    if options["kind"] == "linear":
        return Linear(options["max_value"], options["first_bucket_size"], options["epsilon"])
    return ExponentialBuckets(options["max_value"], options["first_bucket_size"], options["ratio"], options["epsilon"])


def histograms(inputs: Json, names: list[str]) -> Any:
    buckets: Buckets = scale(inputs["options"])
    rows = RowTable("test", Histograms.columns("h", buckets, inputs["half_life_s"] if inputs["decaying"] else math.inf))
    for name in names:
        rows.add((name,))
    return Histograms(rows, "h", buckets)


def apply(mine: Any, row: int, op: list[Any]) -> Any:
    kind, value, weight, at = op
    act = mine.add if kind == "add" else mine.subtract
    act(np.array([row]), np.array([float(value)]), weight, float(at))


def undated(inputs: Json, expected: Json) -> Any:
    return expected if inputs["decaying"] else {k: v for k, v in expected.items() if k != "reference_ts"}


@pytest.mark.parametrize("vector", vectors("histogram_buckets"))
def test_buckets_start_where_upstreams_do_to_the_bit(vector: Json) -> None:
    starts = scale(vector["inputs"]["options"]).starts
    assert starts.tolist() == vector["expected"]["bucket_starts"]


@pytest.mark.parametrize("vector", vectors("histogram_find_bucket"))
def test_values_fall_into_upstreams_buckets(vector: Json) -> None:
    inputs = vector["inputs"]
    with np.errstate(all="ignore"):
        found = scale(inputs["options"]).find(np.array(inputs["values"], np.float64))
    slack = 1 if inputs["class"] == "edge" else 0
    assert np.abs(found - np.array(vector["expected"]["indexes"])).max() <= slack


@pytest.mark.parametrize("vector", vectors("histogram_ops"))
def test_samples_added_and_taken_away_leave_what_upstream_has(vector: Json) -> None:
    inputs = vector["inputs"]
    mine = histograms(inputs, ["a"])
    snapshots = iter(vector["expected"]["snapshots"])
    for op in inputs["ops"]:
        if op[0] == "snap":
            assert differences(state(mine, 0, inputs["percentiles"]), undated(inputs, next(snapshots))) == []
        else:
            apply(mine, 0, op)


@pytest.mark.parametrize("vector", vectors("histogram_merge"))
def test_merged_histograms_are_what_upstream_has_and_what_was_merged_stays_as_it_was(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    mine = histograms(inputs, ["a", "b"])
    for row, name in ((0, "ops_a"), (1, "ops_b")):
        for op in inputs[name]:
            apply(mine, row, op)
    before = state(mine, 1, inputs["percentiles"])
    mine.absorb(np.array([0]), mine, np.array([1]))
    assert differences(state(mine, 0, inputs["percentiles"]), undated(inputs, expected["a_after"])) == []
    assert state(mine, 1, inputs["percentiles"]) == before
    if inputs["decaying"] and mine.reference[1] < mine.reference[0]:
        mine._scale(np.array([1]), mine.reference[:1])  # what upstream does to the one that is merged
    assert differences(state(mine, 1, inputs["percentiles"]), undated(inputs, expected["b_after"])) == []
