"""Limits follow requests: a container keeps the ratio that its owner gave it. In whole millicores and bytes, as upstream."""

from schemas.names import Amounts
from schemas.units import Bytes, Cores

_MOST = 2**63 - 1
"""Kubernetes' largest whole number of millicores or bytes."""


def proportional(requests: Amounts, limits: Amounts, recommended: Amounts) -> Amounts:
    """The limits that go with `recommended`; None where there was no limit, or nothing is recommended."""
    cpu = scaled(_milli(limits.cpu), _milli(requests.cpu), _milli(recommended.cpu))
    memory = scaled(_bytes(limits.memory), _bytes(requests.memory), _bytes(recommended.memory))
    return Amounts(None if cpu is None else Cores(cpu / 1000), None if memory is None else Bytes(memory))


def scaled(limit: int, request: int, recommended: int) -> int | None:
    """floor(limit * recommended / request); the recommendation itself if there was no request, or it equalled the limit.

    Zero stands for "not set", as in upstream: without a limit, or with nothing recommended, there is no limit.
    """
    if not limit or not recommended:
        return None
    if not request or request == limit:
        return recommended
    return min(limit * recommended // request, _MOST)


def _milli(cores: float | None) -> int:
    return 0 if cores is None else round(cores * 1000)


def _bytes(memory: float | None) -> int:
    return 0 if memory is None else int(memory)
