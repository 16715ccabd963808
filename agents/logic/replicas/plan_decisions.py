"""Turns a pass over an EHPA into decisions: a plan if something is new, a refusal if a guard objects, else nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from agents.engine.turn import Decided, Turn
from agents.logic.guards.shared_guards import doubled, last_turn, plan_expiry
from agents.logic.replicas import replica_planning
from agents.logic.replicas.ehpa_manifest import ehpa_of
from agents.logic.replicas.forecaster_settings import NAME, ForecasterSettings
from agents.logic.replicas.forecaster_state import EhpaRecord
from agents.logic.replicas.hpa_reconcile import HpaMemory
from agents.logic.replicas.replica_planning import PassResult, ScalingSituation
from schemas import times
from schemas.decisions.replica_plans import HpaConditions, ReplicasPlanned, ReplicasRefused, ScalingMode, UpcomingReplicas
from schemas.ids import DecisionId
from schemas.names import Workload
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import ScaleStrategy
from schemas.policies.vpa import TargetRef
from schemas.well_known_labels import SCALING

# Without an HPA, the status of an EHPA has these decisions' conditions, which may change in every round, and back.
_APART = 60_000
"""Milliseconds between two decisions about a direct EHPA of which the second scales nothing."""
_UNDONE_IN_A_ROW = 3
"""Plans that came to nothing, or that somebody else undid, one after the other, from which on the next ones come more seldom."""
_MOST_VOID = _UNDONE_IN_A_ROW + 2
"""How many of them may have come to nothing: pauses of four minutes at most."""
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 1_800.0
"""Seconds of the first pause after these, and of the longest."""
_FORGOTTEN = 10_800_000
"""Milliseconds until all of that is forgotten."""


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """What the next pass needs: its turn, the algorithm's memory, and the last decision."""

    due: int  # The next pass's turn.
    memory: HpaMemory = HpaMemory()
    # Who carries the plan out, replicas before and after, and its last turn.
    planned: tuple[str, int, int, int] | None = None
    guard: str = ""  # The guard that objected last.
    upcoming: int | None = None  # The replicas that the last plan announced for later.
    published: HpaConditions = HpaConditions()  # The conditions of the last decision.
    published_in: int = 0  # Its turn.
    undone: int = 0  # Direct plans that were undone or came to nothing, one after the other.
    undone_in: int = 0  # The turn in which that was last seen.


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The input of a pass: the EHPA, the memory of the last pass, when the next one is due, and the turn."""

    record: EhpaRecord
    memory: PlanMemory
    due: int
    turn: Turn
    settings: ForecasterSettings
    partition: int

    @property
    def ehpa(self) -> EhpaChanged:
        """The EHPA."""
        return self.record.event

    @property
    def is_direct(self) -> bool:
        """Whether no HPA follows from the EHPA, so that decisions have to tell the conditions that one would have."""
        return self.ehpa.annotations.get(SCALING) == "direct"

    @property
    def is_soon(self) -> bool:
        """Whether the last decision is so new that another one should scale something."""
        return self.turn.number < self.memory.published_in + _APART

    def id(self, kind: str, key: str) -> str:
        """The id of a decision of this pass."""
        return str(DecisionId(NAME, self.partition, self.turn.number, kind, key))


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The memory that a pass leaves, and its decisions."""

    memory: PlanMemory
    decided: tuple[Decided, ...] = ()


def decide(request: PlanRequest, objection: tuple[str, str] | None, situation: ScalingSituation | None) -> PlanOutcome:
    """The decisions of a pass. `objection` is a guard and its sentence; `situation` is None while nobody has seen the scale."""
    if objection is None and situation is None:
        objection = "scale", "nobody has seen the target's scale yet"
    if objection is None and situation is not None and situation.scale.reason:
        objection = "scale", situation.scale.reason
    if objection is not None or situation is None:
        return _refused(request, *(objection or ("scale", "")))
    try:
        return _planned(request, situation)
    except ValueError as error:
        return _refused(request, "spec", str(error))


def _refused(request: PlanRequest, guard: str, reason: str) -> PlanOutcome:
    """Publish a refusal once, and again only after another guard or none has objected."""
    after = replace(request.memory, due=request.due, guard=guard, planned=None)
    if request.memory.guard == guard:
        return PlanOutcome(after)
    return PlanOutcome(replace(after, published_in=request.turn.number), _refusal(request, guard, reason))


