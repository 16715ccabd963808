"""How large a tenant's object may be: within the bounds of its fields, and so many bytes in its record."""

from collections.abc import Callable
from typing import TypeVar

from schemas import bounds, event_bounds
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.vpa import VpaChanged

P = TypeVar("P", EhpaChanged, TimeSeriesPredictionChanged, VpaChanged)


def excess(policy: P, size: Callable[[P], int]) -> str:
    """The bound that a policy exceeds; empty if it exceeds none. `size` gives the bytes of a policy's record."""
    fault = event_bounds.fault(policy)
    if fault is not None:
        where, what = fault
        return f"{where.lstrip('.')} {what}"
    written = size(policy)
    if written > bounds.MOST_OBJECT_BYTES:
        return f"it takes {written} bytes; more than {bounds.MOST_OBJECT_BYTES} are not kept of one object"
    return ""
