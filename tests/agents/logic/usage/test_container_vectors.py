"""Containers against upstream's own: samples, windows, OOM kills, relabelled and deleted pods, and checkpoints of all that."""

from typing import Any

import pytest
from histogram_state import state
from upstream_model import Model
from vectors import close, differences, vectors

from agents.logic.usage import checkpoints
from agents.logic.usage.labels import matches
from agents.logic.vertical.evidence import added
from schemas.policies import Operator, Requirement

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


@pytest.mark.parametrize("vector", vectors("checkpoint_build"))
def test_checkpoints_are_what_upstream_writes(vector: Json) -> None:
    inputs = vector["inputs"]
    model = Model(inputs["config"])
    for op in inputs["ops"]:
        model.do(op)
    vpa, usage = inputs["vpa"], model.usage
    key, _, value = vpa["selector"].partition("=")
    selector = (Requirement(key, Operator.IN, (value,)),)
    keys = sorted(k for k in usage.aggregates.keys() if matches(selector, k[2]))  # noqa: SIM118  # rows, not a dict
    names = sorted({k[1] for k in keys})
    found = {
        f"{vpa['name']}-{name}": checkpoint(usage, [k for k in keys if k[1] == name], float(inputs["now"])) for name in names
    }
    expected = vector["expected"]["checkpoints"]
    assert found.keys() == expected.keys()
    for name, theirs in expected.items():
        mine = found[name]
        for field in ("first", "last", "count"):
            assert mine[field] == theirs[field], (name, field)
        for resource in ("cpu", "memory"):
            same_histogram(mine[resource], theirs[resource])


def checkpoint(usage: Any, keys: list[Any], now: float) -> Json:
    parts = [usage.aggregates.find(key) for key in keys]
    total, rows = added(usage, [parts])
    containers = usage.containers
    used = containers.used()
    live = used[[int(containers["aggregate"][row]) in parts for row in used.tolist()]]
    checkpoints.take_running_peaks(usage, total.memory, int(rows[0]), live, now)
    numbers = {name: total.aggregates.floats(name)[0] for name in ("first", "last", "count")}
    return {**numbers, "cpu": checkpoints.saved(total.cpu, 0), "memory": checkpoints.saved(total.memory, 0)}


def same_histogram(mine: Any, theirs: Json) -> None:
    assert mine.reference == theirs["reference_ts"]
    assert close(mine.total, theirs["total_weight"])
    assert mine.weights == theirs["bucket_weights"]