def _refusal(request: PlanRequest, guard: str, reason: str, conditions: HpaConditions | None = None) -> tuple[Decided, ...]:
    ehpa, turn = request.ehpa, request.turn
    workload, because = Workload.parse(ehpa.target or ehpa.key), {"generation": ehpa.generation}
    decision = request.id("refuse", ehpa.key)
    return _decided(request, ReplicasRefused(decision, turn.at, workload, ehpa.key, guard, reason, because, conditions))


def _without_metric(request: PlanRequest, result: PassResult, why: str) -> PlanOutcome:
    """Publish that nothing is scaled for want of a metric, and again when the conditions change, but not too soon."""
    before, conditions = replace(request.memory, due=request.due, memory=result.memory), result.memory.conditions
    after = replace(before, guard="no-metric", planned=None)
    if before.guard == after.guard and conditions == before.published:
        return PlanOutcome(after)
    if request.is_soon:
        return PlanOutcome(before)
    after = replace(after, published=conditions, published_in=request.turn.number)
    return PlanOutcome(after, _refusal(request, "no-metric", why, conditions))


def _planned(request: PlanRequest, situation: ScalingSituation) -> PlanOutcome:
    ehpa, mode = request.ehpa, carried_out_by(request.ehpa)
    result = replica_planning.plan(ehpa_of(ehpa), situation, request.memory.memory, request.settings)
    replicas = result.decision.replicas
    if mode is ScalingMode.DIRECT and (unread := _unread(result)):
        # There is no HPA whose conditions would tell it.
        return _without_metric(request, result, unread)
    if ehpa.strategy is ScaleStrategy.PREVIEW and ehpa.specific_replicas is not None:
        # Somebody fixed the count by hand. The HPA scales only the Substitute, so that we must set the count ourselves.
        mode, replicas = ScalingMode.DIRECT, ehpa.specific_replicas
    current = situation.scale.replicas
    if mode is ScalingMode.DIRECT and request.is_direct:
        request = replace(request, memory=_with_undone(request, current, replicas))
        if wait := _pause(request, current, replicas):
            why = f"somebody else sets the replicas back, or nothing comes of it: {replicas} are asked for again {wait}"
            return _refused(replace(request, memory=replace(request.memory, memory=result.memory)), "set-back", why)
    after = replace(request.memory, due=request.due, memory=result.memory, guard="")
    before, now = request.memory.planned, request.turn.number
    upcoming = None if mode is ScalingMode.PREVIEW or replicas != result.decision.replicas else result.upcoming
    repeated = before is not None and before[:3] == (mode.value, current, replicas) and upcoming == request.memory.upcoming
    # A plan that nobody carried out in time is void, and is published again if it is still needed.
    open_still = before is not None and (before[3] > now or mode is not ScalingMode.DIRECT or current == replicas)
    published = result.memory.conditions if request.is_direct else request.memory.published
    if repeated and open_still and (published == request.memory.published or request.is_soon):
        return PlanOutcome(after)
    if request.memory.guard == "no-metric" and replicas == current and request.is_soon:
        return PlanOutcome(replace(after, guard="no-metric"))
    event = _event(request, result, _because(request, situation, result))
    planned = (mode.value, current, replicas, last_turn(event))
    after = replace(after, planned=planned, upcoming=upcoming, published=published, published_in=now)
    event = replace(event, carried_out_by=mode, replicas=replicas, upcoming=_expected(request, upcoming))
    return PlanOutcome(after, _decided(request, event))


def _with_undone(request: PlanRequest, current: int, replicas: int) -> PlanMemory:
    """The memory with a further plan that was undone or came to nothing, if this pass shows one."""
    memory, now = request.memory, request.turn.number
    if memory.undone and now - memory.undone_in >= _FORGOTTEN:
        memory = replace(memory, undone=0)
    if memory.planned is None or memory.planned[0] != ScalingMode.DIRECT.value or current == replicas:
        return memory
    _, was, wanted, last = memory.planned
    changed, void = was == wanted != current, (was, wanted) == (current, replicas) and last <= now
    if not changed and not void:
        return memory
    # Of a plan that is void nobody knows whether it was undone at once, or the API server is away and wants it when it is back.
    count = memory.undone + 1 if changed else max(memory.undone, min(memory.undone + 1, _MOST_VOID))
    return replace(memory, undone=count, undone_in=now)


