"""The quality-of-service class that Kubernetes gives a pod. An in-place resize must not change it."""

from collections.abc import Iterable

from schemas.facts.pods import ContainerSeen


def service_class(containers: Iterable[ContainerSeen]) -> str:
    """`Guaranteed` if every request is set and equals its limit, `BestEffort` if nothing is set, else `Burstable`."""
    pairs = [(getattr(c.requests, r), getattr(c.limits, r)) for c in containers for r in ("cpu", "memory")]
    if all(request is None and limit is None for request, limit in pairs):
        return "BestEffort"
    return "Guaranteed" if all(limit is not None and limit == request for request, limit in pairs) else "Burstable"
