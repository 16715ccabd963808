"""What the simulated cluster is made of: nodes, groups of nodes, and deployments with the requests that people guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.facts.nodes import NodeTaint
from schemas.facts.scheduled_pods import PodToleration
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Seconds
from streams.simulated.load_shapes import MIB, Shape

MOST_PODS = 110
"""Pods of one node, as kubelets have it if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A machine and what it has for pods."""

    name: str
    cores: Cores
    memory: Bytes
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    pods: int = MOST_PODS
    gpus: int = 0
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """From `begin` to `end`, in seconds since the epoch, the cloud has no machine for a group."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class SimulatedNodeGroup:
    """An Auto Scaling Group of one type of instance in one zone, whose size is EC2's.

    `boot`: from the order to the node that is ready. `price`: of one node for an hour.
    """

    name: str
    instance_type: str
    least: int = 0
    most: int = 10
    desired: int = 0
    zone: str = "eu-central-1a"
    boot: Seconds = Seconds(90.0)
    price: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    shortages: tuple[Shortage, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """One container of a pod template. A container without a shape uses nothing."""

    name: str
    shape: Shape | None
    requests: Amounts
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class SimulatedScaling:
    """What an EHPA asks for: bounds, percent of the CPU requests that may be used, and how many seconds ahead it looks.

    `days` are how much of the past a metrics store remembers.
    """

    least: int = 1
    most: int = 10
    utilization: int = 60
    ahead: int = 3600
    days: int = 7


@dataclass(frozen=True, slots=True)
class SimulatedDeployment:
    """`replicas` pods of one template. `keep` is its disruption budget: evictions must leave so many ready (0: no budget).

    With a `peak` the number of pods follows the day, from `replicas` at three in the morning to `peak` at three in the afternoon,
    as its own autoscaler would set it. `gpus` are those of each pod. `shared`: the shapes of its containers give the CPU of all
    pods together, of which each ready pod has an equal part. With a `scaling`, an EHPA scales it.
    """

    namespace: str
    name: str
    replicas: int
    containers: tuple[ContainerTemplate, ...]
    keep: int = 0
    peak: int = 0
    gpus: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[PodToleration, ...] = ()
    shared: bool = False
    scaling: SimulatedScaling | None = None


def amounts(cores: float | None, mib: int | None) -> Amounts:
    """Amounts from cores and MiB, as a person would write them."""
    return Amounts(
        cpu=None if cores is None else Cores(cores),
        memory=None if mib is None else Bytes(mib * MIB),
    )
