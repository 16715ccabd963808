"""The samples of upstream's recommendation vectors, and their policies as ours."""

from collections.abc import Iterator
from typing import Any

from schemas.names import Amounts
from schemas.policies.vertical import ContainerMode, ContainerPolicy
from tests.support.quantities import quantity, whole

Json = dict[str, Any]

WORD = 2**64


def value(shape: Json, i: int, at: float, r: int) -> float:  # noqa: PLR0911  # one line for each shape of the vectors' README
    """What a shape gives at step `i`."""
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


def amounts(series: Json, resource: str, seed: int) -> Iterator[float]:
    """Samples of one resource, NaN where the series has none."""
    shape = series.get(resource)
    state = seed
    for i in range(series["n"]):
        state = (state * 6364136223846793005 + 1442695040888963407) % WORD
        yield float("nan") if shape is None else value(shape, i, series["t0"] + i * series["step"], state >> 33)


def policy(entry: Json) -> ContainerPolicy:
    """A container policy of a manifest."""
    resources = entry.get("controlledResources")
    return ContainerPolicy(
        container=entry["containerName"],
        min_allowed=_bound(entry.get("minAllowed")),
        max_allowed=_bound(entry.get("maxAllowed")),
        mode=ContainerMode(entry.get("mode") or "Auto"),
        controlled_resources=None if resources is None else tuple(resources),
        oom_ratio=float(quantity(entry["oomBumpUpRatio"])) if "oomBumpUpRatio" in entry else None,
        oom_minimum=whole(entry["oomMinBumpUp"]) if "oomMinBumpUp" in entry else None,  # type: ignore[arg-type]  # units
        memory_window=entry.get("memoryAggregationIntervalSeconds"),
        memory_windows=entry.get("memoryAggregationIntervalCount"),
    )


def _bound(resources: Json | None) -> Amounts:
    found = resources or {}
    cpu, memory = found.get("cpu"), found.get("memory")
    return Amounts(None if cpu is None else float(quantity(cpu)), None if memory is None else whole(memory))  # type: ignore[arg-type]  # units
