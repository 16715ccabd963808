"""Replicas from one metric: what it proposes before windows, rates and bounds, exactly as Kubernetes computes it.

Amounts are whole milli-units; ratios are float64 in Kubernetes' order of operations. A proposal may be any count from
-2^31 to 2^31 - 1.
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


_MOST, _LEAST = 2**31 - 1, -(2**31)


@dataclass(frozen=True, slots=True)
class ReplicaProposal:
    """A count of replicas, and the usage behind it: in milli-units (of one pod or in all), and in percent if targeted."""

    replicas: int
    usage: int
    utilization: int | None = None


@dataclass(frozen=True, slots=True)
class MetricError:
    """Why a metric proposes nothing, in `text`."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """What every metric of an autoscaler is compared with: requested and actual replicas, and the tolerances."""

    current: int
    there: int
    now: float
    down: float = 0.1
    up: float = 0.1
    patience: ReadinessDelays = ReadinessDelays()

    def near(self, ratio: float) -> bool:
        """Whether usage is so near its target that nothing should change."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


_NO_PODS = MetricError("the selector matches no pods")
_NO_SAMPLES = MetricError("no pod that counts has a sample; they may not be ready")
_NO_TARGET = MetricError("the target is 0")


def by_utilization(
    pods: HpaPods, samples: MetricSamples, requests: Milli | str, *, target: int, scene: ReplicaContext
) -> ReplicaProposal | MetricError:
    """The proposal from the pods' usage as a share (percent) of their requests.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `GetResourceReplicas`, of Kubernetes.
    """
    groups = _groups(pods, samples, target=target, scene=scene)
    if isinstance(groups, MetricError):
        return groups
    if isinstance(requests, str):
        return MetricError(requests)
    used, asked = _total(samples.values, groups.ready), _total(requests, groups.ready)
    if not asked:
        return MetricError("the pods that count request nothing")
    ready, missing, ignored = groups.counts
    percent = _quotient(used * 100, asked)
    ratio = corrected = percent / target
    proposal = ReplicaProposal(scene.current, _quotient(used, ready), percent)
    if missing or (ignored and ratio > 1.0):
        if missing and ratio < 1.0:
            # On the way down a missing pod counts as busy: as using all that it requests, or the target if that is more.
            used += sum(request * max(100, target) // 100 for request in requests[groups.missing].tolist())
        if missing and ratio != 1.0:
            asked += _total(requests, groups.missing)
        if ratio > 1.0:
            # On the way up a pod that starts counts as idle, because it will take its part of the load.
            asked += _total(requests, groups.ignored)
        corrected = _quotient(used * 100, asked) / target
    return _proposed(proposal, groups.counts, ratio=ratio, corrected=corrected, scene=scene)


def by_average(pods: HpaPods, samples: MetricSamples, *, target: int, scene: ReplicaContext) -> ReplicaProposal | MetricError:
    """The proposal from the average usage of a pod (milli-units).

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `calcPlainMetricReplicas`, of Kubernetes.
    """
    groups = _groups(pods, samples, target=target, scene=scene)
    if isinstance(groups, MetricError):
        return groups
    used, (ready, missing, ignored) = _total(samples.values, groups.ready), groups.counts
    mean = _quotient(used, ready)
    ratio = mean / target
    counted = ready + (missing if ratio != 1.0 else 0) + (ignored if ratio > 1.0 else 0)
    corrected = _quotient(used + (missing * target if ratio < 1.0 else 0), counted) / target
    return _proposed(ReplicaProposal(scene.current, mean), groups.counts, ratio=ratio, corrected=corrected, scene=scene)


def _groups(pods: HpaPods, samples: MetricSamples, *, target: int, scene: ReplicaContext) -> PodGroups | MetricError:
    if not len(pods):
        return _NO_PODS
    if not target:
        return _NO_TARGET
    groups = group(pods, samples, now=scene.now, patience=scene.patience)
    return groups if groups.ready.any() else _NO_SAMPLES


def _proposed(
    proposal: ReplicaProposal, counts: tuple[int, int, int], *, ratio: float, corrected: float, scene: ReplicaContext
) -> ReplicaProposal:
    """The proposal with its replicas, which is cautious if pods are missing or ignored."""
    ready, missing, ignored = counts
    held_back = ignored > 0 and ratio > 1.0
    if not missing and not held_back:
        return proposal if scene.near(ratio) else ReplicaProposal(_count(ratio * ready), proposal.usage, proposal.utilization)
    # What is only assumed of some pods must not turn the direction that the others show.
    turned = (ratio < 1.0 < corrected) or (ratio > 1.0 > corrected)
    if scene.near(corrected) or turned:
        return proposal
    wanted = _count(corrected * (ready + missing + (ignored if held_back else 0)))
    # More pods than the scale asks for may be there, as during a rollout, and they must not turn it either.
    if (corrected < 1.0 and wanted > scene.current) or (corrected > 1.0 and wanted < scene.current):
        return proposal
    return ReplicaProposal(wanted, proposal.usage, proposal.utilization)


def by_value(value: int, pods: HpaPods, *, target: int, scene: ReplicaContext) -> ReplicaProposal | MetricError:
    """The proposal from a value of the whole workload (milli-units), scaling the ready pods; at 0 replicas, scaling one.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `getUsageRatioReplicaCount`, of Kubernetes.
    """
    if not target:
        return _NO_TARGET
    ratio = value / target
    if not scene.current:
        return ReplicaProposal(_count(ratio), value)
    if scene.near(ratio):
        return ReplicaProposal(scene.current, value)
    if not len(pods):
        return _NO_PODS
    return ReplicaProposal(_count(ratio * pods.ready_count), value)


def by_value_per_pod(value: int, *, target: int, scene: ReplicaContext) -> ReplicaProposal | MetricError:
    """The proposal from a value of the whole workload (milli-units) of which each replica should take `target`.

    Source: `pkg/controller/podautoscaler/replica_calculator.go`, `GetExternalPerPodMetricReplicas`, of Kubernetes.
    """
    if not target:
        return _NO_TARGET
    if not scene.there:
        return ReplicaProposal(_count(value / target), 0)
    usage = value if value == MOST_MILLI else math.ceil(value / scene.there)
    near = scene.near(value / (target * scene.there))
    return ReplicaProposal(scene.there if near else _count(value / target), usage)


def _count(replicas: float) -> int:
    """A count of replicas, rounded up and limited to 32 bits."""
    return _MOST if replicas >= _MOST else _LEAST if replicas <= _LEAST else math.ceil(replicas)


def _quotient(dividend: int, divisor: int) -> int:
    """Integer division that truncates towards zero, as Go's does and Python's does not; dividing by zero gives zero."""
    if not divisor:
        return 0
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _total(amounts: Milli, rows: Flags) -> int:
    # Python's sum, because numpy's would overflow where Kubernetes' amounts are at their largest.
    return sum(amounts[rows].tolist())
