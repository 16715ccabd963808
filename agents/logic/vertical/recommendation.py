"""The recommendation for many containers at once, and the words that say it for one workload.

`because` holds what a person needs to redo the sum: percentiles found, margin, confidence, history, minimum, caps.
"""

from dataclasses import dataclass, fields
from datetime import timedelta
from math import isnan

import numpy as np
from numpy.typing import NDArray

from agents.logic.tables.rows import Floats, Indices
from agents.logic.turns import EPOCH
from agents.logic.usage.histograms import NEVER
from agents.logic.usage.usage import Usage
from agents.logic.vertical.capping import cap
from agents.logic.vertical.estimation import MILLI, Estimate, estimate_cpu, estimate_memory
from agents.logic.vertical.members import Members
from agents.logic.vertical.settings import VerticalSettings
from schemas.decisions import ContainerRecommendation
from schemas.names import Amounts
from schemas.units import Bytes, Cores

AMOUNTS = ("lower_cpu", "target_cpu", "upper_cpu", "lower_memory", "target_memory", "upper_memory")
"""The amounts of a container after capping, in millicores and bytes; NaN where no sample was seen."""

_TARGETS = (1, 4)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Containers in the order of `rows`; `amounts` has one column for each of AMOUNTS."""

    rows: Indices
    cpu: Estimate
    memory: Estimate
    amounts: Floats
    caps: Floats

    def moved(self, said: Floats, step: float) -> NDArray[np.bool_]:
        """Rows whose target is another than `said`, or whose bounds moved by `step` of themselves."""
        known = ~np.isnan(self.amounts)
        change = np.where(known & ~np.isnan(said), np.abs(self.amounts - said), np.where(known == np.isnan(said), np.inf, 0.0))
        allowed = np.nan_to_num(np.abs(said) * step)
        allowed[:, _TARGETS] = 0.0
        return np.asarray((change > allowed).any(axis=1))


def recommend(usage: Usage, members: Members, rows: Indices, settings: VerticalSettings) -> Recommendation:
    """The sum, for all rows at once."""
    siblings = members.siblings(rows)
    cpu = estimate_cpu(usage, rows, siblings, settings)
    memory = estimate_memory(usage, rows, siblings, settings)
    caps = members.caps[rows]
    amounts = np.column_stack(
        [cap(a, caps[:, 0], caps[:, 1]) for a in (cpu.lower, cpu.target, cpu.upper)]
        + [cap(a, caps[:, 2], caps[:, 3]) for a in (memory.lower, memory.target, memory.upper)]
    )
    amounts[usage.aggregates["count"][rows] == 0, :3] = np.nan
    amounts[usage.aggregates.floats("memory_total")[rows] == 0.0, 3:] = np.nan
    return Recommendation(rows, cpu, memory, amounts, caps)


def container(done: Recommendation, place: int, name: str) -> ContainerRecommendation:
    """The four amounts of the container at `place`."""
    lower_cpu, cpu, upper_cpu, lower_memory, memory, upper_memory = done.amounts[place].tolist()
    uncapped_cpu = cpu if isnan(cpu) else done.cpu.target.item(place)
    uncapped_memory = memory if isnan(memory) else done.memory.target.item(place)
    return ContainerRecommendation(
        container=name,
        lower=_amounts(lower_cpu, lower_memory),
        target=_amounts(cpu, memory),
        upper=_amounts(upper_cpu, upper_memory),
        uncapped=_amounts(uncapped_cpu, uncapped_memory),
    )


def reasons(usage: Usage, done: Recommendation, place: int) -> dict[str, object]:
    """The numbers under the amounts of the container at `place`."""
    aggregates, row = usage.aggregates, int(done.rows[place])
    least_cpu, most_cpu, least_memory, most_memory = done.caps[place].tolist()
    return {
        "samples": aggregates.whole("count").item(row),
        "first": _time(aggregates.floats("first").item(row)),
        "last": _time(aggregates.floats("last").item(row)),
        "cpu": _resource(done.cpu, place, MILLI, (least_cpu, most_cpu)),
        "memory": _resource(done.memory, place, 1.0, (least_memory, most_memory)),
    }


def rules(settings: VerticalSettings) -> dict[str, object]:
    """The settings that the sum depends on."""
    names = [f.name for f in fields(settings) if f.name not in {"interval", "heartbeat", "bounds_step"}]
    return {name: getattr(settings, name) for name in names}


def _resource(estimate: Estimate, place: int, scale: float, caps: tuple[float, float]) -> dict[str, object]:
    lower, target, upper = (found.item(place) for found in estimate.percentiles)
    return {
        "percentiles": {"lower": lower, "target": target, "upper": upper},
        "confidence": estimate.confidence.item(place),
        "minimum": estimate.minimum.item(place) / scale,
        "min_allowed": None if isnan(caps[0]) else caps[0] / scale,
        "max_allowed": None if isnan(caps[1]) else caps[1] / scale,
    }


def _amounts(cpu: float, memory: float) -> Amounts:
    return Amounts(
        cpu=None if isnan(cpu) else Cores(cpu / MILLI),
        memory=None if isnan(memory) else Bytes(int(memory)),
    )


def _time(seconds: float) -> str | None:
    if seconds == NEVER:
        return None
    return (EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
