"""What one pass over an EHPA works on, and what it reports.

The consumer fills an order from the log, and the pass reads everything else from the API server. Of several EHPAs that name one
target one scales it, so that a target never has two HPAs of ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.outcomes import ActionFinished, ObjectChange
from schemas.policies.ehpa import EhpaChanged
from streams.errors import EdgeError

ScalingDecision = ReplicasPlanned | ReplicasRefused
_PASS_GUARDS = ("paused", "rival")


@dataclass(frozen=True, slots=True)
class PassOrder:
    """What a pass works on: the object, its newest forecast, why changes are not allowed (or None), and a rival.

    `queries`: the queries that rules give for its metrics, by identifier. `scaled`: the last thing that the scaler did to the
    target, or failed to do. `unsupported`: why nobody can carry the object out. `decided`: the newest decision about its
    replicas; None if the log has none for a long time, in which case the object's status still knows.
    """

    namespace: str
    name: str
    uid: str
    at: datetime
    forecast: LoadForecast | None = None
    objection: str | None = None
    rival: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)
    scaled: ActionFinished | None = None
    unsupported: str = ""
    decided: ScalingDecision | None = None
    contested: bool = False
    """Whether another EHPA names the same target."""

    @property
    def left_alone(self) -> str:
        """Why nothing is planned; empty where a pass knows that itself."""
        # A pass sees at once when these no longer apply, and the forecaster only in its next turn.
        refused = self.decided if isinstance(self.decided, ReplicasRefused) else None
        return "" if refused is None or refused.guard in _PASS_GUARDS else refused.reason


@dataclass(frozen=True, slots=True)
class ObjectWrite:
    """An object that a pass changed or failed to change; `fault` is the reason of a failure."""

    kind: str
    name: str
    change: ObjectChange
    version: str
    reason: str
    fault: str = ""


@dataclass(slots=True)
class PassReport:
    """The result of a pass: whether the object exists, its uid and generation, and the writes.

    `step` is the condition's reason where a step failed, `doing` the call that failed, if one did, and `failure` the sentence.
    """

    found: bool = False
    generation: int = 0
    uid: str = ""
    step: str = ""
    doing: str = ""
    failure: str = ""
    writes: list[ObjectWrite] = field(default_factory=list)

    def failed(self, step: str, error: BaseException) -> None:
        """Keep what failed, by the condition's reason."""
        self.step, self.doing, self.failure = step, error.doing if isinstance(error, EdgeError) else "", str(error)


_AGAINST = ("rival", "spec")
"""Guards by which the forecaster says that an EHPA does not scale its target."""


# The forecaster refuses all but one, each with the guard `rival` or, where it cannot be carried out, `spec`. While the log has no
# verdict yet, the same rule is applied to the same objects.
def rival(key: str, contenders: Sequence[EhpaChanged], decided: Mapping[str, ScalingDecision]) -> str:
    """The EHPA that scales the target in place of the one with this key, as `namespace/name`; empty if there is none."""
    first = _governing(contenders, decided)
    return "" if first is None or first.key == key else f"{first.namespace}/{first.name}"


def _governing(contenders: Sequence[EhpaChanged], decided: Mapping[str, ScalingDecision]) -> EhpaChanged | None:
    claims = [contender for contender in contenders if contender.claims]
    chosen = {claim.key: at for claim in claims if (at := _chosen(claim, decided.get(claim.key))) is not None}
    # The forecaster looks at one EHPA after the other, so there may be two verdicts, of which the newer counts.
    if chosen:
        return min(
            (claim for claim in claims if claim.key in chosen), key=lambda claim: (-chosen[claim.key].timestamp(), claim.rank)
        )
    return min(claims, key=lambda claim: claim.rank, default=None)


def _chosen(ehpa: EhpaChanged, decision: ScalingDecision | None) -> datetime | None:
    """When the forecaster last said that this one scales its target; None if it did not, or said so of an earlier target."""
    if decision is None or decision.workload.key != ehpa.target:
        return None
    return None if isinstance(decision, ReplicasRefused) and decision.guard in _AGAINST else decision.at
