"""One pass of a HorizontalPodAutoscaler: turns the proposals of its metrics into a count of replicas and conditions.

What the controller keeps in memory and in the object's status is one value here, so a pass depends only on its arguments.
Source: `pkg/controller/podautoscaler/horizontal.go`, `reconcileAutoscaler`, of Kubernetes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.logic.replicas import scaling_behavior
from agents.logic.replicas.replica_calculator import MetricError, ReplicaProposal
from agents.logic.replicas.scaling_behavior import Moment, ScalingBehavior, ScalingRules
from schemas.decisions.replica_plans import HpaConditions


@dataclass(frozen=True, slots=True)
class HpaBounds:
    """An autoscaler's spec without its metrics. `to_zero` is the feature gate HPAScaleToZero."""

    least: int
    most: int
    behavior: ScalingBehavior | None = None
    window: float = 300.0
    to_zero: bool = False

    @property
    def rules(self) -> ScalingBehavior:
        """The behaviour; empty rules if there is none."""
        return self.behavior or ScalingBehavior(ScalingRules(()), ScalingRules(()))


@dataclass(frozen=True, slots=True)
class HpaMemory:
    """What the next pass needs: recommendations and changes with their times, the status, and whether we scaled to zero."""

    recommendations: tuple[Moment, ...] = ()
    added: tuple[Moment, ...] = ()
    removed: tuple[Moment, ...] = ()
    conditions: HpaConditions = HpaConditions()
    desired: int = 0
    rests: bool = False


@dataclass(frozen=True, slots=True)
class ProposalSum:
    """The sum behind a decision: what the metrics propose, and how windows and limits changed that."""

    proposed: int
    stabilised: int
    allowed: int


@dataclass(frozen=True, slots=True)
class HpaDecision:
    """The desired replicas, whether to write them, the sum if there were proposals, and the first error of a metric."""

    replicas: int
    written: bool
    sum: ProposalSum | None = None
    error: str | None = None


_READ, _FOUND = "True/SucceededGetScale", "True/ValidMetricFound"
"""Conditions: the scale could be read, and some metric has a proposal."""

MetricResult = ReplicaProposal | tuple[str, MetricError]
"""What a metric proposes, or the reason of the condition and the error."""


def decide(
    bounds: HpaBounds, current: int, answers: Sequence[MetricResult], memory: HpaMemory, *, now: float
) -> tuple[HpaDecision, HpaMemory]:
    """One pass at `now` (seconds since the epoch) for a workload that asks for `current` replicas.

    An empty sequence of answers means that the autoscaler has no metric. To give another reason, pass one error.
    """
    if not memory.recommendations:
        # Without a past, the present count is the first recommendation, so that a restart does not scale down at once.
        memory = replace(memory, recommendations=((now, current),))
    if not current and _disabled(bounds, memory):
        conditions = replace(memory.conditions, able=_READ, active="False/ScalingDisabled")
        return HpaDecision(0, written=False), replace(memory, conditions=conditions, desired=0)
    if current > bounds.most:
        return _rescaled(bounds, current, bounds.most, memory, now=now)
    if 0 < current < bounds.least:
        return _rescaled(bounds, current, bounds.least, memory, now=now)
    return _by_metrics(bounds, current, answers, memory, now=now)


def _disabled(bounds: HpaBounds, memory: HpaMemory) -> bool:
    """Whether the autoscaler must leave a workload without replicas alone."""
    # It may wake only what it scaled to 0 itself. Without the gate nobody notes who did that, and the minimum decides.
    return not memory.rests if bounds.to_zero else bounds.least != 0


def _by_metrics(
    bounds: HpaBounds, current: int, answers: Sequence[MetricResult], memory: HpaMemory, *, now: float
) -> tuple[HpaDecision, HpaMemory]:
    proposals = [answer.replicas for answer in answers if isinstance(answer, ReplicaProposal)]
    errors = [answer for answer in answers if not isinstance(answer, ReplicaProposal)]
    error = errors[0][1].text if errors else None
    proposed = _highest(proposals)
    # A metric that cannot be read may be the one that needs the replicas, so that nothing is scaled down without it.
    if not proposals or (errors and proposed < current):
        reason = errors[0][0] if errors else "InvalidMetricSourceType"
        conditions = replace(memory.conditions, able=_READ, active=f"False/{reason}")
        text = error or "the autoscaler has no metric"
        return HpaDecision(current, written=False, error=text), replace(memory, conditions=conditions)
    wanted = max(proposed, 0)
    normalise = _plainly if bounds.behavior is None else _with_behavior
    allowed, stabilised, memory = normalise(bounds, current, wanted, memory, now=now)
    worked = ProposalSum(wanted, stabilised, allowed)
    if allowed == current:
        return HpaDecision(current, written=False, sum=worked, error=error), replace(memory, desired=current)
    _, memory = _rescaled(bounds, current, allowed, memory, now=now)
    return HpaDecision(allowed, written=True, sum=worked, error=error), memory


