"""The entries of `because` about a container's rules that differ from the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan

from agents.logic.vertical.estimate_rules import COLUMNS, PLACE
from agents.logic.vertical.percentile_estimation import MILLI
from agents.logic.vertical.vertical_settings import VerticalSettings

_BOUNDS = ("lower", "target", "upper")


@dataclass(frozen=True, slots=True)
class _ResourceRules:
    """The columns of one resource's rules, and the percentiles of the settings."""

    shares: slice
    least: int
    most: int
    scale: float
    own: list[float]

    def differing(self, rules: Sequence[float]) -> dict[str, object]:
        """The differences in these rules of a container: percentiles, and bounds in cores and bytes."""
        differences: dict[str, object] = {}
        shares = list(rules[self.shares])
        if shares != self.own:
            differences["shares"] = dict(zip(_BOUNDS, shares, strict=True))
        for name, column in (("min_allowed", self.least), ("max_allowed", self.most)):
            bound = rules[column]
            if not isnan(bound):
                differences[name] = bound / self.scale
        return differences


@dataclass(frozen=True, slots=True)
class RuleExplanations:
    """The differing rules of a container for `because`, as names and values.

    `container` goes beside the numbers of CPU and memory, `cpu` and `memory` into them.
    """

    container: Mapping[str, object]
    cpu: Mapping[str, object]
    memory: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OwnRules:
    """The rules of the settings, to compare a container's rules with."""

    margin: float
    cpu: _ResourceRules
    memory: _ResourceRules

    def differing(self, rules: Sequence[float]) -> RuleExplanations:
        """The differing rules of one container; `rules` has a value for each of COLUMNS."""
        container: dict[str, object] = {}
        margin = rules[PLACE["margin"]]
        if margin != self.margin:
            container["margin"] = margin
        if rules[PLACE["integer_cpu"]]:
            container["integer_cpu"] = True
        return RuleExplanations(container, self.cpu.differing(rules), self.memory.differing(rules))


@lru_cache(maxsize=16)
def own_rules(settings: VerticalSettings) -> OwnRules:
    """The rules of these settings."""

    def rules(resource: str, scale: float) -> _ResourceRules:
        first = COLUMNS.index(f"lower_{resource}")
        own = [float(getattr(settings, f"{bound}_{resource}_percentile")) for bound in _BOUNDS]
        return _ResourceRules(slice(first, first + 3), PLACE[f"least_{resource}"], PLACE[f"most_{resource}"], scale, own)

    return OwnRules(float(settings.margin), rules("cpu", MILLI), rules("memory", 1.0))
