"""The container policies of a VPA. What makes no sense is refused in a sentence that names the value and its place."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from schemas.names import Amounts
from schemas.policies.vertical import BoostKind, ContainerMode, ContainerPolicy, ControlledValues, StartupBoost
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube import amounts
from streams.clients.kube.vpa_spec import BoostSpec, ContainerSpec
from streams.clients.kube.watched_objects import Quantity

W = TypeVar("W", bound=StrEnum)
_RESOURCES = ("cpu", "memory")


def read(path: str, said: ContainerSpec) -> ContainerPolicy:
    """One entry. Raises ValueError."""
    if not said.container_name:
        raise ValueError(f"{path}.containerName is missing")
    least, most = _amounts(f"{path}.minAllowed", said.min_allowed), _amounts(f"{path}.maxAllowed", said.max_allowed)
    _refuse_crossed(path, least, most)
    least_bump = at_least(f"{path}.oomMinBumpUp", _number(f"{path}.oomMinBumpUp", said.oom_min_bump_up), 0)
    interval = f"{path}.memoryAggregationInterval"
    window = at_least(f"{interval}Seconds", said.memory_aggregation_interval_seconds, 1)
    windows = at_least(f"{interval}Count", said.memory_aggregation_interval_count, 1)
    return ContainerPolicy(
        container=said.container_name,
        min_allowed=least,
        max_allowed=most,
        mode=word(f"{path}.mode", said.mode, ContainerMode) or ContainerMode.AUTO,
        controlled_resources=None if said.controlled_resources is None else _resources(path, said.controlled_resources),
        controlled_values=word(f"{path}.controlledValues", said.controlled_values, ControlledValues)
        or ControlledValues.REQUESTS_AND_LIMITS,
        oom_ratio=_ratio(f"{path}.oomBumpUpRatio", said.oom_bump_up_ratio),
        oom_minimum=None if least_bump is None else Bytes(math.ceil(least_bump)),
        memory_window=None if window is None else Seconds(window),
        memory_windows=None if windows is None else int(windows),
        boost=boost(f"{path}.startupBoost", said.startup_boost),
    )


def boost(path: str, said: BoostSpec | None) -> StartupBoost | None:
    """A startup boost; None when nothing is boosted. Raises ValueError."""
    if said is None or said.cpu is None:
        return None
    kind = word(f"{path}.cpu.type", said.cpu.type, BoostKind) or BoostKind.FACTOR
    quantity = _number(f"{path}.cpu.quantity", said.cpu.quantity)
    missing = {BoostKind.FACTOR: ("factor", said.cpu.factor), BoostKind.QUANTITY: ("quantity", quantity)}[kind]
    if missing[1] is None:
        raise ValueError(f"{path}.cpu.{missing[0]} is missing, and the type is '{kind}'")
    duration = at_least(f"{path}.cpu.durationSeconds", said.cpu.duration_seconds, 0)
    return StartupBoost(
        kind=kind,
        factor=at_least(f"{path}.cpu.factor", said.cpu.factor, 1),
        quantity=None if quantity is None else Cores(quantity),
        duration=Seconds(duration or 0.0),
    )


def word(path: str, said: str | None, kind: type[W]) -> W | None:
    """One of the words of `kind`; None when nothing is said. Raises ValueError."""
    if not said:
        return None
    try:
        return kind(said)
    except ValueError:
        raise ValueError(f"{path} is '{said}'; there are {', '.join(kind)}") from None


def at_least(path: str, said: float | None, least: float) -> float | None:
    """A number that is not below `least`, or None. Raises ValueError."""
    if said is not None and said < least:
        raise ValueError(f"{path} is {said:g}; it must be at least {least:g}")
    return None if said is None else float(said)


def _amounts(path: str, said: Mapping[str, Quantity] | None) -> Amounts:
    """Of cpu and memory; other resources are nothing that can be recommended."""
    found = {name: _number(f"{path}.{name}", (said or {}).get(name)) for name in _RESOURCES}
    cpu, memory = (at_least(f"{path}.{name}", number, 0) for name, number in found.items())
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(math.ceil(memory)))


def _refuse_crossed(path: str, least: Amounts, most: Amounts) -> None:
    for name, low, high in (("cpu", least.cpu, most.cpu), ("memory", least.memory, most.memory)):
        if low is not None and high is not None and high < low:
            raise ValueError(f"{path}.maxAllowed.{name} is {high:g}, below minAllowed.{name}, which is {low:g}")


def _resources(path: str, said: list[str]) -> tuple[str, ...]:
    odd = [name for name in said if name not in _RESOURCES]
    if odd:
        raise ValueError(f"{path}.controlledResources names '{odd[0]}'; there are cpu and memory")
    return tuple(said)


def _ratio(path: str, said: Quantity | None) -> float | None:
    """In parts of a thousand, rounded up, as Kubernetes reads such a quantity."""
    number = at_least(path, _number(path, said), 1)
    return None if number is None else math.ceil(round(number * 1000, 6)) / 1000


def _number(path: str, said: Quantity | None) -> float | None:
    try:
        return None if said is None else amounts.number(str(said))
    except ValueError:
        raise ValueError(f"{path} is '{said}', which is no quantity") from None
