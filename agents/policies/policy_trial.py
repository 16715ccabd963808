"""Tries a policy on made-up containers: whether it answers equally twice, alone and in a batch, and how long it takes.

It observes a made-up day first. The containers are as in real clusters: without a sample, with one, idle, huge, and two humps.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TextIO

import numpy as np

from agents.engine.tables.row_table import Indices, RowKey
from agents.logic.usage.buckets import Buckets, cpu_buckets, memory_buckets
from agents.logic.vertical.policy_code import (
    CodePolicy,
    EvidenceColumns,
    Floats,
    HistogramColumns,
    PolicyState,
    RecommendedColumns,
    SampleColumns,
    answer,
    check_explained,
    shown_to,
)
from agents.logic.vertical.policy_feed import PolicyStates, nothing_remembered, rows_of
from agents.policies import policy_sources

CONTAINERS = 1000
_GROWTH = 0.05
_SEED = 1
_START = 1_767_225_600
"""2026-01-01, in seconds since 1970."""
_ROUNDS = 3
_HOURS, _RARE = 24, 0.05
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
    every = np.arange(CONTAINERS)
    whole, taken = _timed(policy, every)
    unlike = ""
    for _ in range(_ROUNDS - 1):
        again, seconds = _timed(policy, every)
        taken = min(taken, seconds)
        unlike = unlike or _difference(whole, again, "asked again, it answers otherwise")
    # the worker asks of whatever containers are due: an answer must not depend on the others in the batch
    # one more, so that the two batches differ in size as well
    half = CONTAINERS // 2 + 1
    parts = [_timed(policy, rows)[0] for rows in (every[:half], every[half:])]
    joined = RecommendedColumns(*(np.concatenate(pair) for pair in zip(*(_arrays(part) for part in parts), strict=True)))
    unlike = unlike or _difference(whole, joined, "asked of fewer containers at once, it answers otherwise")
    return PolicyTrial(blake2b(b"".join(array.tobytes() for array in _arrays(whole)), digest_size=16).hexdigest(), taken, unlike)


def _timed(policy: CodePolicy, rows: Indices) -> tuple[RecommendedColumns, float]:
    """What a policy says of these containers after it observed them, and the seconds that its answer took."""
    state = _observed(policy, rows)
    usage = made_up_usage(CONTAINERS, rows)
    usage.recent_peak.sum()  # made at the first look, which is no part of the policy's time
    begun = time.perf_counter()
    answered = answer(policy, usage, state)
    elapsed = time.perf_counter() - begun
    # after the time was taken, as no recommendation waits for it
    if policy.explain is not None:
        check_explained(policy.explain(usage, state), len(rows))
    return RecommendedColumns(*answered), elapsed


def _observed(policy: CodePolicy, rows: Indices) -> PolicyState:
    """What a policy remembers of some made-up containers after a made-up day. Raises PolicyFault."""
    states = PolicyStates([policy])
    table = states.table(policy)
    if table is None:
        return nothing_remembered(len(rows))
    keys: list[RowKey] = [(f"made-up/default/Deployment/w{row:04d}", "app") for row in rows.tolist()]
    state = PolicyState(table, rows_of(table, keys))
    for samples in made_up_samples(CONTAINERS, rows):
        shown_to(replace(policy, strict=True), samples, state)
    return state


def made_up_samples(count: int, rows: Indices) -> Iterator[SampleColumns]:
    """A day of samples of these of `count` containers, an hour apart, with holes and OOM kills; the same whenever asked for."""
    chance = np.random.default_rng(_SEED)
    levels, kills = chance.lognormal(-2.0, 1.5, count), np.full(count, np.nan)
    nothing, spread = np.full(count, np.nan), np.linspace(0.0, 1.0, count)
    for hour in range(_HOURS):
        swing = 1.0 + 0.5 * np.sin(2 * np.pi * (hour / _HOURS + spread))
        cpu, memory = (levels * swing * chance.lognormal(0.0, 0.3, count) for _ in range(2))
        holes, killed = chance.random((2, count)) < _RARE
        cpu, memory = np.where(holes, np.nan, cpu), np.where(holes, np.nan, memory * _GIB)
        kills = np.where(killed, memory, np.nan)
        for used, peak, at_limit, seconds in ((nothing, nothing, kills, 0.0), (cpu, memory, nothing, 3600.0)):
            yield SampleColumns(
                at=np.full(len(rows), _START + hour * 3600.0),
                seconds=np.full(len(rows), seconds),
                cpu=used[rows],
                memory=peak[rows],
                pods=np.ones(len(rows)),
                killed_at=at_limit[rows],
                spread=spread[rows],
                risk_cpu=np.full(len(rows), 0.02),
                risk_oom=np.full(len(rows), 0.9),
                evidence_of=lambda places: made_up_usage(count, rows[places]),
            )


def _arrays(columns: RecommendedColumns) -> list[Floats]:
    return [array for _, array in columns.columns()]


def _difference(before: RecommendedColumns, after: RecommendedColumns, how: str) -> str:
    for (name, first), (_, second) in zip(before.columns(), after.columns(), strict=True):
        # NaN differs from itself, and "nothing" twice is the same answer
        other = np.flatnonzero(~((first == second) | (np.isnan(first) & np.isnan(second))))
        if len(other):
            i = int(other[0])
            return f"{how}: {name} of container {i} is {first[i]:g}, then {second[i]:g}"
    return ""


def made_up_usage(count: int, rows: Indices | None = None) -> EvidenceColumns:
    """Usage of `count` containers, the same whenever it is asked for; of these rows alone where they are given."""
    chance = np.random.default_rng(_SEED)
    samples = np.floor(chance.exponential(2000.0, count))
    # the ends of what there is: no sample, one, and a million
    samples[:3] = (0.0, 1.0, 1e6)
    levels = chance.lognormal(-2.0, 1.5, count)
    cpu = _histogram(chance, cpu_buckets(_GROWTH), levels, samples)
    memory = _histogram(chance, memory_buckets(_GROWTH), levels * _GIB, samples)
    last = np.where(samples > 0, _START + 7 * 86_400.0, np.nan)
    peak = np.where(samples > 0, memory.percentile(0.99) * chance.uniform(0.7, 1.0, count), 0.0)
    chosen = np.arange(count) if rows is None else rows
    amounts = [histogram.percentile(share) * 1.15 for histogram in (cpu, memory) for share in (0.5, 0.9, 0.95)]
    least = [0.025] * 3 + [250 * 2.0**20] * 3
    builtin = RecommendedColumns(*(np.maximum(amount, low)[chosen] for amount, low in zip(amounts, least, strict=True)))
    return EvidenceColumns(
        HistogramColumns(cpu.starts, cpu.weights[chosen]),
        HistogramColumns(memory.starts, memory.weights[chosen]),
        peaks=lambda: peak[chosen],
        first=(last - samples * 60.0)[chosen],
        last=last[chosen],
        samples=samples[chosen],
        estimated=lambda: builtin,
        least_cpu=np.full(len(chosen), least[0]),
        least_memory=np.full(len(chosen), least[-1]),
        in_place=np.ones(len(chosen), np.bool_),
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
