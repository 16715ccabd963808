"""The file that `ullage policy new` writes: a small policy that works, with comments that say what to change."""

TEMPLATE = '''"""A policy of Ullage: what containers should request, from what is known of their usage.

Try it with `ullage policy lint FILE`, `ullage policy test FILE` and `ullage backtest RECORDING --policy FILE`. Let a worker say
what it would recommend with `--set vertical.shadow_policy=FILE`, and decide by it with `--set vertical.policy=FILE`.
"""

import numpy as np

from agents.logic.vertical.policy_code import RecommendedColumns, EvidenceColumns

HEADROOM = 1.2
"""Memory above the highest recent peak."""


def recommend(usage: EvidenceColumns) -> RecommendedColumns:
    """CPU as the built-in estimator has it; memory never below the highest recent peak and its headroom.

    Every array has one element for each container, (n,): cores for CPU, bytes for memory, NaN for "nothing is recommended".
    `usage.cpu` and `usage.memory` are histograms: `weights` (n, buckets), `starts` (buckets,), and `percentile(0.95)` (n,).
    Others: `recent_peak`, `first`, `last` (seconds since 1970, NaN for none), `samples`, and the amounts in `usage.builtin`.
    No clock, chance, network, file, thread or environment: what is refused is named by `ullage policy lint`.
    """
    builtin = usage.builtin
    floor = usage.recent_peak * HEADROOM
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
