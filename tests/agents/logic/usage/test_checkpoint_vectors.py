"""Checkpoints against upstream's own: histograms saved and loaded, and whole checkpoints built from containers."""

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from agents.engine.tables.row_table import RowTable
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from agents.logic.usage import histogram_checkpoints
from agents.logic.usage.buckets import ExponentialBuckets
from agents.logic.usage.histograms import Histograms
from agents.logic.vertical.aggregated_usage import export
from agents.logic.vertical.container_index import ContainerIndex
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.names import Place
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from streams.clients.kube.vpa_objects import object_name
from tests.support.histogram_state import state
from tests.support.upstream_model import EPOCH, OWNER, Model
from tests.support.vectors import close, differences, vectors

Json = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("checkpoint_build"))
def test_checkpoints_are_what_upstream_writes(vector: Json) -> None:
    inputs = vector["inputs"]
    model = Model(inputs["config"])
    for op in inputs["ops"]:
        model.do(op)
    key, _, value = inputs["vpa"]["selector"].partition("=")
    selector = (Requirement(key, Operator.IN, (value,)),)
    vpa = VpaChanged(EPOCH, "c", "n", inputs["vpa"]["name"], EPOCH, TargetRef("k", "w"), selector)
    model.intake.policies = policies = OneTarget(vpa)
    members = ContainerIndex(model.usage, RowTable("said", {}), policies, model.intake.settings)
    members.add(list(model.usage.aggregates.keys()))
    found = {object_name(c): c for c in export(model.intake, members, OWNER, datetime.fromtimestamp(inputs["now"], EPOCH.tzinfo))}
    expected = vector["expected"]["checkpoints"]
    assert found.keys() == expected.keys()
    for name, theirs in expected.items():
        mine = found[name]
        assert (mine.version, mine.first, mine.last, mine.count) == tuple(
            theirs[k] for k in ("version", "first", "last", "count")
        )
        same(mine.cpu, theirs["cpu"])
        same(mine.memory, theirs["memory"])


class OneTarget(Policies):
    """Policies of which one governs whatever is asked about: upstream's vectors name no workloads."""

    def __init__(self, vpa: VpaChanged) -> None:
        super().__init__()
        self.take(Recorded(vpa, Place("ullage.policies.v1", 0, 0)))

    def of(self, workload: str) -> Any:
        assert workload == "w"
        return super().of("c/n/k/w")


def same(mine: SavedHistogram, theirs: Json) -> None:
    assert mine.reference == theirs["reference_ts"]
    assert close(mine.total, theirs["total_weight"])
    assert mine.weights == theirs["bucket_weights"]


def histogram(inputs: Json) -> Histograms:
    options = inputs["options"]
    scale = ExponentialBuckets(options["max_value"], options["first_bucket_size"], options["ratio"], options["epsilon"])
    rows = RowTable("test", Histograms.columns("h", scale, inputs["half_life_s"]))
    rows.add(("a",))
    return Histograms(rows, "h", scale)


def apply(mine: Histograms, ops: list[Any]) -> None:
    for kind, value, weight, at in ops:
        act = mine.add if kind == "add" else mine.subtract
        act(np.array([0]), np.array([float(value)]), weight, float(at))


def kept(told: Json) -> SavedHistogram:
    return SavedHistogram(told["reference_ts"], told["total_weight"], told["bucket_weights"])


def seen(cpu: SavedHistogram) -> CheckpointSeen:
    return CheckpointSeen(EPOCH, OWNER, "web", "c", "v3", 0.0, 0.0, 0, cpu, SavedHistogram(0.0, 0.0))


@pytest.mark.parametrize("vector", [v for v in vectors("histogram_checkpoint") if "roundtrip" in str(v.id) or v.id == "absent"])
def test_a_histogram_is_saved_and_comes_back_as_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    mine, again = histogram(inputs), histogram(inputs)
    apply(mine, inputs["ops"])
    same(histogram_checkpoints.saved(mine, 0), expected["checkpoint"])
    histogram_checkpoints.restore(again, 0, kept(expected["checkpoint"]))
    assert differences(state(again, 0, inputs["percentiles"]), expected["after_load"]) == []
    same(histogram_checkpoints.saved(again, 0), expected["checkpoint_again"])


@pytest.mark.parametrize("vector", [v for v in vectors("histogram_checkpoint") if "load" in str(v.id) or v.id == "absent"])
def test_a_checkpoint_is_loaded_or_refused_as_upstream_does(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    mine = histogram(inputs)
    apply(mine, inputs["ops_before"])
    refused = inputs["checkpoint"] is None or histogram_checkpoints.fault(seen(kept(inputs["checkpoint"])))
    assert bool(refused) == bool(expected.get("error"))
    if refused:
        return
    histogram_checkpoints.restore(mine, 0, kept(inputs["checkpoint"]))
    assert differences(state(mine, 0, inputs["percentiles"]), expected["after_load"]) == []
    value, weight, at = expected["then_sample"]
    apply(mine, [["add", value, weight, at]])
    assert differences(state(mine, 0, inputs["percentiles"]), expected["after_load_and_sample"]) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "foo"}, "version is 'foo'; only 'v3' can be read"),
        ({"count": -1}, "count is -1; there are no fewer than no samples"),
        ({"last": math.nan}, "last is nan, which is no time"),
        ({"cpu": SavedHistogram(0.0, -1.0)}, "cpu.total is -1.0, which is no weight"),
        ({"memory": SavedHistogram(0.0, 1.0, {"176": 1})}, "memory.weights has a bucket '176', and there are 176"),
        ({"memory": SavedHistogram(0.0, 1.0, {"-1": 1})}, "memory.weights has a bucket '-1', and there are 176"),
        ({"memory": SavedHistogram(0.0, 1.0, {"1": -1})}, "memory.weights['1'] is -1, which is no weight"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_refused_with_its_value_and_place(changed: Json, said: str) -> None:
    assert histogram_checkpoints.fault(replace(seen(SavedHistogram(0.0, 0.0)), **changed)) == said
