"""Amounts in proportion: limits that follow requests, and requests that keep a limit within a bound.

The arithmetic uses whole millicores and bytes, and integers of any size, as upstream does
(pkg/utils/vpa/limit_and_request_scaling.go). A result that does not fit into 64 bits becomes the largest that does, with a note.
"""

from functools import lru_cache

from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import CPU, MEMORY, Resources, at
from schemas import exact_quantity
from schemas.exact_quantity import MOST, Quantity
from schemas.names import Amounts


class UnscalableError(ArithmeticError):
    """Amounts that cannot be brought into proportion. The message is a sentence that names the amounts."""


@lru_cache(maxsize=4096)
def limit_amounts(requests: Amounts, limits: Amounts, recommended: Amounts) -> Amounts:
    """The limits that go with recommended requests, for amounts of events; None where there was no limit.

    The results are cached, because the pods of a workload are alike.
    """
    limit, request, wanted = (resource_lists.of_amounts(each) for each in (limits, requests, recommended))
    found = {resource: _proportional_of(resource, limit, request, wanted) for resource in (CPU, MEMORY)}
    return resource_lists.to_amounts({resource: amount for resource, amount in found.items() if amount is not None})


def limits(
    *, limit: Resources | None, request: Resources | None, recommended: Resources | None, default: Resources | None
) -> tuple[dict[str, Quantity] | None, tuple[str, ...]]:
    """The limits for CPU and memory that go with a recommendation, and upstream's notes on them."""
    found: dict[str, Quantity] = {}
    notes = []
    for resource in (CPU, MEMORY):
        lists = (at(each, resource) for each in (limit, request, recommended, default))
        amount, note = proportional(resource, *lists)
        if amount is not None:
            found[resource] = amount
        if note:
            notes.append(note)
    return (found, tuple(notes)) if found else (None, ())


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
        return None, f"{resource}: limit NOT set since originalLimit is nil or 0"
    if recommended is None or recommended.whole == 0:
        return None, f"{resource}: limit NOT set since recommendedRequest is nil or 0"
    if request is None or request.whole == 0 or request.milli == limit.milli:
        return recommended, ""
    amount, whole = scaled(resource, limit, by=recommended, over=request)
    return amount, "" if whole else f"{resource}: failed to keep limit to request ratio; capping limit to int64"


def _proportional_of(resource: str, limit: Resources, request: Resources, recommended: Resources) -> Quantity | None:
    return proportional(resource, limit.get(resource), request.get(resource), recommended.get(resource), None)[0]


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
    fits = -MOST - 1 <= result <= MOST
    result = result + (up and rest != 0) if fits else MOST
    return (exact_quantity.of_whole if memory else exact_quantity.of_milli)(result, amount.form), fits
