"""The recommendation for many containers at once: estimate, round, bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.aggregated_usage import Evidence, gather
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.node_caps import NodeFit, NodeIndex, fit
from agents.logic.vertical.percentile_estimation import MILLI, Estimate, clamp, confidence, estimate, rounded
from agents.logic.vertical.policy_amounts import JudgedContainers, overruled
from agents.logic.vertical.policy_code import CodePolicy
from agents.logic.vertical.tuning import PLACE, cap
from agents.logic.vertical.vertical_settings import VerticalSettings

AMOUNTS = ("lower_cpu", "target_cpu", "upper_cpu", "lower_memory", "target_memory", "upper_memory")
"""The amounts of a container after rounding and bounds, in millicores and bytes; NaN where none is recommended."""

_TARGETS = (1, 4)
_LEAST = [PLACE["least_cpu"]] * 3 + [PLACE["least_memory"]] * 3
_MOST = [PLACE["most_cpu"]] * 3 + [PLACE["most_memory"]] * 3
"""For each of AMOUNTS the column of its bound among the rules."""


@dataclass(frozen=True, slots=True)
class EstimationRules:
    """What to judge by. `nodes` are those that pods must fit to; without a `policy` the built-in estimator decides."""

    settings: VerticalSettings
    nodes: NodeIndex | None = None
    policy: CodePolicy | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Containers in the order of `of`; `amounts` has one column for each of AMOUNTS, `uncapped` CPU and memory.

    `fit` says how pods were cut down to nodes, where they are. `fault` says why a policy written as code could not decide, and
    the built-in estimator did.
    """

    of: MemberSelection
    evidence: Evidence
    cpu: Estimate
    memory: Estimate
    amounts: Floats
    uncapped: Floats
    fit: NodeFit | None
    fault: str = ""

    def moved(self, published: Floats, step: float) -> NDArray[np.bool_]:
        """Rows whose target is another than `published`, or whose bounds moved by `step` of themselves."""
        known = ~np.isnan(self.amounts)
        change = np.where(
            known & ~np.isnan(published), np.abs(self.amounts - published), np.where(known == np.isnan(published), np.inf, 0.0)
        )
        allowed = np.nan_to_num(np.abs(published) * step)
        allowed[:, _TARGETS] = 0.0
        return np.asarray((change > allowed).any(axis=1))


def recommend(usage: ContainerUsage, members: ContainerIndex, these: MemberSelection, rules: EstimationRules) -> Recommendation:
    """The sum, for all these members at once."""
    return _concluded(
        usage, members, these, gather(usage, these.single, partial(_parts, members, these), these.rules[:, :6]), rules
    )


def reconsider(usage: ContainerUsage, members: ContainerIndex, done: Recommendation, rules: EstimationRules) -> Recommendation:
    """The same members and the same evidence, judged by other rules."""
    return _concluded(usage, members, done.of, done.evidence, rules)


def _parts(members: ContainerIndex, these: MemberSelection, place: int) -> Sequence[int]:
    return members.rows(int(these.members[place]))


def _concluded(
    usage: ContainerUsage, members: ContainerIndex, these: MemberSelection, evidence: Evidence, by: EstimationRules
) -> Recommendation:
    rules, settings, fault = these.rules, by.settings, ""
    cpu, memory = judge(evidence, rules, these.siblings, settings)
    if by.policy is not None:
        judged = JudgedContainers(these.single, partial(_parts, members, these), evidence, cpu, memory)
        cpu, memory, fault = overruled(usage, judged, by.policy)
    before = _rounded(cpu, memory, rules, settings)
    before[~_wanted(evidence, rules, settings)] = np.nan
    amounts, cut = _bounded(before, rules), None
    if by.nodes is not None:
        amounts, cut = fit(amounts, these.workload_names(these.workload), by.nodes)
    return Recommendation(these, evidence, cpu, memory, amounts, before[:, _TARGETS], cut, fault)


def judge(evidence: Evidence, rules: Floats, siblings: Floats, settings: VerticalSettings) -> tuple[Estimate, Estimate]:
    """CPU and memory before rounding, both in one go: the first axis of each array is the resource.

    Confidence rests on CPU samples for memory too, as upstream's does.
    """
    own = np.stack([rules[:, PLACE["minimum_cpu"]], rules[:, PLACE["minimum_memory"]]])
    share = np.array([settings.pod_minimum_cpu * MILLI, float(settings.pod_minimum_memory)])[:, None] / siblings
    minimum = clamp(np.where(np.isnan(own), share, own))
    history = (evidence.first, evidence.last, evidence.count)
    sure = np.stack([confidence(*history, settings.cpu_confidence), confidence(*history, settings.memory_confidence)])
    found = np.stack([[cpu * MILLI, memory] for cpu, memory in zip(evidence.cpu, evidence.memory, strict=True)])
    amounts = estimate(found, sure, margin=rules[:, PLACE["margin"]], minimum=minimum)
    both = [
        Estimate((percentiles[0], percentiles[1], percentiles[2]), sure[i], minimum[i], *(amount[i] for amount in amounts))
        for i, percentiles in enumerate((evidence.cpu, evidence.memory))
    ]
    return both[0], both[1]


def _rounded(cpu: Estimate, memory: Estimate, rules: Floats, settings: VerticalSettings) -> Floats:
    """All six amounts, rounded, with one column for each of AMOUNTS; CPU to whole cores where that is asked for."""
    millicores = rounded(np.column_stack([cpu.lower, cpu.target, cpu.upper]), settings.round_cpu)
    whole = rules[:, PLACE["integer_cpu"]] > 0.0
    if whole.any():
        millicores = np.where(whole[:, None], np.ceil(millicores / MILLI) * MILLI, millicores)
    memories = rounded(np.column_stack([memory.lower, memory.target, memory.upper]), settings.round_memory)
    return np.hstack([millicores, memories])


def _wanted(evidence: Evidence, rules: Floats, settings: VerticalSettings) -> NDArray[np.bool_]:
    """Which amounts are recommended: those of controlled resources of which a sample was seen."""
    seen = np.column_stack([evidence.count > 0.0, evidence.peaks > 0.0]) | settings.recommend_unseen
    return ((rules[:, PLACE["cpu"] : PLACE["memory"] + 1] > 0.0) & seen).repeat(3, axis=1)


def _bounded(amounts: Floats, rules: Floats) -> Floats:
    """The amounts within the bounds of their policies."""
    least, most = rules[:, _LEAST], rules[:, _MOST]
    if np.isnan(least).all() and np.isnan(most).all():
        return amounts.copy()
    return cap(amounts, least, most)
