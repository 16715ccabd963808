"""Histograms as upstream saves them: weights of buckets in whole parts of ten thousand of the heaviest, and the total weight.

Loading gives what saving had to within a part of ten thousand. It refuses what upstream refuses, in a sentence.
"""

import math
from collections.abc import Mapping

import numpy as np

from agents.engine.tables.row_table import Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.histograms import Histograms
from agents.logic.usage.memory_peaks import WEIGHT
from schemas.facts.usage import CheckpointSeen, SavedHistogram

VERSION = "v3"
"""The only form of checkpoints that upstream reads."""

_HEAVIEST = 10_000


def saved(histograms: Histograms, row: int) -> SavedHistogram:
    """A histogram to be kept: round_half_up(weight * 10000 / heaviest), without zeros."""
    low, high = int(histograms.low[row]), int(histograms.high[row])
    weights = histograms.weights.dense(np.array([row]))[0]
    # Buckets beyond the ends may hold weights below epsilon, which upstream does not save.
    weights[:low] = 0.0
    weights[high + 1 :] = 0.0
    heaviest = weights.max()
    parts = np.floor(weights * (_HEAVIEST / heaviest) + 0.5) if heaviest > 0.0 else weights
    return SavedHistogram(
        reference=histograms.reference.item(row),
        total=histograms.total.item(row),
        weights={str(bucket): int(parts[bucket]) for bucket in np.flatnonzero(parts).tolist()},
    )


def restore(histograms: Histograms, row: int, saved_histogram: SavedHistogram) -> None:
    """Put a kept histogram into a row, which is empty or is added to.

    bucket += part * total / sum of parts, total += total; ends are where buckets reach epsilon.
    """
    histograms.reference[row] = saved_histogram.reference
    parts = sum(saved_histogram.weights.values())
    if parts == 0:
        return
    share = saved_histogram.total / parts
    block = np.zeros((1, histograms.width))
    for bucket, part in saved_histogram.weights.items():
        block[0, int(bucket)] = part * share
    rows = np.array([row])
    histograms.weights.add(rows, block)
    histograms.changed[rows] = True
    histograms.total[row] += saved_histogram.total
    # The ends are where buckets reach epsilon, and none where nothing does.
    filled = np.flatnonzero(histograms.weights.dense(rows)[0] >= histograms.scale.epsilon)
    histograms.low[row] = filled[0] if len(filled) else histograms.width - 1
    histograms.high[row] = filled[-1] if len(filled) else 0


def load(usage: ContainerUsage, row: int, seen: CheckpointSeen) -> None:
    """Put a checkpoint into an aggregate that is new."""
    restore(usage.cpu, row, seen.cpu)
    restore(usage.memory, row, seen.memory)
    usage.aggregates["first"][row], usage.aggregates["last"][row] = seen.first, seen.last
    usage.aggregates["count"][row] = seen.count
    usage.aggregates.touch([row])


def take_running_peaks(usage: ContainerUsage, memory: Histograms, row: int, containers: Indices, now: float) -> None:
    """Take the peaks of windows that have not ended from `row`, which would count once more when they end."""
    columns = usage.containers
    for container in containers.tolist():
        end = columns.floats("window_end").item(container)
        peak = max(columns.floats("peak").item(container), columns.floats("killed").item(container))
        # Upstream's subtractCurrentContainerMemoryPeak (pkg/recommender/checkpoint/checkpoint_writer.go).
        if now < end and peak != 0.0:
            memory.subtract(np.array([row]), np.array([peak]), WEIGHT, end)


def fault(seen: CheckpointSeen) -> str | None:
    """Why a checkpoint cannot be loaded; None if it can."""
    if seen.version != VERSION:
        return f"version is '{seen.version}'; only '{VERSION}' can be read"
    if seen.count < 0:
        return f"count is {seen.count}; there are no fewer than no samples"
    times = {
        "first": seen.first,
        "last": seen.last,
        "cpu.reference": seen.cpu.reference,
        "memory.reference": seen.memory.reference,
    }
    odd = next((f"{name} is {value}, which is no time" for name, value in times.items() if not math.isfinite(value)), None)
    return odd or _odd(seen.cpu, "cpu") or _odd(seen.memory, "memory")


def _odd(histogram: SavedHistogram, name: str, width: int = 176) -> str | None:
    if not math.isfinite(histogram.total) or histogram.total < 0:
        return f"{name}.total is {histogram.total}, which is no weight"
    return _odd_bucket(histogram.weights, name, width)


def _odd_bucket(weights: Mapping[str, int], name: str, width: int) -> str | None:
    for bucket, part in weights.items():
        # isdigit alone also takes digits of other scripts, which int reads and Go does not.
        if not (bucket.isascii() and bucket.isdigit() and int(bucket) < width):
            return f"{name}.weights has a bucket '{bucket}', and there are {width}"
        if part < 0:
            return f"{name}.weights['{bucket}'] is {part}, which is no weight"
    return None
