"""The quality-of-service class that Kubernetes gives a pod. An in-place resize must not change it.

Source: ComputePodQOS in Kubernetes' pkg/apis/core/v1/helper/qos. Amounts of zero count as not set. All init containers count,
those that end as well as sidecars. Where the pod has requests or limits of its own, those of its containers do not count.
"""

from collections.abc import Iterable

from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts

_RESOURCES = ("cpu", "memory")
_EXACT = 1_000_000_000
"""CPU is compared in whole nanocores, so that sums of fractions are equal where Kubernetes finds them equal."""
_NOTHING = Amounts()


def service_class(containers: Iterable[ContainerSeen], requests: Amounts = _NOTHING, limits: Amounts = _NOTHING) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`. `containers`: all, init containers too; `requests`, `limits`: the pod's own."""
    whole = (requests, limits) != (_NOTHING, _NOTHING)
    pairs = [(requests, limits)] if whole else [(container.requests, container.limits) for container in containers]
    asked, most = _sums(request for request, _ in pairs), _sums(limit for _, limit in pairs)
    if not any(asked.values()) and not any(most.values()):
        return "BestEffort"
    limited = all(_sums((limit,))[resource] for _, limit in pairs for resource in _RESOURCES)
    return "Guaranteed" if limited and asked == most else "Burstable"


def _sums(amounts: Iterable[Amounts]) -> dict[str, int]:
    """Each resource in nanocores or bytes, so that zero means that it is not set."""
    listed = list(amounts)
    cpu = sum(round((each.cpu or 0.0) * _EXACT) for each in listed)
    return {"cpu": cpu, "memory": sum(each.memory or 0 for each in listed)}
