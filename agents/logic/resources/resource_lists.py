"""Lists of amounts by resource, as in containers, recommendations and policies, read from manifests and from events."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from schemas import exact_quantity, units
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.exact_quantity import MOST, ZERO, ZERO_BYTES, Form, Quantity
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


def in_words(resource: str, *nanos: int) -> list[str]:
    """Amounts of a resource in billionths, for people, who can tell those that differ apart."""
    return units.amount_texts(resource, *(nano / 10**9 for nano in nanos))


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


# Amounts in proportion: limits that follow requests, and requests that keep a limit within a bound.
# The arithmetic uses whole millicores and bytes, and integers of any size, as upstream does
# (pkg/utils/vpa/limit_and_request_scaling.go). A result that does not fit into 64 bits becomes the largest that does, with a
# note.


class UnscalableError(ArithmeticError):
    """Amounts that cannot be brought into proportion. The message is a sentence that names the amounts."""


# The pods of a workload are alike, so that most of them ask for what another one has just asked for.
@lru_cache(maxsize=4096)
def limit_amounts(requests: Amounts, limits: Amounts, recommended: Amounts) -> Amounts:
    """The limits that go with recommended requests, for amounts of events; None where there was no limit."""
    limit, request, wanted = map(of_amounts, (limits, requests, recommended))
    scaled_limits = {
        resource: proportional(resource, limit.get(resource), request.get(resource), wanted.get(resource), None)[0]
        for resource in (CPU, MEMORY)
    }
    return to_amounts({resource: amount for resource, amount in scaled_limits.items() if amount is not None})


def limits(
    *, limit: Resources | None, request: Resources | None, recommended: Resources | None, default: Resources | None
) -> tuple[dict[str, Quantity] | None, tuple[str, ...]]:
    """The limits for CPU and memory that go with a recommendation, and upstream's notes on them."""
    amounts: dict[str, Quantity] = {}
    notes = []
    for resource in (CPU, MEMORY):
        amount, note = proportional(resource, *(at(listed, resource) for listed in (limit, request, recommended, default)))
        if amount is not None:
            amounts[resource] = amount
        if note:
            notes.append(note)
    return (amounts, tuple(notes)) if amounts else (None, ())


def proportional(
    resource: str,
    limit: Quantity | None,
    request: Quantity | None,
    recommended: Quantity | None,
    default: Quantity | None,
) -> tuple[Quantity | None, str]:  # fmt: skip
    """The limit in the same proportion to `recommended` as `limit` (or the default) to `request`, and a note; None if none."""
    if limit is None or (limit.whole == 0 and default is not None):
        limit = default
    if limit is None or limit.whole == 0:
        # Upstream's own words: its note stands in the annotation of the pod.
        return None, f"{resource}: limit NOT set since originalLimit is nil or 0"
    if recommended is None or recommended.whole == 0:
        return None, f"{resource}: limit NOT set since recommendedRequest is nil or 0"
    # Without a request there is no proportion, and Kubernetes takes the limit for the request.
    if request is None or request.whole == 0 or request.milli == limit.milli:
        return recommended, ""
    amount, whole = scaled(resource, limit, by=recommended, over=request)
    return amount, "" if whole else f"{resource}: failed to keep limit to request ratio; capping limit to int64"


def boundary(
    resource: str,
    request: Quantity | None,
    limit: Quantity | None,
    bound: Quantity | None,
    default: Quantity | None,
) -> Quantity | None:  # fmt: skip
    """The request whose proportional limit is `bound`; zero if there is no limit, so that nothing bounds the request."""
    if limit is None or (limit.whole == 0 and default is not None):
        limit = default
    if limit is None or limit.whole == 0:
        # A zero bounds nothing.
        return exact_quantity.ZERO
    if request is None or request.whole == 0 or bound is None:
        return bound
    return scaled(resource, request, by=bound, over=limit)[0]


def scaled(resource: str, amount: Quantity, *, by: Quantity, over: Quantity, up: bool = False) -> tuple[Quantity, bool]:
    """Give amount * by / over in the amount's form, rounded down or `up`; and whether that fits into 64 bits."""
    memory = resource == MEMORY
    divisor = over.whole if memory else over.milli
    if divisor == 0:
        raise UnscalableError(f"'{amount.text}' cannot be scaled by '{by.text}' over '{over.text}' of {resource}")
    product = amount.whole * by.whole if memory else amount.milli * by.milli
    result, rest = divmod(product, divisor)
    # Quantities of Kubernetes are of 64 bits, and Python's numbers know no end.
    fits = -MOST - 1 <= result <= MOST
    result = result + (up and rest != 0) if fits else MOST
    return (exact_quantity.of_whole if memory else exact_quantity.of_milli)(result, amount.form), fits
