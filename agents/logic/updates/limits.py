"""Limits that keep their ratio to requests, as upstream does: a limit grows and shrinks with its request.

Works on one container. A limit that is not set stays not set. Bounds on requests do not bound the scaled limit. Rounds down, in
whole millicores and whole bytes.
"""

import math

from schemas.names import Amounts
from schemas.units import Bytes, Cores


def proportional(requests: Amounts, limits: Amounts, target: Amounts) -> Amounts:
    """The limits for a container that has `requests` and `limits` and is to request `target`; None where none is to be set.

    new limit = floor(limit * target / request); it equals the target when there was no request, or request and limit were equal.
    """
    cpu = _scaled(_milli(requests.cpu), _milli(limits.cpu), _milli(target.cpu))
    memory = _scaled(requests.memory, limits.memory, target.memory)
    return Amounts(
        cpu=None if cpu is None else Cores(cpu / 1000),
        memory=None if memory is None else Bytes(memory),
    )


def _scaled(request: int | None, limit: int | None, target: int | None) -> int | None:
    if not limit or not target:
        return None
    if not request or request == limit:
        return target
    return limit * target // request


def _milli(cores: Cores | None) -> int | None:
    """Whole millicores, rounded up as Kubernetes does."""
    return None if cores is None else math.ceil(cores * 1000 - 1e-6)
