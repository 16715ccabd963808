"""All that a pod asks for, container by container and as a whole, and the sums that the API server makes of it.

Sums are in billionths of a unit, as exact as quantities are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import Container, Resources
from schemas import pod_requests
from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.names import Amounts
from schemas.pod_requests import CPU, HUGE_PAGES, MEMORY, ContainerRequests

Sums = Mapping[str, int]
"""Billionths of a unit, by resource."""


@dataclass(frozen=True, slots=True)
class InitContainer:
    """An init container. `sidecar`: it has restart policy Always and runs beside the containers."""

    container: Container
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod asks for. `requests` and `limits` are the pod's own; None where it has none.

    `stated`: the spec has a `resources` object of the pod itself, be it an empty one.
    """

    containers: tuple[Container, ...]
    init: tuple[InitContainer, ...] = ()
    requests: Resources | None = None
    limits: Resources | None = None
    overhead: Resources | None = None
    stated: bool = False

    @property
    def has_own(self) -> bool:
        """Whether amounts of the pod itself are set. IsPodLevelResourcesSet in k8s.io/component-helpers, resource/helpers.go."""
        return any(is_of_pods(name) for amounts in (self.requests, self.limits) for name in amounts or {})

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """The containers, then the init containers."""
        return (*self.containers, *(starter.container for starter in self.init))


def of_fact(pod: PodChanged, changed: Mapping[str, tuple[Amounts, Amounts]] | None = None) -> PodResources:
    """What a pod asks for as far as its fact says, with the requests and limits of the containers that are `changed`."""
    new = changed or {}

    def of(seen: ContainerSeen) -> Container:
        requests, limits = new.get(seen.name, (seen.requests, seen.limits))
        return Container(seen.name, resource_lists.of_amounts(requests), resource_lists.of_amounts(limits))

    own, most = resource_lists.set_amounts(pod.requests), resource_lists.set_amounts(pod.limits)
    init = tuple(InitContainer(of(container), sidecar=container.sidecar) for container in pod.init_containers)
    return PodResources(tuple(map(of, pod.containers)), init, own, most, stated=own is not None or most is not None)


def is_of_pods(resource: str) -> bool:
    """Whether a pod itself may ask for this resource, and not only its containers."""
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES)


def requested(pod: PodResources, *, own: bool = True) -> dict[str, int]:
    """What the pod requests in all; without its `own` amounts and overhead, what its containers do.

    PodRequests and AggregateContainerRequests in k8s.io/component-helpers, resource/helpers.go.
    """
    containers = [ContainerRequests(nano(container.requests)) for container in pod.containers]
    init = [ContainerRequests(nano(starter.container.requests), always=starter.sidecar) for starter in pod.init]
    if not own:
        return pod_requests.of_pod(containers, init)
    return pod_requests.of_pod(containers, init, nano(pod.overhead), nano(pod.requests))


def limited(pod: PodResources) -> dict[str, int]:
    """The limits in all. PodLimits in the same file."""
    containers = [ContainerRequests(nano(container.limits)) for container in pod.containers]
    init = [ContainerRequests(nano(starter.container.limits), always=starter.sidecar) for starter in pod.init]
    total = pod_requests.of_pod(containers, init, pod_level=nano(pod.limits))
    # A pod without a limit has none with its overhead either.
    for name, amount in nano(pod.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def nano(amounts: Resources | None) -> dict[str, int]:
    """The amounts as numbers."""
    return {name: amount.nano for name, amount in (amounts or {}).items()}


_RESOURCES = ("cpu", "memory")
# CPU is compared in whole nanocores, so that sums of fractions are equal where Kubernetes finds them equal.
_EXACT = 1_000_000_000
_NOTHING = Amounts()


def service_class(containers: Iterable[ContainerSeen], requests: Amounts = _NOTHING, limits: Amounts = _NOTHING) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, the quality-of-service class, which an in-place resize must not change.

    `containers` are all, init containers that end as well as sidecars; `requests` and `limits` are the pod's own. Source:
    ComputePodQOS in Kubernetes' pkg/apis/core/v1/helper/qos.
    """
    # Where the pod has amounts of its own, those of its containers do not count.
    whole = (requests, limits) != (_NOTHING, _NOTHING)
    pairs = [(requests, limits)] if whole else [(container.requests, container.limits) for container in containers]
    asked, most = _sums(request for request, _ in pairs), _sums(limit for _, limit in pairs)
    # An amount of zero counts as not set.
    if not any(asked.values()) and not any(most.values()):
        return "BestEffort"
    limited = all(_sums((limit,))[resource] for _, limit in pairs for resource in _RESOURCES)
    return "Guaranteed" if limited and asked == most else "Burstable"


def _sums(amounts: Iterable[Amounts]) -> dict[str, int]:
    """Each resource in nanocores or bytes, so that zero means that it is not set."""
    listed = list(amounts)
    cpu = sum(round((amount.cpu or 0.0) * _EXACT) for amount in listed)
    return {"cpu": cpu, "memory": sum(amount.memory or 0 for amount in listed)}
