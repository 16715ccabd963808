"""Lists of amounts by resource, as in containers, recommendations and policies, read from manifests and from events."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas import exact_quantity
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.exact_quantity import ZERO, ZERO_BYTES, Form, Quantity
from schemas.names import Amounts
from schemas.units import Bytes, Cores

CPU = "cpu"
MEMORY = "memory"

Resources = Mapping[str, Quantity]
"""Amounts by the resource's name. None stands for a list that is missing, which Kubernetes distinguishes from an empty one."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container's current requests and limits."""

    name: str
    requests: Resources | None = None
    limits: Resources | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation for one container, as an entry of an object's containerRecommendations."""

    container: str
    target: Resources | None = None
    lower: Resources | None = None
    upper: Resources | None = None
    uncapped: Resources | None = None


def at(resources: Resources | None, resource: str) -> Quantity:
    """The amount of a resource, or zero, in the form that Kubernetes gives a zero of that resource."""
    amount = None if resources is None else resources.get(resource)
    if amount is not None:
        return amount
    return ZERO_BYTES if resource == MEMORY else ZERO


def read(value: object) -> dict[str, Quantity] | None:
    """A list of a manifest; None for null. Raises NotAQuantityError for an amount that is no quantity, TypeError for no list."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"a list of resources is an object, not {type(value).__name__}")
    return {str(name): exact_quantity.read(amount) for name, amount in value.items()}


def of_amounts(amounts: Amounts) -> dict[str, Quantity]:
    """The amounts of an event."""
    resources: dict[str, Quantity] = {}
    if amounts.cpu is not None:
        # Kubernetes' nanocores are finer than what we decide, so that rounding drops nothing but binary errors.
        resources[CPU] = exact_quantity.of_nano(round(amounts.cpu * 1_000_000_000), Form.DECIMAL)
    if amounts.memory is not None:
        resources[MEMORY] = exact_quantity.of_whole(int(amounts.memory), Form.BINARY)
    return resources


def to_amounts(resources: Resources) -> Amounts:
    """CPU and memory as events have them: whole millicores and bytes, the precision that a cluster keeps for limits."""
    cpu, memory = resources.get(CPU), resources.get(MEMORY)
    return Amounts(None if cpu is None else Cores(cpu.milli / 1000), None if memory is None else Bytes(memory.whole))


def set_amounts(amounts: Amounts) -> dict[str, Quantity] | None:
    """The amounts of an event; None if the event sets none."""
    return of_amounts(amounts) or None


def of_recommendation(entry: ContainerRecommendation) -> Advice:
    """The advice in an event."""
    target, lower, upper, uncapped = map(of_amounts, (entry.target, entry.lower, entry.upper, entry.uncapped))
    return Advice(entry.container, target, lower, upper, uncapped)
