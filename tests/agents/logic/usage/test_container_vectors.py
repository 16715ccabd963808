"""Containers against upstream's own: samples, windows, OOM kills, relabelled and deleted pods."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from histogram_state import state
from vectors import differences, vectors

from agents.logic.usage.settings import UsageSettings
from agents.logic.usage.usage import Usage
from schemas.facts import MetricsScraped

Json = dict[str, Any]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def settings(config: Json) -> Any:
    return UsageSettings(
        cpu_half_life=config["cpu_half_life_s"],
        memory_half_life=config["memory_half_life_s"],
        window=config["memory_aggregation_interval_s"],
        oom_ratio=config["oom_bump_up_ratio"],
        oom_minimum=config["oom_min_bump_up_bytes"],
        growth=config["histogram_bucket_size_growth"],
    )


class Model:
    """Upstream's cluster model over our usage: pods and their containers must be known, and labels make the aggregate."""

    def __init__(self, config: Json) -> None:
        self.pods = {}
        self.usage = Usage(settings(config), lambda _workload, pod, container: (container, self.pods[pod][0]))

    def do(self, op: list[Any]) -> Any:
        kind, name, *rest = op
        if kind == "pod":
            self.pods[name] = (rest[0], rest[1])
        elif kind == "delete_pod":
            for container in self.pods.pop(name, ("", []))[1]:
                self.usage.forget(("w", name, container))
        else:
            return self.sample(kind, name, *rest)
        return None

    def sample(self, kind: str, pod: Any, container: str, at: float, amount: Any) -> Any:
        if container not in self.pods.get(pod, ("", []))[1]:
            return ["no_such_container", None]
        key = ("w", pod, container)
        if kind == "oom":
            error = "" if self.usage.kill(key, float(amount), float(at), turn=0) else "oom_too_old"
        else:
            before = self.marks(key)
            cores = [amount / 1000 if kind == "cpu" else np.nan]
            memory = [amount if kind == "memory" else np.nan]
            scrape = MetricsScraped(EPOCH, "c", ("w",), (pod,), (container,), cores, memory)
            late = amount < 0 or (before is not None and (at <= before[4] if kind == "cpu" else at < before[3]))
            self.usage.scrape(scrape, float(at), turn=0, offset=0)
            error = "discarded" if late else ""
            assert not (late and self.marks(key) != before and before is not None)
        return [error, self.marks(key)]

    def marks(self, key: Any) -> Any:
        containers = self.usage.containers
        row = containers.find(key)
        columns = ("window_end", "peak", "killed", "last_memory", "last_cpu")
        return None if row is None else [float(containers.floats(c)[row]) for c in columns]

    def aggregate(self, key: Any, shares: list[float]) -> Any:
        aggregates = self.usage.aggregates
        row = aggregates.find(tuple(key.split("|", 1)))
        if row is None:
            return None
        numbers = {name: float(aggregates.floats(name)[row]) for name in ("first", "last", "count")}
        return {**numbers, "cpu": state(self.usage.cpu, row, shares), "memory": state(self.usage.memory, row, shares)}


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


def compare(model: Model, snapshot: Json, shares: list[float]) -> Any:
    for key, theirs in snapshot.items():
        mine = model.aggregate(key, shares)
        if mine is None:
            assert theirs["count"] == 0
            assert theirs["memory"]["empty"]
            continue
        assert {k: mine[k] for k in ("first", "last", "count")} == {k: theirs[k] for k in ("first", "last", "count")}, key
        for resource in ("cpu", "memory"):
            assert differences(mine[resource], theirs[resource]) == [], (key, resource)
