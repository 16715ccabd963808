"""Containers against upstream's own: samples, windows, OOM kills, relabelled and deleted pods."""

from typing import Any

import pytest

from tests.support.histogram_state import state
from tests.support.upstream_model import Model
from tests.support.vectors import differences, vectors

Json = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("container_state"))
def test_containers_end_where_upstreams_end(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    model = Model(inputs["config"])
    snapshots = iter(expected["snapshots"])
    for op, result in zip(inputs["ops"], expected["results"], strict=True):
        if op[0] == "snap":
            compare(model, next(snapshots), inputs["percentiles"])
        else:
            assert model.do(op) == result, op


def compare(model: Model, snapshot: Json, shares: list[float]) -> None:
    assert {"|".join(key[1:]) for key in model.usage.aggregates.keys()} == set(snapshot)  # noqa: SIM118  # rows, not a dict
    for key, theirs in snapshot.items():
        row = model.usage.aggregates.find(("w", *key.split("|", 1)))
        aggregates = model.usage.aggregates
        mine = {name: float(aggregates.floats(name)[row]) for name in ("first", "last", "count")}
        assert mine == {name: theirs[name] for name in mine}, key
        assert differences(state(model.usage.cpu, row, shares), theirs["cpu"]) == [], key
        assert differences(state(model.usage.memory, row, shares), theirs["memory"]) == [], key
