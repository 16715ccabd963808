"""The scaler: sets the replicas of a workload through its scale subresource, if it still is as the plan expects.

Plans that a generated autoscaler carries out, and previews, are not its business. A workload that asks for the planned replicas
is as decided, whoever did it; one that asks for neither the planned nor the expected replicas is left alone.
"""

from typing import Protocol

from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.outcomes import Action, OutcomeDetail, Result
from streams.clients.kube.controllers import ControllerKey
from streams.clients.kube.scales import FoundScale
from streams.consumers.executing.act_permit import ActPermit
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import GiveUp
from streams.log_context import LogContext

MOST_REPLICAS = 2**31 - 1
"""What Kubernetes can count."""
MOST_FACTOR, LEAST_REPLICAS = 100, 10
"""A plan multiplies replicas by no more than this at once; fewer than the least count as so many."""


class SettableScales(Protocol):
    """Reads and sets scales. All may raise TryAgain and GiveUp."""

    def find(self, key: ControllerKey) -> FoundScale | None:
        """The scale; None when there is none."""

    def set(self, found: FoundScale, replicas: int) -> None:
        """Ask for so many replicas, if the scale still is as it was found."""

    def forget_kinds(self) -> None:
        """Look up every kind anew from now on."""


def scaler(context: LogContext, scales: SettableScales, lease: HolderLease | None = None) -> Executor:
    """A consumer that carries out ReplicasPlanned where it is the one to do so, while it holds the `lease` if there is one."""
    permit = ActPermit(lease)
    return Executor(
        context,
        Handler(
            "replica-plans",
            ReplicasPlanned,
            Action.SCALE,
            act=lambda plan: scale(scales, plan, permit),
            look=lambda plan: _already_asked(_found(scales, plan), plan),
            concerns=lambda plan: plan.carried_out_by is ScalingMode.DIRECT,
        ),
        permit=permit,
    )


def scale(scales: SettableScales, plan: ReplicasPlanned, permit: ActPermit) -> HandlerResult:
    """Refuse what is absurd, look, ask the permit, then act. Raises TryAgain and GiveUp."""
    absurd = objection(plan)
    if absurd is not None:
        return HandlerResult(Result.REFUSED, absurd, OutcomeDetail.INVALID)
    found = _found(scales, plan)
    if found is None:
        return HandlerResult(Result.REFUSED, f"it moved: {_target(plan)} has no scale, or is gone", OutcomeDetail.MOVED)
    if (already := _already_asked(found, plan)) is not None:
        return already
    if found.replicas != plan.current:
        reason = f"it moved: {_target(plan)} asks for {found.replicas} replicas, expected {plan.current}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    permit.check("scaling", _target(plan))
    scales.set(found, plan.replicas)
    return HandlerResult(Result.DONE, f"the cluster accepted {plan.replicas} replicas", OutcomeDetail.ACCEPTED)


def objection(plan: ReplicasPlanned) -> str | None:
    """Why nobody carries this plan out, whoever wrote it: no workload has so many, or it asks for far more than there are."""
    if not 0 <= plan.replicas <= MOST_REPLICAS:
        return f"the plan is for {plan.replicas} replicas; there may be 0 to {MOST_REPLICAS}"
    most = MOST_FACTOR * max(plan.current, LEAST_REPLICAS)
    if plan.replicas > most:
        return f"the plan is for {plan.replicas} replicas, more than {MOST_FACTOR} times the {plan.current} that there are"
    return None


def _found(scales: SettableScales, plan: ReplicasPlanned) -> FoundScale | None:
    scales.forget_kinds()
    ref = plan.target_ref
    if ref.kind != plan.workload.kind or ref.name != plan.workload.name:
        raise GiveUp(doing="scaling", to=_target(plan), answer=f"the plan is about {plan.workload.key}")
    return scales.find(ControllerKey(plan.workload.namespace, ref.kind, ref.name, ref.api_version))


def _already_asked(found: FoundScale | None, plan: ReplicasPlanned) -> HandlerResult | None:
    """The result for a workload that asks for the planned replicas; None for any other."""
    if found is None or found.replicas != plan.replicas:
        return None
    return HandlerResult(Result.DONE, f"{_target(plan)} asks for {plan.replicas} replicas already", OutcomeDetail.ALREADY_DONE)


def _target(plan: ReplicasPlanned) -> str:
    return f"{plan.target_ref.kind} '{plan.workload.namespace}/{plan.target_ref.name}'"
