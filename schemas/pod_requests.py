"""What a pod asks of a node: one amount a resource, out of its containers, init containers, sidecars, overhead and resizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

IntegerAmounts = Mapping[str, int]
"""Whole amounts by resource: 'cpu' in thousandths of a core, all others in their own unit (bytes, pieces)."""

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"
HUGE_PAGES = "hugepages-"

NONE: IntegerAmounts = {}


@dataclass(frozen=True, slots=True)
class ContainerResize:
    """What the kubelet says of an in-place resize. `infeasible`: it will never be done, so the new request counts for nothing."""

    allocated: IntegerAmounts = field(default_factory=dict)
    actual: IntegerAmounts = field(default_factory=dict)
    infeasible: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """A container as far as its requests go. `always`: an init container with restart policy Always, which is a sidecar."""

    requests: IntegerAmounts
    always: bool = False
    resize: ContainerResize | None = None

    def effective(self) -> IntegerAmounts:
        """Its requests, and while a resize runs the largest of the wanted, the allocated and the actual.

        Source: determineContainerReqs in k8s.io/component-helpers, resource/helpers.go.
        """
        if self.resize is None:
            return self.requests
        granted = _largest(self.resize.allocated, self.resize.actual)
        return granted if self.resize.infeasible else _largest(granted, self.requests)


def of_pod(
    containers: Iterable[ContainerRequests],
    init: Iterable[ContainerRequests] = (),
    overhead: IntegerAmounts = NONE,
    pod_level: IntegerAmounts = NONE,
) -> dict[str, int]:
    """What a pod asks for, by resource.

    The containers and sidecars run together; each init container runs beside the sidecars started before it. Requests of the
    whole pod take the place of that sum for CPU, memory and huge pages, also when they are lower; overhead is added last.
    Source: PodRequests in k8s.io/component-helpers, resource/helpers.go.
    """
    together: dict[str, int] = {}
    for container in containers:
        _add(together, container.effective())
    sidecars: dict[str, int] = {}
    starting: IntegerAmounts = {}
    for container in init:
        amounts = container.effective()
        if container.always:
            _add(together, amounts)
            _add(sidecars, amounts)
            # A sidecar that starts later does not count beside an init container that has ended before.
            starting = _largest(starting, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, amounts)
            starting = _largest(starting, beside)
    total = dict(_largest(together, starting))
    total.update({name: amount for name, amount in pod_level.items() if name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)})
    _add(total, overhead)
    return total


def _add(total: dict[str, int], amounts: IntegerAmounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _largest(first: IntegerAmounts, second: IntegerAmounts) -> IntegerAmounts:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in (*first, *(n for n in second if n not in first))}
