"""The scaler: sets the replicas of a workload through its scale subresource, if the workload is still as the plan expects.

It ignores previews and plans that a generated autoscaler carries out. If a workload already asks for the planned replicas, the
plan is done, whoever did it. If it asks for neither the planned nor the expected replicas, the scaler leaves it alone.
"""

from typing import Protocol

from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.outcomes import Action, OutcomeDetail, Result
from schemas.units import counted
from streams.clients.kube.controllers import ControllerKey, FoundScale
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import ActPermit, Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import GiveUp
from streams.log_context import LogContext

MOST_REPLICAS = 2**31 - 1  # an int32 in Kubernetes' API
MOST_FACTOR, LEAST_REPLICAS = 100, 10
"""A plan may multiply replicas by no more than this at once; fewer replicas than the least count as that many."""


class SettableScales(Protocol):
    """Reads and sets scales. All may raise TryAgain and GiveUp."""

    def find(self, key: ControllerKey) -> FoundScale | None:
        """The scale; None if the object has none or does not exist."""

    def set(self, found: FoundScale, replicas: int) -> None:
        """Ask for this many replicas, if the scale is still as it was found."""

    def forget_kinds(self) -> None:
        """Drop all cached kinds, so that each is looked up anew."""


def scaler(context: LogContext, scales: SettableScales, lease: HolderLease | None = None) -> Executor:
    """A consumer that carries out each ReplicasPlanned meant for the scaler, while it holds the `lease` if there is one."""
    permit = ActPermit(lease)
    return Executor(
        context,
        Handler(
            "replica-plans",
            ReplicasPlanned,
            Action.SCALE,
            act=lambda plan: scale(scales, plan, permit),
            look=lambda plan: _shown(_found(scales, plan), plan),
            at_once=True,
            concerns=lambda plan: plan.carried_out_by is ScalingMode.DIRECT,
        ),
        permit=permit,
    )


def scale(scales: SettableScales, plan: ReplicasPlanned, permit: ActPermit) -> HandlerResult | None:
    """Refuse an absurd plan, look at the scale, check the permit, then ask. Raises TryAgain and GiveUp."""
    absurd = objection(plan)
    if absurd is not None:
        return HandlerResult(Result.REFUSED, absurd, OutcomeDetail.INVALID)
    current = _found(scales, plan)
    shown = _shown(current, plan)
    if isinstance(shown, HandlerResult):
        return shown
    if current is None or current.replicas != plan.current:
        return HandlerResult(Result.REFUSED, f"it moved: {shown}, expected {plan.current}", OutcomeDetail.MOVED)
    permit.check("scaling", _target(plan))
    scales.set(current, plan.replicas)
    return None


def objection(plan: ReplicasPlanned) -> str | None:
    """Why this plan must not be carried out, whoever wrote it: its count is impossible, or far above the present replicas."""
    if not 0 <= plan.replicas <= MOST_REPLICAS:
        return f"the plan is for {plan.replicas} replicas; there may be 0 to {MOST_REPLICAS}"
    most = MOST_FACTOR * max(plan.current, LEAST_REPLICAS)
    if plan.replicas > most:
        return f"the plan is for {plan.replicas} replicas, more than {MOST_FACTOR} times the {plan.current} that there are"
    return None


def _found(scales: SettableScales, plan: ReplicasPlanned) -> FoundScale | None:
    scales.forget_kinds()  # a kind may have got or lost its scale subresource since
    ref = plan.target_ref
    if ref.kind != plan.workload.kind or ref.name != plan.workload.name:
        raise GiveUp(doing="scaling", to=_target(plan), answer=f"the plan is about {plan.workload.key}")
    return scales.find(ControllerKey(plan.workload.namespace, ref.kind, ref.name, ref.api_version))


def _shown(current: FoundScale | None, plan: ReplicasPlanned) -> HandlerResult | str:
    """The result for a workload that asks for the planned replicas; for any other, what it asks for."""
    if current is None:
        return f"{_target(plan)} has no scale, or is gone"
    shown = f"{_target(plan)} asks for {counted(current.replicas, 'replica')}"
    return HandlerResult(Result.DONE, shown, OutcomeDetail.ALREADY_DONE) if current.replicas == plan.replicas else shown


def _target(plan: ReplicasPlanned) -> str:
    return f"{plan.target_ref.kind} '{plan.workload.namespace}/{plan.target_ref.name}'"