def _highest(proposals: Sequence[int]) -> int:
    """The highest proposal."""
    # As upstream, where 0 stands for "none yet": it gives way to any other proposal, even a negative one.
    highest = 0
    for proposal in proposals:
        if not highest or proposal > highest:
            highest = proposal
    return highest


def _rescaled(bounds: HpaBounds, current: int, wanted: int, memory: HpaMemory, *, now: float) -> tuple[HpaDecision, HpaMemory]:
    """Write the count."""
    added, removed = memory.added, memory.removed
    if bounds.behavior is not None:
        if wanted > current:
            # Changes count against later rates, which only a behaviour has.
            added = scaling_behavior.recorded(added, (now, wanted - current), bounds.behavior.up)
        else:
            removed = scaling_behavior.recorded(removed, (now, current - wanted), bounds.behavior.down)
    conditions = replace(memory.conditions, able="True/SucceededRescale")
    rests = wanted == 0
    return HpaDecision(wanted, written=wanted != current), replace(
        memory, added=added, removed=removed, conditions=conditions, desired=wanted, rests=rests
    )


def _plainly(bounds: HpaBounds, current: int, wanted: int, memory: HpaMemory, *, now: float) -> tuple[int, int, HpaMemory]:
    """Without a behaviour: the highest recommendation of the window, at most twice the count."""
    past = memory.recommendations
    stabilised = scaling_behavior.highest_of(wanted, past, now=now, window=bounds.window)
    # calculateScaleUpLimit: a small workload may go to four at once.
    limit = max(2 * current, 4)
    most, reason = (limit, "ScaleUpLimit") if bounds.most > limit else (bounds.most, "TooManyReplicas")
    allowed, limited = stabilised, "False/DesiredWithinRange"
    if stabilised < bounds.least:
        allowed, limited = bounds.least, "True/TooFewReplicas"
    elif stabilised > most:
        allowed, limited = most, f"True/{reason}"
    able = "True/ReadyForNewScale" if stabilised == wanted else "True/ScaleDownStabilized"
    kept = (*[moment for moment in past if moment[0] >= now - bounds.window], (now, wanted))
    conditions = HpaConditions(able, _FOUND, limited)
    return allowed, stabilised, replace(memory, recommendations=kept, conditions=conditions)


def _with_behavior(bounds: HpaBounds, current: int, wanted: int, memory: HpaMemory, *, now: float) -> tuple[int, int, HpaMemory]:
    """With a behaviour: both windows, then the rates of one direction."""
    rules = bounds.rules
    down = bounds.window if rules.down.window is None else rules.down.window
    windows, past = (rules.up.window or 0.0, down), memory.recommendations
    stabilised = scaling_behavior.held(wanted, current, past, now=now, windows=windows)
    able = "True/ReadyForNewScale"
    if stabilised != wanted:
        able = "True/ScaleUpStabilized" if wanted >= current else "True/ScaleDownStabilized"
    allowed, reason = _limited(bounds, current, stabilised, memory, now=now)
    limited = f"{allowed != stabilised}/{reason}"
    kept = (*[moment for moment in past if moment[0] >= now - max(windows)], (now, wanted))
    conditions = HpaConditions(able, _FOUND, limited)
    return allowed, stabilised, replace(memory, recommendations=kept, conditions=conditions)


def _limited(bounds: HpaBounds, current: int, wanted: int, memory: HpaMemory, *, now: float) -> tuple[int, str]:
    """What rates and bounds let through, and the reason."""
    rules, changes = bounds.rules, (memory.added, memory.removed)
    if wanted > current:
        limit = max(scaling_behavior.most(current, rules.up, changes, now=now), current)
        most, reason = (limit, "ScaleUpLimit") if bounds.most > limit else (bounds.most, "TooManyReplicas")
        if wanted > most:
            return most, reason
    elif wanted < current:
        limit = min(scaling_behavior.least(current, rules.down, changes, now=now), current)
        least, reason = (limit, "ScaleDownLimit") if bounds.least < limit else (bounds.least, "TooFewReplicas")
        if wanted < least:
            return least, reason
    return wanted, "DesiredWithinRange"


def defaulted(spec: Mapping[str, object]) -> dict[str, object]:
    """An autoscaler's spec with what the API server adds: at least one replica, CPU at 80 %, a whole behaviour."""
    full = dict(spec)
    if full.get("minReplicas") is None:
        full["minReplicas"] = 1
    if not full.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        full["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    block = full.get("behavior")
    if isinstance(block, Mapping):
        full["behavior"] = scaling_behavior.with_default_rates(block)
    return full
