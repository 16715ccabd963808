"""A policy's rules for the estimate of one container, as numbers in the columns of a matrix, and those that `because` names.

Everything that may differ between containers is here: percentiles, margin, minimum, bounds, which resources are recommended. A
VPA object has no fields for some of these, and sets them by annotations (`schemas.policies.vpa_annotations`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan

import numpy as np

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.usage.buckets import power
from agents.logic.vertical.vertical_settings import ADAPTIVE, VerticalSettings
from schemas.bounds import AMOUNT_LIMIT
from schemas.names import Amounts
from schemas.policies import vpa_annotations
from schemas.policies.vertical import ContainerMode, ContainerPolicy, Tuning, UpdateMode
from schemas.policies.vpa import VpaChanged
from schemas.units import Bytes, Cores

# From histograms to VPA's amounts: percentile, margin, confidence, minimum, rounding.
# Each step is upstream's, including where it truncates. Amounts are whole millicores and whole bytes in float64 arrays, one
# element for each container.

MILLI = 1000.0
"""Millicores of a core."""


@dataclass(frozen=True, slots=True)
class ConfidenceBound:
    """amount * (1 + multiplier / confidence) ^ exponent: far away while little is known, close once much is."""

    multiplier: float
    exponent: int


LOWER = ConfidenceBound(0.001, -2)
UPPER = ConfidenceBound(1.0, 1)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One resource of many containers: percentiles as found, and the amounts made of them. One element for each container."""

    percentiles: tuple[Floats, Floats, Floats]
    """Lower, target, upper; in cores or bytes."""
    confidence: Floats
    minimum: Floats
    lower: Floats
    target: Floats
    upper: Floats
    """Amounts and the minimum are in millicores or bytes."""


def clamp(amounts: Floats) -> Floats:
    """An amount is a whole number from 0 to 1e14; what is no number (0 times infinity) is 0, as the minimum follows anyway."""
    whole = np.trunc(amounts)
    np.fmax(whole, 0.0, out=whole)
    np.fmin(whole, AMOUNT_LIMIT, out=whole)
    whole += 0.0  # truncation may leave -0
    return whole


def with_margin(amounts: Floats, margin: Floats | float) -> Floats:
    """An amount and its margin: base + int(base * margin)."""
    # Upstream cuts the margin to a whole number before it adds it.
    return clamp(amounts + clamp(amounts * margin))


def confidence(first: Floats, last: Floats, count: Floats, interval: float) -> Floats:
    """min((last - first) / interval, count / (interval in minutes)); one sample a minute for N days gives N."""
    return np.minimum((last - first) / interval, count / (interval / 60.0))


