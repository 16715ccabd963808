"""What one pass over an EHPA works on, and what it reports.

The consumer fills an order from the log, and the pass reads everything else from the API server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.decisions.replica_plans import LoadForecast, ReplicasRefused
from schemas.outcomes import ActionFinished, ObjectChange
from streams.consumers.replicas.direct_conditions import ScalingDecision
from streams.errors import EdgeError

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
