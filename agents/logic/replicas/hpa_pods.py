"""A workload's pods in columns, and which of them count when replicas are worked out from what they use.

Pods that are going or have failed do not count. Pods that are not ready to be judged are ignored on the way up; pods without a
sample are missing, and are taken for idle on the way up and for busy on the way down (see `replica_calculator`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Milli = NDArray[np.int64]
Times = NDArray[np.float64]


def milli(value: float) -> int:
    """An amount in milli-units, rounded up as Kubernetes rounds a quantity; what floats are off by does not count.

    So 2.007, which times 1000 is a little more than 2007 in floats, is 2007. Metrics know nothing below 1e-9.
    """
    return math.ceil(round(value * 1000, 6))


class HpaPodPhase(IntEnum):
    """A pod's phase."""

    PENDING = 0
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3
    UNKNOWN = 4


class ReadyCondition(IntEnum):
    """A pod's Ready condition; ABSENT if it has none."""

    NO = 0
    YES = 1
    UNKNOWN = 2
    ABSENT = 3


MOST_MILLI = 2**63 - 1
"""The largest amount Kubernetes can hold."""

NEVER = -math.inf
"""The time of a condition that carries none."""

NOT_STARTED = math.nan
"""The start of a pod that has none."""


@dataclass(frozen=True, slots=True)
class HpaPods:
    """One row for each pod: `changed` is when Ready last changed, `started` when the pod did (seconds since the epoch)."""

    phase: NDArray[np.int8]
    deleting: Flags
    ready: NDArray[np.int8]
    changed: Times
    started: Times

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def ready_count(self) -> int:
        """Running pods that are ready, whatever else."""
        return int(np.count_nonzero((self.phase == HpaPodPhase.RUNNING) & (self.ready == ReadyCondition.YES)))


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """What pods use of one metric, in milli-units, where `known`; taken `at`, over the `window` (seconds) before.

    CPU says nothing while a pod starts, so whether it is CPU matters.
    """

    known: Flags
    values: Milli
    at: Times
    window: Times
    cpu: bool = False


@dataclass(frozen=True, slots=True)
class ReadinessDelays:
    """Seconds that a pod may take to initialise, and that its first readiness may take to be believed."""

    initialisation: float = 300.0
    readiness: float = 30.0


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Which pods are ready, missing a sample, or ignored; the rest does not count at all."""

    ready: Flags
    missing: Flags
    ignored: Flags

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many pods each group has."""
        return int(np.count_nonzero(self.ready)), int(np.count_nonzero(self.missing)), int(np.count_nonzero(self.ignored))


def group(pods: HpaPods, samples: MetricSamples, *, now: float, patience: ReadinessDelays) -> PodGroups:
    """Each pod's group.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `groupPods`, of Kubernetes.
    """
    calm = _calm(pods, samples, now, patience)
    if calm.all():
        none = ~calm
        return PodGroups(calm, none, none)
    counted = ~(pods.deleting | (pods.phase == HpaPodPhase.FAILED))
    pending = counted & (pods.phase == HpaPodPhase.PENDING)
    seen = counted & ~pending
    missing = seen & ~samples.known
    ready = seen & samples.known
    if not samples.cpu:
        return PodGroups(ready, missing, pending)
    unready = ready & _starting(pods, samples, now, patience)
    return PodGroups(ready & ~unready, missing, pending | unready)


def _calm(pods: HpaPods, samples: MetricSamples, now: float, patience: ReadinessDelays) -> Flags:
    """Pods of which nothing needs to be asked: they run, are ready, started long ago and have a sample. Usually all do."""
    calm = (pods.phase == HpaPodPhase.RUNNING) & samples.known & ~pods.deleting
    if samples.cpu:
        calm &= (pods.ready == ReadyCondition.YES) & (pods.started + patience.initialisation <= now)
    return np.asarray(calm)


def _starting(pods: HpaPods, samples: MetricSamples, now: float, patience: ReadinessDelays) -> Flags:
    """Pods whose CPU says nothing yet: not ready while initialising, or sampled before they were, or never ready."""
    no = pods.ready == ReadyCondition.NO
    young = pods.started + patience.initialisation > now
    early = no | (samples.at < pods.changed + samples.window)
    never = no & (pods.started + patience.readiness > pods.changed)
    unknown = (pods.ready == ReadyCondition.ABSENT) | np.isnan(pods.started)
    return np.asarray(unknown | np.where(young, early, never))


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What a container that keeps running asks for, in milli-units; None if it names no request."""

    name: str
    milli: int | None


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for of one resource: its containers, side-cars included, and what is asked for the pod as a whole.

    `whole_pod` says whether the pod states requests of its own, of whichever resource; then containers need not.
    """

    pod: str
    containers: tuple[ContainerRequest, ...]
    milli: int | None = None
    whole_pod: bool = False


def requests(pods: Sequence[PodRequest], *, resource: str, container: str = "") -> Milli | str:
    """Each pod's request in milli-units, of one container if it is named; or the sentence that says which is missing.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `calculateRequests`, of Kubernetes.
    """
    found = np.zeros(len(pods), np.int64)
    for row, pod in enumerate(pods):
        asked = [c.milli for c in pod.containers if not container or c.name == container]
        if pod.whole_pod and not container:
            asked = [pod.milli] if pod.milli is not None else [m for m in asked if m is not None] or [None]
        total = 0
        for amount in asked:
            if amount is None:
                return f"pod '{pod.pod}' has a container without a request for {resource}"
            total += amount
        found[row] = min(total, MOST_MILLI)
    return found
