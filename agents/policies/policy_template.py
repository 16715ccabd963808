"""The file that `ullage policy new` writes: a small policy that works, with comments that say what to change."""

TEMPLATE = '''"""A policy of Ullage: what containers should request, from what is known of their usage.

Try it with `ullage policy lint FILE`, `ullage policy test FILE` and `ullage backtest RECORDING --policy FILE`. Let a worker say
what it would recommend with `--set vertical.shadow_policy=FILE`, and decide by it with `--set vertical.policy=FILE`.
"""

import numpy as np

from agents.logic.vertical.policy_code import EvidenceColumns, PolicyState, RecommendedColumns, SampleColumns, StateColumn

HEADROOM = 1.2
"""Memory above the peaks that are remembered."""
HALF_LIFE = 6 * 3600.0
"""Seconds in which a remembered peak halves."""

STATE = (StateColumn("peak"),)
"""What is remembered of each container, in checkpoints too. Give VERSION another number when it comes to mean something else."""
VERSION = 1


def observe(samples: SampleColumns, state: PolicyState) -> None:
    """Remember the highest memory, which fades; called for each scrape and OOM kill, for many containers at once.

    Every array has one element for each container, (n,): cores for CPU, bytes for memory, NaN for "not seen". `state["peak"]` is
    read-only; `state["peak"] = array` remembers it. Others: `samples.at`, `cpu`, `pods`, `killed_at` (the limit of an OOM kill).
    """
    faded = state["peak"] * 0.5 ** (samples.seconds / HALF_LIFE)
    state["peak"] = np.fmax(faded, np.fmax(samples.memory, samples.killed_at * 1.5))


def recommend(usage: EvidenceColumns, state: PolicyState) -> RecommendedColumns:
    """CPU as the built-in estimator has it; memory never below the remembered peak and its headroom.

    `usage.cpu` and `usage.memory` are histograms: `weights` (n, buckets), `starts` (buckets,), and `percentile(0.95)` (n,).
    Others: `recent_peak`, `first`, `last` (seconds since 1970, NaN for none), `samples`, and the amounts in `usage.builtin`.
    No clock, chance, network, file, thread or environment: what is refused is named by `ullage policy lint`.
    """
    builtin = usage.builtin
    floor = state["peak"] * HEADROOM
    # Another quantile for CPU would be: target_cpu = usage.cpu.percentile(0.97) * 1.1
    return RecommendedColumns(
        lower_cpu=builtin.lower_cpu,
        target_cpu=builtin.target_cpu,
        upper_cpu=builtin.upper_cpu,
        lower_memory=builtin.lower_memory,
        target_memory=np.maximum(builtin.target_memory, floor),
        upper_memory=np.maximum(builtin.upper_memory, floor),  # never below the target
    )
'''
"""It imports what a policy may import, and nothing else."""
