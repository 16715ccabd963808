"""The policy `adaptive`: CPU by calibrated experts, memory by priced experts, each with a risk that people choose.

What it asks for never lies below what was used last, and never below the least that the built-in estimator recommends. Where a
change is an eviction, pods are evicted as rarely as under the built-in estimator.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.logic.adaptive import cpu_experts, memory_experts
from agents.logic.vertical.policy_code import CodePolicy, EvidenceColumns, Floats, PolicyState, RecommendedColumns, SampleColumns
from agents.logic.vertical.vertical_settings import ADAPTIVE

VERSION = 2


def observe(samples: SampleColumns, state: PolicyState) -> None:
    """Take in a moment."""
    cpu_experts.observe(samples, state)
    memory_experts.observe(samples, state)


def recommend(usage: EvidenceColumns, state: PolicyState) -> RecommendedColumns:
    """The requests in force by this policy; the built-in estimator's of a resource of which nothing was observed."""
    cpu = np.maximum(state["cpu_applied"].astype(np.float64), usage.least_cpu)
    memory = np.maximum(state["memory_applied"].astype(np.float64), usage.least_memory)

    def bounds(own: Floats, builtin: tuple[Floats, Floats, Floats]) -> list[Floats]:
        lower, target, upper = builtin
        # A policy may have no sample of a container of which the estimator has a seeded histogram.
        unknown = np.isnan(own)
        # A resize in place costs little, so the bounds are the target. An eviction costs a pod, so then the built-in bounds hold,
        # too.
        below = np.where(usage.in_place, own, np.minimum(own, lower))
        above = np.where(usage.in_place, own, np.maximum(own, upper))
        return [np.where(unknown, theirs, ours) for theirs, ours in ((lower, below), (target, own), (upper, above))]

    built = usage.builtin
    return RecommendedColumns(
        *bounds(cpu, (built.lower_cpu, built.target_cpu, built.upper_cpu)),
        *bounds(memory, (built.lower_memory, built.target_memory, built.upper_memory)),
    )


def explain(usage: EvidenceColumns, state: PolicyState) -> Mapping[str, Sequence[object] | NDArray[np.generic]]:
    """The numbers of a decision."""
    least = {"cpu_least": np.maximum(usage.least_cpu, cpu_experts.LEAST_CPU), "memory_least": usage.least_memory}
    return {**cpu_experts.explain(state), **memory_experts.explain(state), **least}


POLICY = CodePolicy(ADAPTIVE, recommend, observe, explain, (*cpu_experts.STATE, *memory_experts.STATE), VERSION, strict=True)
