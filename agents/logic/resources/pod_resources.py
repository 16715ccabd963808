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
        return (*self.containers, *(each.container for each in self.init))


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
    init = [ContainerRequests(nano(each.container.requests), always=each.sidecar) for each in pod.init]
    if not own:
        return pod_requests.of_pod(containers, init)
    return pod_requests.of_pod(containers, init, nano(pod.overhead), nano(pod.requests))


def limited(pod: PodResources) -> dict[str, int]:
    """The limits in all. Overhead only counts where there is a limit. PodLimits in the same file."""
    containers = [ContainerRequests(nano(container.limits)) for container in pod.containers]
    init = [ContainerRequests(nano(each.container.limits), always=each.sidecar) for each in pod.init]
    total = pod_requests.of_pod(containers, init, pod_level=nano(pod.limits))
    for name, amount in nano(pod.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def nano(amounts: Resources | None) -> dict[str, int]:
    """The amounts as numbers."""
    return {name: amount.nano for name, amount in (amounts or {}).items()}


# The quality-of-service class that Kubernetes gives a pod. An in-place resize must not change it.
#
# Source: ComputePodQOS in Kubernetes' pkg/apis/core/v1/helper/qos. Amounts of zero count as not set. All init containers count,
# those that end as well as sidecars. Where the pod has requests or limits of its own, those of its containers do not count.


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
