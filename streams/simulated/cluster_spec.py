"""What the simulated cluster is made of: nodes, and deployments with the requests that people guessed."""

from dataclasses import dataclass

from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.simulated.load_shapes import MIB, Shape


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A machine and what it has for pods."""

    name: str
    cores: Cores
    memory: Bytes


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """One container of a pod template."""

    name: str
    shape: Shape
    requests: Amounts
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class SimulatedDeployment:
    """`replicas` pods of one template. `keep` is its disruption budget: evictions must leave so many ready (0: no budget)."""

    namespace: str
    name: str
    replicas: int
    containers: tuple[ContainerTemplate, ...]
    keep: int = 0


def amounts(cores: float | None, mib: int | None) -> Amounts:
    """Amounts from cores and MiB, as a person would write them."""
    return Amounts(
        cpu=None if cores is None else Cores(cores),
        memory=None if mib is None else Bytes(mib * MIB),
    )
