"""Upstream's vectors of Crane's EHPA and of Kubernetes' HPA, and the series their inputs describe."""

import json
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.logic.replicas.replica_calculator import MOST_MILLI

SHARED = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[3] / "shared"))
Json = dict[str, Any]


def vectors(family: str) -> list[Any]:
    """Parameters for pytest: one case for each vector, or one that is skipped."""
    path = SHARED / "golden" / "ehpa" / f"{family}.json"
    if not path.exists():
        reason = f"no vectors at '{path}'; set ULLAGE_SHARED"
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(vector, id=vector["id"]) for vector in json.loads(path.read_text())["vectors"]]


def summed(values: list[int]) -> int:
    """The sum of an external metric's series (milli-units). A sum that does not fit, or is below 0, becomes the largest amount.

    Kubernetes takes a negative sum for an overflow in the same way, and an autoscaler that sees one goes to its maximum.
    """
    total = sum(values)
    return total if 0 <= total < MOST_MILLI else MOST_MILLI


def number(value: Any) -> float:
    """A number of a vector; what is not finite stands there as a text."""
    return float(value)


def close(mine: float, theirs: Any, relative: float = 1e-9, scale: float = 0.0) -> bool:
    """Equal to `relative` of the larger of the numbers and `scale`; equal texts of what is no number."""
    expected = number(theirs)
    if not (math.isfinite(mine) and math.isfinite(expected)):
        return mine == expected or (math.isnan(mine) and math.isnan(expected))
    return abs(mine - expected) <= relative * max(abs(mine), abs(expected), scale)


def expand(given: Json) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Times and values of a series as the vectors' README describes them."""
    if "file" in given:
        return _cut(given)
    if "n" in given:
        return _made(given)
    values = np.array(given.get("values") or [], np.float64)
    if "times" in given:
        return np.array(given["times"], np.int64), values
    return given.get("t0", 0) + np.arange(len(values), dtype=np.int64) * given.get("step_s", 0), values


def checked(given: Json, check: Json) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """The series, compared with what the vector says of its expansion."""
    times, values = expand(given)
    assert len(values) == check["n"]
    if len(values):
        assert (times[0], times[-1]) == (check.get("first_ts", 0), check.get("last_ts", 0))
        assert close(float(values.sum()), check.get("sum", 0), 1e-9, 1.0)
    return times, values


def _made(given: Json) -> tuple[Any, Any]:
    count, step = given["n"], given["step_s"]
    index = np.arange(count)
    values = np.zeros(count)
    for part in given["parts"]:
        values = values + _part(part, index, step)
    if given.get("day_factors"):
        values = values * np.array(given["day_factors"], np.float64)[(index * step // 86_400) % 7]
    if given.get("min") is not None:
        values = np.maximum(values, given["min"])
    values = np.floor(1e6 * values + 0.5) / 1e6
    times = given.get("t0", 0) + index * step
    for place, value in given.get("set") or ():
        values[place] = value
    for place, seconds in given.get("shift") or ():
        times[place] += seconds
    kept = np.ones(count, np.bool_)
    for first, last in given.get("drop") or ():
        kept[first:last] = False
    return times[kept].astype(np.int64), values[kept]


def _part(part: Json, index: Any, step: int) -> Any:
    kind, size = part["f"], part.get("v", 0.0)
    phase = (index + part.get("phase", 0)) % part.get("period", 1)
    if kind in ("const", "trend"):
        return size * (index if kind == "trend" else np.ones(len(index)))
    if kind == "square":
        inside = (phase >= part.get("from", 0)) & (phase < part.get("to", 0))
        return np.where(inside, part.get("hi", 0.0), part.get("lo", 0.0))
    if kind == "table":
        table = np.array(part["table"], np.float64)
        return table[(index // part["hold"]) % len(table)]
    if kind in ("sin", "weeksin"):
        wave = np.sin(2 * math.pi * phase / part["period"])
        if kind == "sin":
            return size * wave
        weekday = (index * step // 86_400) % 7 < 5
        base, swing = (np.where(weekday, part["table"][k], part["table"][k + 2]) for k in (0, 1))
        return base + swing * wave
    return _chance(part, len(index))


def _chance(part: Json, count: int) -> Any:
    kind, size = part["f"], part.get("v", 0.0)
    draws = _uniform(part.get("seed", 0), 12 * count if kind == "gauss" else count)
    if kind == "uniform":
        low, high = part.get("lo", 0.0), part.get("hi", 0.0)
        return low + (high - low) * draws
    if kind == "gauss":
        total = np.zeros(count)
        for column in draws.reshape(count, 12).T:
            total = total + column
        return size * (total - 6)
    assert kind == "walk", kind
    return np.cumsum(size * (2 * draws - 1))


@cache
def _uniform(seed: int, count: int) -> Any:
    """The generator's numbers; 64 at a time, each lane one multiplication further."""
    multiplier, increment, modulus = 6_364_136_223_846_793_005, 1_442_695_040_888_963_407, 2**64
    lanes = 64
    state, first, factor, shift = 2 * seed + 1, [], 1, 0
    for _ in range(lanes):
        state = (state * multiplier + increment) % modulus
        first.append(state)
        factor, shift = factor * multiplier % modulus, (shift * multiplier + increment) % modulus
    lane, far, add = np.array(first, np.uint64), np.uint64(factor), np.uint64(shift)
    rows = []
    for _ in range(-(-count // lanes)):
        rows.append(lane)
        lane = lane * far + add
    return (np.concatenate(rows)[:count] >> np.uint64(33)).astype(np.float64) / 2.0**31


@cache
def _rows(file: str, series: str, column: str) -> tuple[Any, Any, Any]:
    import duckdb

    path = SHARED.parent / file if not file.startswith("shared/") else SHARED / file.removeprefix("shared/")
    with duckdb.connect() as db:
        names = [name for name, *_ in db.execute(f"describe select * from '{path}'").fetchall()]  # noqa: S608  # our own path
        time = "second" if "second" in names else "timestamp_s"
        missing = "missing" if "missing" in names else "false"
        owner = next((name for name in ("series_id", "vm_id", "pool_id") if name in names), None)
        where = f"where {owner} = '{series}'" if series and owner else ""
        found = db.execute(f"select {time} t, {column} v, {missing} m from '{path}' {where}").fetchnumpy()  # noqa: S608  # ditto
    values = np.ma.filled(np.ma.asarray(found["v"]).astype(np.float64), np.nan)
    return np.asarray(found["t"], np.int64), values, np.asarray(found["m"], np.bool_)


def _cut(given: Json) -> tuple[Any, Any]:
    times, values, missing = _rows(given["file"], given.get("series_id", ""), given["column"])
    first = given.get("first_row", 0)
    part = slice(first, first + given["rows"])
    times, values, missing = times[part], values[part], missing[part]
    if width := given.get("bin"):
        full = len(values) // width * width
        good = ~missing[:full].reshape(-1, width).any(axis=1)
        return times[:full:width][good], values[:full].reshape(-1, width).sum(axis=1)[good]
    every = given.get("every") or 1
    kept = ~missing & (np.arange(len(values)) % every == 0)
    return times[kept], values[kept]
