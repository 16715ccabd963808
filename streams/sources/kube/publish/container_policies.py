"""The container policies of a VPA. An invalid value is refused in a sentence that names it and its place."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from schemas import bounds
from schemas.names import Amounts
from schemas.policies.vertical import BoostKind, ContainerMode, ContainerPolicy, ControlledValues, StartupBoost
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube import quantities
from streams.clients.kube.vpa_spec import ContainerPolicySpec, StartupBoostSpec
from streams.clients.kube.watched_objects import QuantityInJson
from streams.sources.kube.publish.enumerations import optional_member

W = TypeVar("W", bound=StrEnum)
_RESOURCES = ("cpu", "memory")


def read(path: str, spec: ContainerPolicySpec) -> ContainerPolicy:
    """One entry, which stands at `path` in the object. Raises ValueError."""
    if not spec.container_name:
        raise ValueError(f"{path}.containerName is missing")
    lowest, highest = _amounts(f"{path}.minAllowed", spec.min_allowed), _amounts(f"{path}.maxAllowed", spec.max_allowed)
    _refuse_crossed(path, lowest, highest)
    bump = at_least(f"{path}.oomMinBumpUp", _number(f"{path}.oomMinBumpUp", spec.oom_min_bump_up), 0)
    interval = f"{path}.memoryAggregationInterval"
    window = at_least(f"{interval}Seconds", spec.memory_aggregation_interval_seconds, 1)
    windows = at_least(f"{interval}Count", spec.memory_aggregation_interval_count, 1)
    return ContainerPolicy(
        container=spec.container_name,
        min_allowed=lowest,
        max_allowed=highest,
        mode=optional_member(f"{path}.mode", spec.mode, ContainerMode) or ContainerMode.AUTO,
        controlled_resources=None if spec.controlled_resources is None else _resources(path, spec.controlled_resources),
        controlled_values=optional_member(f"{path}.controlledValues", spec.controlled_values, ControlledValues)
        or ControlledValues.REQUESTS_AND_LIMITS,
        oom_ratio=_ratio(f"{path}.oomBumpUpRatio", spec.oom_bump_up_ratio),
        oom_minimum=None if bump is None else Bytes(math.ceil(bump)),
        memory_window=None if window is None else Seconds(window),
        memory_windows=None if windows is None else int(windows),
        boost=boost(f"{path}.startupBoost", spec.startup_boost),
    )


def boost(path: str, spec: StartupBoostSpec | None) -> StartupBoost | None:
    """A startup boost; None when nothing is boosted. Raises ValueError."""
    if spec is None or spec.cpu is None:
        return None
    kind = optional_member(f"{path}.cpu.type", spec.cpu.type, BoostKind) or BoostKind.FACTOR
    quantity = at_least(f"{path}.cpu.quantity", _number(f"{path}.cpu.quantity", spec.cpu.quantity), 0, bounds.MOST_CORES)
    missing = {BoostKind.FACTOR: ("factor", spec.cpu.factor), BoostKind.QUANTITY: ("quantity", quantity)}[kind]
    if missing[1] is None:
        raise ValueError(f"{path}.cpu.{missing[0]} is missing, and the type is '{kind}'")
    duration = at_least(f"{path}.cpu.durationSeconds", spec.cpu.duration_seconds, 0, bounds.MOST_INT32)
    return StartupBoost(
        kind=kind,
        factor=at_least(f"{path}.cpu.factor", spec.cpu.factor, 1, bounds.MOST_INT32),
        quantity=None if quantity is None else Cores(quantity),
        duration=Seconds(duration or 0.0),
    )


def at_least(path: str, number: float | None, least: float, most: float = bounds.MOST_NUMBER) -> float | None:
    """The number, or None. Raises ValueError for a number below `least` or above `most`."""
    if number is None:
        return None
    if number < least:
        raise ValueError(f"{path} is {number:g}; it must be at least {least:g}")
    if number > most:
        raise ValueError(f"{path} is {number:g}; more than {most:g} is not possible")
    return float(number)


def _amounts(path: str, given: Mapping[str, QuantityInJson] | None) -> Amounts:
    # Other resources are ignored, because nothing can be recommended for them.
    amounts = {name: _number(f"{path}.{name}", (given or {}).get(name)) for name in _RESOURCES}
    cpu = at_least(f"{path}.cpu", amounts["cpu"], 0, bounds.MOST_CORES)
    memory = at_least(f"{path}.memory", amounts["memory"], 0, bounds.MOST_BYTES)
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(math.ceil(memory)))


def _refuse_crossed(path: str, lowest: Amounts, highest: Amounts) -> None:
    for name, low, high in (("cpu", lowest.cpu, highest.cpu), ("memory", lowest.memory, highest.memory)):
        if low is not None and high is not None and high < low:
            raise ValueError(f"{path}.maxAllowed.{name} is {high:g}, below minAllowed.{name}, which is {low:g}")


def _resources(path: str, names: list[str]) -> tuple[str, ...]:
    odd = [name for name in names if name not in _RESOURCES]
    if odd:
        raise ValueError(f"{path}.controlledResources names '{odd[0]}'; there are cpu and memory")
    return tuple(names)


def _ratio(path: str, quantity: QuantityInJson | None) -> float | None:
    number = at_least(path, _number(path, quantity), 1)
    # To the thousandth, rounded up, as Kubernetes reads such a quantity.
    return None if number is None else math.ceil(round(number * 1000, 6)) / 1000


def _number(path: str, quantity: QuantityInJson | None) -> float | None:
    try:
        return None if quantity is None else quantities.parse(str(quantity))
    except ValueError:
        raise ValueError(f"{path} is '{quantity}', which is no quantity") from None
