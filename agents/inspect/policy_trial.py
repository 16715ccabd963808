"""Tries a policy on made-up containers: whether it answers equally twice, alone and in a batch, and how long it takes.

The containers are as in real clusters: containers without a sample, with one, idle ones, huge ones, and two humps.
"""

import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TextIO

import numpy as np

from agents.logic.usage.buckets import Buckets, cpu_buckets, memory_buckets
from agents.logic.vertical.policy_code import (
    CodePolicy,
    EvidenceColumns,
    Floats,
    HistogramColumns,
    RecommendedColumns,
    answer,
)
from agents.settings import policy_sources

CONTAINERS = 1000
_GROWTH = 0.05
_SEED = 1
_START = 1_767_225_600
"""2026-01-01, in seconds since 1970."""
_ROUNDS = 3
_TRACE_CONTAINERS, _TRACE_SAMPLES, _TRACE_STEP = 24, 288, 300
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """What a policy did with the made-up containers."""

    digest: str
    """Of all its answers."""
    seconds: float
    """For 1,000 containers, the best of three."""
    unlike: str
    """Where it gave different answers to the same question; empty if it never did."""


def tried(text: str) -> PolicyTrial:
    """Load a policy and try it. Raises BadInput and PolicyFault."""
    policy = policy_sources.load(policy_sources.read(text))
    usage = made_up_usage(CONTAINERS)
    whole, taken = _timed(policy, usage)
    unlike = ""
    for _ in range(_ROUNDS - 1):
        again, seconds = _timed(policy, usage)
        taken = min(taken, seconds)
        unlike = unlike or _difference(whole, again, "asked again, it answers otherwise")
    half = CONTAINERS // 2 + 1
    parts = [answer(policy, made_up_usage(CONTAINERS, rows)) for rows in (np.arange(half), np.arange(half, CONTAINERS))]
    joined = RecommendedColumns(*(np.concatenate(pair) for pair in zip(*(_arrays(part) for part in parts), strict=True)))
    unlike = unlike or _difference(whole, joined, "asked of fewer containers at once, it answers otherwise")
    return PolicyTrial(blake2b(b"".join(each.tobytes() for each in _arrays(whole)), digest_size=16).hexdigest(), taken, unlike)


def _timed(policy: CodePolicy, usage: EvidenceColumns) -> tuple[RecommendedColumns, float]:
    begun = time.perf_counter()
    found = answer(policy, usage)
    taken = time.perf_counter() - begun
    return RecommendedColumns(*(each.copy() for each in _arrays(found))), taken


def _arrays(columns: RecommendedColumns) -> list[Floats]:
    return [array for _, array in columns.columns()]


def _difference(one: RecommendedColumns, two: RecommendedColumns, how: str) -> str:
    for (name, first), (_, second) in zip(one.columns(), two.columns(), strict=True):
        other = np.flatnonzero(~((first == second) | (np.isnan(first) & np.isnan(second))))
        if len(other):
            i = int(other[0])
            return f"{how}: {name} of container {i} is {first[i]:g}, then {second[i]:g}"
    return ""


def made_up_usage(count: int, rows: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None) -> EvidenceColumns:
    """Usage of `count` containers, the same whenever it is asked for; of these rows alone where they are given."""
    chance = np.random.default_rng(_SEED)
    samples = np.floor(chance.exponential(2000.0, count))
    samples[:3] = (0.0, 1.0, 1e6)
    levels = chance.lognormal(-2.0, 1.5, count)
    cpu = _histogram(chance, cpu_buckets(_GROWTH), levels, samples)
    memory = _histogram(chance, memory_buckets(_GROWTH), levels * _GIB, samples)
    last = np.where(samples > 0, _START + 7 * 86_400.0, np.nan)
    peak = np.where(samples > 0, memory.percentile(0.99) * chance.uniform(0.7, 1.0, count), 0.0)
    chosen = np.arange(count) if rows is None else rows
    amounts = [each.percentile(share) * 1.15 for each in (cpu, memory) for share in (0.5, 0.9, 0.95)]
    least = [0.025] * 3 + [250 * 2.0**20] * 3
    builtin = RecommendedColumns(*(np.maximum(found, low)[chosen] for found, low in zip(amounts, least, strict=True)))
    return EvidenceColumns(
        HistogramColumns(cpu.starts, cpu.weights[chosen]),
        HistogramColumns(memory.starts, memory.weights[chosen]),
        recent_peak=peak[chosen],
        first=(last - samples * 60.0)[chosen],
        last=last[chosen],
        samples=samples[chosen],
        builtin=builtin,
    )


def _histogram(chance: np.random.Generator, scale: Buckets, levels: Floats, samples: Floats) -> HistogramColumns:
    weights = np.zeros((len(levels), len(scale.starts)))
    rows = np.arange(len(levels))
    for hump in (1.0, 1.3, 3.0):
        for _ in range(20):
            values = levels * hump * chance.lognormal(0.0, 0.2, len(levels))
            np.add.at(weights, (rows, scale.find(values)), samples / 60.0)
    return HistogramColumns(scale.starts, weights)


def write_trace(folder: Path) -> Path:
    """A made-up trace in this folder: a day of two dozen containers, one of which leaks, at a sample in five minutes."""
    file = folder / "made-up.csv"
    with file.open("w", encoding="utf-8") as out:
        _write_rows(out)
    return file


def _write_rows(out: TextIO) -> None:
    chance = np.random.default_rng(_SEED)
    out.write("timestamp_s,workload,container,cpu_cores,memory_bytes,cpu_request_cores,memory_request_bytes\n")
    for i in range(_TRACE_CONTAINERS):
        level, size = chance.lognormal(-1.5, 1.0), chance.lognormal(-0.5, 0.7) * _GIB
        request, reserved = level * chance.uniform(1.5, 4.0), size * chance.uniform(1.5, 4.0)
        for sample in range(_TRACE_SAMPLES):
            day = 1.0 + 0.6 * np.sin(2 * np.pi * (sample / _TRACE_SAMPLES + i / _TRACE_CONTAINERS))
            grown = 1.0 + (sample / _TRACE_SAMPLES if i == 0 else 0.0)
            cores, used = level * day * chance.lognormal(0.0, 0.15), size * grown * chance.lognormal(0.0, 0.05)
            at = _START + sample * _TRACE_STEP
            out.write(f"{at},w{i // 2},c{i},{cores:.4f},{int(used)},{request:.3f},{int(reserved)}\n")
