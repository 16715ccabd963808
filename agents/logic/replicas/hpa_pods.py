"""A workload's pods in columns, and which of them count when replicas are computed from their usage.

Pods that are being deleted or have failed do not count. Pods that cannot be judged yet are ignored on the way up. Pods without a
sample are missing: they count as idle on the way up and as busy on the way down (see `replica_calculator`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Milli = NDArray[np.int64]
Timestamps = NDArray[np.float64]


def milli(value: float) -> int:
    """An amount in milli-units, rounded up as Kubernetes rounds a quantity, but ignoring floating-point error."""
    # 2.007 times 1000 is a little more than 2007 in floats. No metric is finer than 1e-9.
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

NOT_STARTED = math.nan
"""Stands for the start of a pod that has not started."""


@dataclass(frozen=True, slots=True)
class HpaPods:
    """One row for each pod: `changed` is when Ready last changed, `started` when the pod started (seconds since the epoch)."""

    phase: NDArray[np.int8]
    deleting: Flags
    ready: NDArray[np.int8]
    changed: Timestamps
    started: Timestamps

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def ready_count(self) -> int:
        """How many pods are running and ready, regardless of anything else."""
        return int(np.count_nonzero((self.phase == HpaPodPhase.RUNNING) & (self.ready == ReadyCondition.YES)))


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """What pods use of one metric, in milli-units, where `known`; taken `at`, over the `window` (seconds) before.

    `cpu` matters because a pod's CPU usage is meaningless while it starts.
    """

    known: Flags
    values: Milli
    at: Timestamps
    window: Timestamps
    cpu: bool = False


@dataclass(frozen=True, slots=True)
class ReadinessDelays:
    """Seconds that a pod may take to initialise, and seconds after its start before its readiness counts."""

    initialisation: float = 300.0
    readiness: float = 30.0


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Which pods are ready, miss a sample, or are ignored; the others do not count at all."""

    ready: Flags
    missing: Flags
    ignored: Flags

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many pods each group has."""
        return int(np.count_nonzero(self.ready)), int(np.count_nonzero(self.missing)), int(np.count_nonzero(self.ignored))


def group(pods: HpaPods, samples: MetricSamples, *, now: float, patience: ReadinessDelays) -> PodGroups:
    """Put each pod into its group.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `groupPods`, of Kubernetes.
    """
    calm = _calm(pods, samples, now, patience)
    # Usually that is all of them, and nothing else has to be computed.
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
    """Pods that need no closer look: they run, are ready, started long ago and have a sample."""
    calm = (pods.phase == HpaPodPhase.RUNNING) & samples.known & ~pods.deleting
    if samples.cpu:
        calm &= (pods.ready == ReadyCondition.YES) & (pods.started + patience.initialisation <= now)
    return np.asarray(calm)


def _starting(pods: HpaPods, samples: MetricSamples, now: float, patience: ReadinessDelays) -> Flags:
    """Pods whose CPU is still meaningless: not ready while initialising, or sampled before they were, or never ready."""
    # In the order of groupPods: a young pod is judged by its sample's time, an old one by whether it was ever ready.
    no = pods.ready == ReadyCondition.NO
    young = pods.started + patience.initialisation > now
    early = no | (samples.at < pods.changed + samples.window)
    never = no & (pods.started + patience.readiness > pods.changed)
    unknown = (pods.ready == ReadyCondition.ABSENT) | np.isnan(pods.started)
    return np.asarray(unknown | np.where(young, early, never))


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What a long-running container requests, in milli-units; None if it sets no request."""

    name: str
    milli: int | None


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's requests of one resource: of its containers, side-cars included, and of the pod as a whole.

    `whole_pod` tells whether the pod itself sets requests, of whichever resource; then its containers need not.
    """

    pod: str
    containers: tuple[ContainerRequest, ...]
    milli: int | None = None
    whole_pod: bool = False


def requests(pods: Sequence[PodRequest], *, resource: str, container: str = "") -> Milli | str:
    """Each pod's request in milli-units, or that of one named container; or a sentence on what is missing.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `calculateRequests`, of Kubernetes.
    """
    amounts = np.zeros(len(pods), np.int64)
    for row, pod in enumerate(pods):
        asked = [c.milli for c in pod.containers if not container or c.name == container]
        if container and not asked:
            return f"pod '{pod.pod}' has no container '{container}'"
        # Requests of the pod itself stand for those of its containers.
        if pod.whole_pod and not container:
            asked = [pod.milli] if pod.milli is not None else [m for m in asked if m is not None] or [None]
        total = 0
        for amount in asked:
            if amount is None:
                return f"pod '{pod.pod}' has a container without a request for {resource}"
            total += amount
        amounts[row] = min(total, MOST_MILLI)
    return amounts