def _pause(request: PlanRequest, current: int, replicas: int) -> str:
    """When the replicas are asked for again, if that is not now."""
    # An HPA goes on and on. But pods that are started and ended each minute serve nobody.
    surplus, memory = request.memory.undone - _UNDONE_IN_A_ROW, request.memory
    if surplus < 0 or current == replicas:
        return ""
    due = memory.undone_in + int(1000 * doubled(_FIRST_PAUSE, surplus + 1, longest=_LONGEST_PAUSE))
    return "" if request.turn.number >= due else f"after {times.rfc3339(times.from_ms(due))}"


def _unread(result: PassResult) -> str:
    """Why the metrics that cannot be read keep the count as it is; empty if they do not."""
    if not result.decision.error or result.decision.sum is not None:
        return ""
    some = any(proposal.replicas is not None for proposal in result.proposals)
    why = "not every metric can be read, so nothing is scaled down" if some else "no metric can be read"
    return f"{why}: {result.decision.error}"


def _expected(request: PlanRequest, upcoming: int | None) -> UpcomingReplicas | None:
    by = request.turn.at + timedelta(seconds=request.settings.ahead)
    return None if upcoming is None else UpcomingReplicas(upcoming, by)


def carried_out_by(ehpa: EhpaChanged) -> ScalingMode:
    """Who carries out what an EHPA's metrics ask for."""
    if ehpa.strategy is ScaleStrategy.PREVIEW:
        return ScalingMode.PREVIEW
    return ScalingMode.DIRECT if ehpa.annotations.get(SCALING) == "direct" else ScalingMode.HPA


def _event(request: PlanRequest, result: PassResult, because: Mapping[str, object]) -> ReplicasPlanned:
    ehpa, turn = request.ehpa, request.turn
    return ReplicasPlanned(
        id=request.id("replicas", ehpa.target),
        at=turn.at,
        expires=plan_expiry(turn, lifetime=request.settings.expires).expires,
        workload=Workload.parse(ehpa.target),
        ehpa=ehpa.key,
        uid=ehpa.uid,
        generation=ehpa.generation,
        carried_out_by=ScalingMode.HPA,
        target_ref=ehpa.target_ref or TargetRef("", ""),
        current=int(str(because["asked"])),
        replicas=result.decision.replicas,
        least=result.bounds.least,
        most=result.bounds.most,
        proposals=result.proposals,
        stabilized=None if result.decision.sum is None else result.decision.sum.stabilised,
        because=because,
        conditions=result.memory.conditions if request.is_direct else None,
    )


def _because(request: PlanRequest, situation: ScalingSituation, result: PassResult) -> dict[str, object]:
    """Everything that a person needs to redo the sum."""
    decision, conditions = result.decision, result.memory.conditions
    because: dict[str, object] = {
        "asked": situation.scale.replicas,
        "there": situation.scale.status_replicas,
        "pods": len(situation.pods),
        "able": conditions.able,
        "active": conditions.active,
        "limited": conditions.limited,
        "tolerance": request.settings.tolerance,
    }
    if decision.sum is not None:
        because |= {"proposed": decision.sum.proposed, "stabilised": decision.sum.stabilised, "allowed": decision.sum.allowed}
    if decision.error:
        because["error"] = decision.error
    if situation.forecasts:
        because["forecasts"] = dict(sorted(situation.forecasts.items()))
    if request.ehpa.strategy is ScaleStrategy.PREVIEW and request.ehpa.specific_replicas is not None:
        because["specific_replicas"] = request.ehpa.specific_replicas
    return because


def _decided(request: PlanRequest, event: ReplicasPlanned | ReplicasRefused) -> tuple[Decided, Decided]:
    """The decision, and the copy that node scaling reads."""
    cause = (request.record.place,)
    return (
        Decided("replica-plans", event.workload.key, event, cause),
        Decided("replica-plans-by-cluster", event.workload.cluster, event, cause),
    )
