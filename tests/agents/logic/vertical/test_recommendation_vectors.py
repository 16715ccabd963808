"""The estimator against upstream's own: whole workloads, from samples to amounts before rounding and capping.

Long series take upstream's model minutes of samples one by one; the ones above a bound run with ULLAGE_ALL_VECTORS=1.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from vectors import vectors

from agents.logic.usage.settings import UsageSettings
from agents.logic.usage.usage import Usage
from agents.logic.vertical.estimation import estimate_cpu, estimate_memory
from agents.logic.vertical.settings import VerticalSettings
from schemas.facts import MetricsScraped

Json = dict[str, Any]


MOST = 10**9 if os.environ.get("ULLAGE_ALL_VECTORS") else 400
WORD = 2**64


def value(shape: Json, i: int, at: float, r: int) -> Any:  # noqa: PLR0911  # one line for each shape of the vectors' README
    jitter = shape.get("jitter", 0) + 1
    match shape["f"]:
        case "const":
            return shape.get("base", 0)
        case "uniform":
            return shape.get("lo", 0) + r % (shape["hi"] - shape.get("lo", 0) + 1)
        case "hourly":
            return shape["levels"][int(at // 3600) % 24] + r % jitter
        case "burst":
            high = r % 1000 < shape["per_mille"]
            return (shape["peak"] if high else shape.get("base", 0)) + (r // 1000) % jitter
        case "tail":
            bits = r or 2**20
            return min(shape["base"] << ((bits & -bits).bit_length() - 1), shape["cap"]) + r % 7
        case "leak":
            return shape.get("base", 0) + shape["slope"] * (i % shape["period"]) + r % jitter
        case "step":
            return shape["a"] if i < shape["at"] else shape["b"]
    raise AssertionError(shape)


def amounts(series: Json, resource: str, seed: int) -> Iterator[float | None]:
    shape = series.get(resource)
    state = seed
    for i in range(series["n"]):
        state = (state * 6364136223846793005 + 1442695040888963407) % WORD
        yield None if shape is None else value(shape, i, series["t0"] + i * series["step"], state >> 33)


def fold(usage: Usage, series: Json) -> Any:
    key = ("w", series["pod"], series["container"])
    names = tuple((part,) for part in key)
    ooms = list(series.get("ooms", []))
    cpu = amounts(series, "cpu", series["seed"] * 2 + 1)
    memory = amounts(series, "memory", series["seed"] * 2 + 2)
    for i, (milli, used) in enumerate(zip(cpu, memory, strict=True)):
        at = float(series["t0"] + i * series["step"])
        while ooms and ooms[0][0] < at:
            kill(usage, key, ooms.pop(0))
        columns = [np.nan if milli is None else milli / 1000], [np.nan if used is None else used]
        usage.scrape(MetricsScraped(None, "c", *names, *columns), at, turn=0, offset=0)
    for oom in ooms:
        kill(usage, key, oom)


def kill(usage: Usage, key: Any, oom: list[Any]) -> Any:
    usage.kill(key, float(oom[1]), float(oom[0]), turn=0)


def fold_all(inputs: Json) -> Any:
    config = inputs["aggregation"]
    labels = {s["pod"]: s["labels"] for s in inputs["series"]}
    labels |= {pod: text for pod, text, _ in inputs.get("empty_containers") or []}
    usage = Usage(
        UsageSettings(
            cpu_half_life=config["cpu_half_life_s"],
            memory_half_life=config["memory_half_life_s"],
            window=config["memory_aggregation_interval_s"],
            oom_ratio=config["oom_bump_up_ratio"],
            oom_minimum=config["oom_min_bump_up_bytes"],
            growth=config["histogram_bucket_size_growth"],
        ),
        lambda _workload, pod, container: (container, labels[pod]),
    )
    for series in inputs["series"]:
        fold(usage, series)
    return usage


def merged(usage: Usage, parts: Any) -> Any:
    """One aggregate for each container name: what a workload's recommendation rests on."""
    aggregates = usage.aggregates
    rows = {}
    for name in sorted({container for container, _ in parts}):
        into = rows[name] = aggregates.add(("merged", name))
        for key in sorted(parts & set(aggregates.keys())):
            if key[0] == name:
                merge(usage, into, aggregates.find(key))
    return rows


def selected(inputs: Json) -> Any:
    """Container and labels of what the selector matches."""
    wanted = set(inputs["selector"].split(","))
    known = [(s["container"], s["labels"]) for s in inputs["series"]]
    known += [(container, labels) for _, labels, container in inputs.get("empty_containers") or []]
    return {(container, labels) for container, labels in known if wanted <= set(labels.split(","))}


def merge(usage: Usage, into: int, other: int) -> Any:
    first, last, count = usage.aggregates.floats("first"), usage.aggregates.floats("last"), usage.aggregates.whole("count")
    usage.cpu.merge(into, other)
    usage.memory.merge(into, other)
    if count[other]:
        first[into] = first[other] if not count[into] else min(first[into], first[other])
        last[into] = max(last[into], last[other])
        count[into] += count[other]


def settings(flags: Json) -> Any:
    return VerticalSettings(
        margin=flags["recommendation_margin_fraction"],
        target_cpu_percentile=flags["target_cpu_percentile"],
        lower_cpu_percentile=flags["lower_bound_cpu_percentile"],
        upper_cpu_percentile=flags["upper_bound_cpu_percentile"],
        target_memory_percentile=flags["target_memory_percentile"],
        lower_memory_percentile=flags["lower_bound_memory_percentile"],
        upper_memory_percentile=flags["upper_bound_memory_percentile"],
        cpu_confidence=flags["confidence_interval_cpu_s"],
        memory_confidence=flags["confidence_interval_memory_s"],
        pod_minimum_cpu=flags["pod_recommendation_min_cpu_millicores"] / 1000,
        pod_minimum_memory=flags["pod_recommendation_min_memory_mb"] * 2**20,
    )


def unsuited(vector: Json) -> Any:
    """Why a vector asks for what this stage does not do yet."""
    inputs, flags = vector["inputs"], vector["inputs"]["recommender"]
    policies = (inputs.get("resourcePolicy") or {}).get("containerPolicies", [])
    if flags["feature_per_vpa_config"]:
        return "no settings for single workloads yet"
    if any(p.get("mode") == "Off" or "controlledResources" in p for p in policies):
        return "no policy mode and controlled resources of containers yet"
    if sum(s["n"] for s in inputs["series"]) > MOST:
        return f"more than {MOST} samples; set ULLAGE_ALL_VECTORS"
    return None


@pytest.mark.parametrize("vector", vectors("recommendation"))
def test_amounts_are_upstreams(vector: Json) -> None:
    reason = unsuited(vector)
    if reason:
        pytest.skip(reason)
    inputs, expected = vector["inputs"], vector["expected"]
    usage = fold_all(inputs)
    found = merged(usage, selected(inputs))
    names, rows = list(found), np.array(list(found.values()), np.int64)
    siblings = np.full(len(rows), float(len(rows)))
    chosen = settings(inputs["recommender"])
    cpu, memory = (estimate(usage, rows, siblings, chosen) for estimate in (estimate_cpu, estimate_memory))
    mine = {
        name: {
            f"{bound}{suffix}": {"cpu": getattr(cpu, bound)[i], "memory": getattr(memory, bound)[i]}
            for bound, suffix in (("lower", "Bound"), ("target", ""), ("upper", "Bound"))
        }
        for i, name in enumerate(names)
    }
    assert mine == expected["amounts"]
