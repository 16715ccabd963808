"""The recommendation for many containers at once: estimate, round, bound."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.estimation import MILLI, Estimate, clamp, confidence, estimate, rounded
from agents.logic.vertical.evidence import Evidence, gather
from agents.logic.vertical.node_caps import NodeFit, NodeIndex, fit
from agents.logic.vertical.tuning import PLACE, cap
from agents.logic.vertical.vertical_settings import VerticalSettings

AMOUNTS = ("lower_cpu", "target_cpu", "upper_cpu", "lower_memory", "target_memory", "upper_memory")
"""The amounts of a container after rounding and bounds, in millicores and bytes; NaN where none is recommended."""

_TARGETS = (1, 4)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Containers in the order of `members`; `amounts` has one column for each of AMOUNTS, `uncapped` CPU and memory.

    `fit` says how pods were cut down to nodes, where they are.
    """

    members: Indices
    evidence: Evidence
    cpu: Estimate
    memory: Estimate
    amounts: Floats
    uncapped: Floats
    rules: Floats
    fit: NodeFit | None

    def moved(self, said: Floats, step: float) -> NDArray[np.bool_]:
        """Rows whose target is another than `said`, or whose bounds moved by `step` of themselves."""
        known = ~np.isnan(self.amounts)
        change = np.where(known & ~np.isnan(said), np.abs(self.amounts - said), np.where(known == np.isnan(said), np.inf, 0.0))
        allowed = np.nan_to_num(np.abs(said) * step)
        allowed[:, _TARGETS] = 0.0
        return np.asarray((change > allowed).any(axis=1))


def recommend(
    usage: ContainerUsage, members: ContainerIndex, these: Indices, settings: VerticalSettings, nodes: NodeIndex | None = None
) -> Recommendation:
    """The sum, for all these members at once; whole workloads where there are nodes to fit."""
    rules = members.rules(these)
    evidence = gather(usage, members.numbers["single"][these], lambda i: members.rows(int(these[i])), rules[:, :6])
    siblings = members.numbers["siblings"][these].astype(np.float64)
    cpu, memory = judge(evidence, rules, siblings, settings)
    before = _rounded(cpu, memory, rules, settings)
    before[~_wanted(evidence, rules, settings)] = np.nan
    amounts, cut = _bounded(before, rules), None
    if nodes is not None:
        amounts, cut = fit(amounts, [members.names[member][0] for member in these.tolist()], nodes)
    return Recommendation(these, evidence, cpu, memory, amounts, before[:, _TARGETS], rules, cut)


def judge(evidence: Evidence, rules: Floats, siblings: Floats, settings: VerticalSettings) -> tuple[Estimate, Estimate]:
    """Both resources before rounding. Confidence rests on CPU samples for memory too, as upstream's does."""
    history = (evidence.first, evidence.last, evidence.count)
    margin = rules[:, PLACE["margin"]]
    shares = [("minimum_cpu", settings.pod_minimum_cpu * MILLI), ("minimum_memory", float(settings.pod_minimum_memory))]
    own = [rules[:, PLACE[name]] for name, _ in shares]
    cpu_least, memory_least = (
        np.where(np.isnan(mine), clamp(least / siblings), clamp(mine)) for mine, (_, least) in zip(own, shares, strict=True)
    )
    cpu_sure, memory_sure = (confidence(*history, interval) for interval in (settings.cpu_confidence, settings.memory_confidence))
    return (
        estimate(evidence.cpu, MILLI, cpu_sure, margin=margin, minimum=cpu_least),
        estimate(evidence.memory, 1.0, memory_sure, margin=margin, minimum=memory_least),
    )


def _rounded(cpu: Estimate, memory: Estimate, rules: Floats, settings: VerticalSettings) -> Floats:
    """All six amounts, rounded; CPU to whole cores where that is asked for."""
    millicores = [rounded(amount, settings.round_cpu) for amount in (cpu.lower, cpu.target, cpu.upper)]
    whole = rules[:, PLACE["integer_cpu"]] > 0.0
    millicores = [np.where(whole, np.ceil(amount / MILLI) * MILLI, amount) for amount in millicores]
    memories = [rounded(amount, settings.round_memory) for amount in (memory.lower, memory.target, memory.upper)]
    return np.column_stack(millicores + memories)


def _wanted(evidence: Evidence, rules: Floats, settings: VerticalSettings) -> NDArray[np.bool_]:
    """Which amounts are recommended: those of controlled resources of which a sample was seen."""
    seen = (evidence.count > 0.0, evidence.peaks > 0.0)
    wanted = [
        (rules[:, PLACE[resource]] > 0.0) & (known | settings.recommend_unseen)
        for resource, known in zip(("cpu", "memory"), seen, strict=True)
    ]
    return np.column_stack([wanted[0]] * 3 + [wanted[1]] * 3)


def _bounded(amounts: Floats, rules: Floats) -> Floats:
    least_cpu, most_cpu, least_memory, most_memory = rules[:, PLACE["least_cpu"] : PLACE["most_memory"] + 1].T
    columns = [cap(amounts[:, i], least_cpu, most_cpu) for i in range(3)]
    columns += [cap(amounts[:, i], least_memory, most_memory) for i in range(3, 6)]
    return np.column_stack(columns)
