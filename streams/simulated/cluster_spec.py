"""What the simulated cluster is made of: nodes, groups of nodes, deployments with the requests that people guessed, and load.

Load shapes say what one container would like to use, as pure functions of seed, time and age. Chance is a hash of the seed and
the time slot, so a shape always gives the same load for a moment, in whatever order it is called. A shape ignores limits; the
kubelet enforces them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from schemas.facts.nodes import NodeTaint
from schemas.facts.scheduled_pods import PodToleration
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Fraction, Seconds

MIB = 1 << 20
_DAY = 86_400.0
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class LoadMoment:
    """What a shape may depend on: a seed of its own, seconds since the epoch, and seconds since the container started."""

    seed: int
    time: Seconds
    age: Seconds


@dataclass(frozen=True, slots=True)
class Load:
    """What a container would like to use now."""

    cores: Cores
    memory: Bytes


Shape = Callable[[LoadMoment], Load]


def diurnal(*, low: float, high: float, memory: int, swing: int) -> Shape:
    """A service for people: CPU between `low` and `high` cores, following the day, memory `memory` plus up to `swing` MiB."""

    def shape(moment: LoadMoment) -> Load:
        day = daylight(moment.time)
        # 15 % of noise, new each minute; every container has a seed of its own, so replicas do not move in step
        cores = (low + (high - low) * day) * (0.85 + 0.3 * chance(moment, every=60))
        return _load(cores, memory + swing * day + 4 * chance(moment, every=300, salt=1))

    return shape


def rush(*, low: float, high: float, hour: float, memory: int, hours: float = 1.5) -> Shape:
    """A service with a peak each day: `low` cores, and around an hour of the day (UTC) up to `high`, for a few times `hours`."""

    def shape(moment: LoadMoment) -> Load:
        # the shorter way round the clock, so a rush about midnight has both its sides
        away = (moment.time / 3600 - hour + 12) % 24 - 12
        # a bell, of which `hours` is the standard deviation
        cores = low + (high - low) * math.exp(-((away / hours) ** 2) / 2)
        return _load(cores * (0.95 + 0.1 * chance(moment, every=60)), memory * (0.95 + 0.05 * chance(moment, every=300, salt=1)))

    return shape


def bursty(*, calm: float, burst: float, memory: int, burst_memory: int, often: Fraction) -> Shape:
    """Mostly calm; in a share `often` of ten-minute slots it needs `burst` cores and `burst_memory` MiB."""

    def shape(moment: LoadMoment) -> Load:
        bursting = chance(moment, every=600, salt=2) < often
        # CPU and memory burst together, as requests that are served need both
        cores, mib = (burst, burst_memory) if bursting else (calm, memory)
        return _load(cores * (0.8 + 0.4 * chance(moment, every=60)), mib * (0.97 + 0.03 * chance(moment, every=60, salt=1)))

    return shape


def leak(*, cores: float, memory: int, per_hour: float) -> Shape:
    """A steady service that loses `per_hour` MiB each hour until it is restarted."""

    def shape(moment: LoadMoment) -> Load:
        return _load(cores * (0.9 + 0.2 * chance(moment, every=60)), memory + per_hour * moment.age / 3600)

    return shape


def batch(*, every: Seconds, busy: Seconds, cores: float, memory: int) -> Shape:
    """Works for `busy` seconds of each `every`, and sleeps on a tenth of its memory in between."""

    def shape(moment: LoadMoment) -> Load:
        # by the epoch and not by the container's age, so all replicas of a batch work at one time
        into = moment.time % every
        if into >= busy:
            return _load(0.005, memory * 0.1)
        # grows with the work, so the first minutes of a trace do not show the peak
        grown = min(1.0, 0.4 + into / busy)
        return _load(cores * (0.9 + 0.2 * chance(moment, every=60)), memory * grown)

    return shape


def jvm(*, low: float, high: float, heap: int, warm_up: Seconds = Seconds(1200.0)) -> Shape:  # noqa: B008  # a number with a unit
    """Starts with a burst of CPU, grows to `heap` MiB over `warm_up` seconds and never gives memory back."""

    def shape(moment: LoadMoment) -> Load:
        starting = high * max(0.0, 1.0 - moment.age / 120)
        serving = (low + (high - low) * daylight(moment.time)) * (0.8 + 0.4 * chance(moment, every=60))
        grown = 0.35 + 0.65 * min(1.0, moment.age / warm_up)
        return _load(max(starting, serving), heap * grown * (0.98 + 0.02 * chance(moment, every=120, salt=1)))

    return shape


def starter(*, low: float, high: float, memory: int, peak: int, lasts: Seconds = Seconds(15.0)) -> Shape:  # noqa: B008  # as above
    """A service for people with `memory` MiB that needs `peak` MiB for `lasts` seconds, twenty seconds after each start.

    That lies between two scrapes of most starts, so usage seldom tells of it.
    """

    def shape(moment: LoadMoment) -> Load:
        cores = (low + (high - low) * daylight(moment.time)) * (0.85 + 0.3 * chance(moment, every=60))
        # 20 s is past the first step, so the container is ready and serves before its peak
        return _load(cores, peak if 0 <= moment.age - 20 < lasts else memory)

    return shape


def daylight(time: Seconds) -> float:
    """0 at three in the morning, 1 at three in the afternoon (UTC), a cosine in between."""
    return (1 - math.cos(2 * math.pi * (time % _DAY - 3 * 3600) / _DAY)) / 2


def chance(moment: LoadMoment, *, every: int, salt: int = 0) -> float:
    """A number in [0, 1) that holds for a slot of `every` seconds: SplitMix64's finish over seed, slot and salt."""
    return hashed(moment.seed, int(moment.time) // every, salt)


def hashed(seed: int, slot: int, salt: int = 0) -> float:
    """A number in [0, 1) that follows from the three."""
    # odd factors, so that seeds and slots that differ by one give numbers without likeness
    x = (seed * 0x9E3779B97F4A7C15 + slot * 0xD1342543DE82EF95 + salt * 0xBF58476D1CE4E5B9 + 0x2545F4914F6CDD1D) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    # 53 bits are what a float holds exactly
    return ((x ^ (x >> 31)) >> 11) / (1 << 53)


def _load(cores: float, mib: float) -> Load:
    return Load(Cores(cores), Bytes(int(mib * MIB)))


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
    """One container of a pod template. A container without a shape uses nothing.

    `lasts` and `sidecar` are of init containers: after how many seconds it has done its work, or that it runs on (restart policy
    Always).
    """

    name: str
    shape: Shape | None
    requests: Amounts
    limits: Amounts = Amounts()
    lasts: int = 0
    sidecar: bool = False


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
    pods together, of which each ready pod has an equal part. With a `scaling`, an EHPA scales it. `requests` and `limits` are
    those of the pod itself (`spec.resources`).
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
    init: tuple[ContainerTemplate, ...] = ()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    kind: str = "Deployment"
    """Or that of another controller, which makes its pods itself; those of the kind `Pod` nobody makes anew."""


def amounts(cores: float | None, mib: int | None) -> Amounts:
    """Amounts from cores and MiB, as a person would write them."""
    return Amounts(
        cpu=None if cores is None else Cores(cores),
        memory=None if mib is None else Bytes(mib * MIB),
    )
