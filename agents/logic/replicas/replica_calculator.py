"""Replicas from one metric: what it proposes before windows, rates and bounds, exactly as Kubernetes computes it.

Amounts are whole milli-units; ratios are float64 in Kubernetes' order of operations. A proposal may be any count from
-2^31 to 2^31 - 1.
"""

import math
from dataclasses import dataclass

from agents.logic.replicas.hpa_pods import MOST_MILLI, Flags, HpaPods, MetricSamples, Milli, PodGroups, ReadinessDelays, group

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
        return proposal if scene.near(ratio) else _with(proposal, ratio * ready)
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


def _with(proposal: ReplicaProposal, replicas: float) -> ReplicaProposal:
    return ReplicaProposal(_count(replicas), proposal.usage, proposal.utilization)


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
