"""The class of service against the rules of Kubernetes, written down a second time and read the other way round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.resources.pod_resources import service_class
from schemas.facts.pods import ContainerSeen
from schemas.names import Amounts
from schemas.units import Bytes, Cores

CPU = st.sampled_from([None, 0.0, 0.1, 0.2, 0.3])
MEMORY = st.sampled_from([None, 0, 1 << 20, 1 << 30])


def given_amounts(cpu: float | None, memory: int | None) -> Amounts:
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(memory))


amounts = st.builds(given_amounts, CPU, MEMORY)


def seen(requests: Amounts, limits: Amounts, *, sidecar: bool) -> ContainerSeen:
    """As the API server has it: a request that is missing is the limit, and none is above it."""

    def asked(name: str) -> float | None:
        request, limit = getattr(requests, name), getattr(limits, name)
        return limit if request is None else request if limit is None else min(request, limit)

    return ContainerSeen("c", Amounts(asked("cpu"), asked("memory")), limits, sidecar=sidecar)  # type: ignore[arg-type]  # units


containers = st.lists(st.builds(seen, amounts, amounts, sidecar=st.booleans()), min_size=1, max_size=4)


def by_the_rules(pod: list[ContainerSeen]) -> str:
    """Guaranteed: each container has a limit of both that it requests. BestEffort: none has anything at all."""
    of_each = [(getattr(c.requests, name) or 0, getattr(c.limits, name) or 0) for c in pod for name in ("cpu", "memory")]
    if all(pair == (0, 0) for pair in of_each):
        return "BestEffort"
    return "Guaranteed" if all(limit > 0 and request == limit for request, limit in of_each) else "Burstable"


@given(containers)
def test_a_pod_has_the_class_that_kubernetes_gives_it(pod: list[ContainerSeen]) -> None:
    assert service_class(pod) == by_the_rules(pod)


@given(containers, st.builds(seen, amounts, amounts, sidecar=st.sampled_from([False])))
def test_where_a_pod_has_resources_of_its_own_those_of_its_containers_do_not_count(
    pod: list[ContainerSeen], own: ContainerSeen
) -> None:
    if own.requests != Amounts() or own.limits != Amounts():
        assert service_class(pod, own.requests, own.limits) == by_the_rules([own])


@pytest.mark.parametrize("sidecar", [False, True])
def test_a_container_that_requests_nothing_is_not_best_effort_beside_an_init_container_that_does(*, sidecar: bool) -> None:
    mesh = ContainerSeen("mesh", given_amounts(0.1, 1 << 27), sidecar=sidecar)
    assert service_class([ContainerSeen("app"), mesh]) == "Burstable"