def with_confidence(amounts: Floats, sure: Floats, bound: ConfidenceBound) -> Floats:
    """A bound: amount * (1 + m / c) ^ e; c = 0 makes the factor 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A confidence of 0 makes the factor 0 or infinite.
        return clamp(amounts * power(1.0 + bound.multiplier / sure, bound.exponent))


def rounded(amounts: Floats, step: int) -> Floats:
    """Up to the next multiple of `step`; a step of 1 or less leaves the amounts."""
    return amounts if step <= 1 else np.ceil(amounts / step) * step


def estimate(percentiles: Floats, sure: Floats, *, margin: Floats, minimum: Floats) -> tuple[Floats, Floats, Floats]:
    """Lower, target and upper amounts by upstream's chain: percentile, margin, confidence, minimum.

    `percentiles` holds three of them in amounts, one on its first axis each; the other arguments have the shape of one of them.
    """
    # Every step works element by element, so several resources go through it at once as one more axis.
    lower, target, upper = with_margin(clamp(percentiles), margin)
    return (
        np.maximum(with_confidence(lower, sure, LOWER), minimum),
        np.maximum(target, minimum),
        np.maximum(with_confidence(upper, sure, UPPER), minimum),
    )


COLUMNS = (
    "lower_cpu",
    "target_cpu",
    "upper_cpu",
    "lower_memory",
    "target_memory",
    "upper_memory",
    "margin",
    "minimum_cpu",
    "minimum_memory",
    "least_cpu",
    "most_cpu",
    "least_memory",
    "most_memory",
    "cpu",
    "memory",
    "integer_cpu",
    "leak_growth",
    "silent",
    "adaptive",
    "risk_cpu",
    "risk_oom",
    "in_place",
)
"""Percentiles; margin; minimum (NaN: the share of the pod's); bounds (NaN: none); 1 where the resource is recommended, CPU
comes in whole cores, nothing is recommended at all, the policy `adaptive` decides; the risks that it may
take; 1 where pods are changed as they run. `leak_growth` is a share a day."""

PLACE = {name: place for place, name in enumerate(COLUMNS)}

LEAST = [PLACE["least_cpu"]] * 3 + [PLACE["least_memory"]] * 3
MOST = [PLACE["most_cpu"]] * 3 + [PLACE["most_memory"]] * 3
"""The columns of the bounds of lower bound, target and upper bound, of CPU and then of memory."""

INTEGER_CPU = "vpa-post-processor.kubernetes.io/{}_integerCPU"


_EVICTING = (UpdateMode.RECREATE, UpdateMode.AUTO)


@dataclass(frozen=True, slots=True)
class FoldingRules:
    """A policy's rules for folding usage; times in seconds."""

    window: float
    expires: float
    cpu_half_life: float
    memory_half_life: float


def entry_of(record: PolicyRecord | None, container: str, settings: VerticalSettings) -> ContainerPolicy:
    """The policy of a container, with its VPA's annotations; without its own settings if these are disabled."""
    entry = bounds(record, container)
    if not settings.per_vpa:
        entry = replace(entry, oom_ratio=None, oom_minimum=None, memory_window=None, memory_windows=None)
        return replace(entry, policy=None, tuning=Tuning())
    if record is None or record.policy.vpa is None or not record.policy.vpa.annotations:
        return entry
    vpa = record.policy.vpa
    policy = vpa_annotations.policy_of(vpa.annotations, container) or entry.policy
    return replace(entry, policy=policy, tuning=_annotated(vpa, container, entry.tuning))


def row(record: PolicyRecord | None, container: str, settings: VerticalSettings) -> list[float]:
    """The numbers for one container, in the order of COLUMNS."""
    entry = entry_of(record, container, settings)
    tuned = entry.tuning
    shares = [share for resource in ("cpu", "memory") for share in _percentiles(tuned, settings, resource)]
    controlled = entry.controlled_resources
    whole = settings.integer_cpu and _integer(record, container)
    return [
        *shares,
        _or(tuned.margin, settings.margin),
        math.nan if tuned.minimum.cpu is None else tuned.minimum.cpu * 1000.0,
        _or(tuned.minimum.memory, math.nan),
        *limits_of(entry, Amounts(settings.maximum_cpu, settings.maximum_memory)),
        *(float(controlled is None or resource in controlled) for resource in ("cpu", "memory")),
        float(whole),
        _or(tuned.leak_growth, settings.leak_growth),
        float(entry.mode is ContainerMode.OFF),
        float((entry.policy or settings.policy) == ADAPTIVE),
        _or(tuned.risk_cpu, settings.risk_cpu),
        _or(tuned.risk_oom, settings.risk_oom),
        float(record is None or record.policy.update_mode not in _EVICTING),
    ]


def _percentiles(tuned: Tuning, settings: VerticalSettings, resource: str) -> tuple[float, float, float]:
    """The percentiles of lower bound, target and upper bound. A target beyond its own bound takes the bound with it."""
    lower, target, upper = (
        _or(getattr(tuned, name), getattr(settings, name))
        for name in (f"{bound}_{resource}_percentile" for bound in ("lower", "target", "upper"))
    )
    # So the bound keeps its distance by confidence. If only the amounts were put in order, a bound would be the target itself,
    # and a pod would be changed with every step of it.
    return min(lower, target), target, max(upper, target)


def folding(record: PolicyRecord | None, container: str, settings: VerticalSettings) -> FoldingRules:
    """How the usage of one container is folded."""
    entry = entry_of(record, container, settings)
    window = _or(entry.memory_window, settings.memory_window)
    return FoldingRules(
        window,
        window * _or(entry.memory_windows, settings.memory_windows),
        _or(entry.tuning.cpu_half_life, settings.cpu_half_life),
        _or(entry.tuning.memory_half_life, settings.memory_half_life),
    )


def _integer(record: PolicyRecord | None, container: str) -> bool:
    vpa = record.policy.vpa if record else None
    return vpa is not None and vpa.annotations.get(INTEGER_CPU.format(container)) == "true"


def _annotated(vpa: VpaChanged, container: str, tuned: Tuning) -> Tuning:
    """Tuning with annotations; a container's own ones take precedence over those of `*`."""
    own = {
        **vpa_annotations.numbers(vpa.annotations, "*"),
        **vpa_annotations.numbers(vpa.annotations, container),
    }
    cpu, memory = own.pop("minimum_cpu", None), own.pop("minimum_memory", None)
    minimum = Amounts(
        tuned.minimum.cpu if cpu is None else Cores(cpu),
        tuned.minimum.memory if memory is None else Bytes(int(memory)),
    )
    return replace(tuned, minimum=minimum, **own)  # type: ignore[arg-type]  # names are fields, and all are numbers


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


_LEAST = 1024
"""Lines below which nothing is tidied."""


class RuleLines:
    """Lines of `width` numbers, identified by their bits."""

    def __init__(self, width: int) -> None:
        self._lines: Floats = np.zeros((0, width))
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, places: Indices) -> Floats:
        return self._lines[places]

    def of(self, places: Indices) -> Floats:
        """The lines at these places; if all are the same line, it is there once and read-only."""
        if len(places) and (places == places[0]).all():
            # Most fleets have one line of rules, and a copy of it for each container would be megabytes.
            return np.broadcast_to(self._lines[places[0]], (len(places), self._lines.shape[1]))
        return self._lines[places]

    def column(self, places: Indices, column: int) -> Floats:
        """One number of each of these lines."""
        return np.asarray(self._lines[places, column])

    def item(self, place: int, column: int) -> float:
        """One number."""
        return self._lines.item(place, column)

    def crowded(self, users: int) -> bool:
        """Whether most lines must be unused with so many users."""
        return len(self) > max(_LEAST, 2 * users)

    def place(self, numbers: Sequence[float]) -> int:
        """The place of a line; added if new."""
        line = np.array(numbers, np.float64)
        # By bits, because NaN stands for "not set" and equals nothing, not even itself.
        place = self._places.setdefault(line.tobytes(), len(self._places))
        if place == len(self._lines):
            more = np.zeros((max(16, place // 8), self._lines.shape[1]))
            self._lines = np.concatenate([self._lines, more])
        self._lines[place] = line
        return place

    def tidy(self, wanted: Indices) -> Indices:
        """Drop unused lines; returns the new places of the others."""
        used, places = np.unique(wanted, return_inverse=True)
        self._lines = self._lines[used]
        self._places = {line.tobytes(): place for place, line in enumerate(self._lines)}
        return np.asarray(places, np.int64)


NOTHING = Amounts()


def limits_of(entry: ContainerPolicy, maximum: Amounts = NOTHING) -> tuple[float, float, float, float]:
    """Least and most millicores, least and most bytes; NaN where nothing is set."""
    least, most = entry.min_allowed, entry.max_allowed
    cpu = most.cpu if most.cpu is not None else maximum.cpu
    memory = most.memory if most.memory is not None else maximum.memory
    return (_bound(least.cpu, 1000.0), _bound(cpu, 1000.0), _bound(least.memory, 1.0), _bound(memory, 1.0))


def _bound(amount: float | None, scale: float) -> float:
    return round(amount * scale, 6) if amount else float("nan")  # zero means not set, as in upstream


def cap(amounts: Floats, least: Floats, most: Floats) -> Floats:
    """min(max(amount, least), most), where a bound that is NaN is none; what is NaN stays so."""
    return np.where(np.isnan(amounts), np.nan, np.fmin(np.fmax(amounts, least), most))


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
