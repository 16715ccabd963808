"""Which of several EHPAs that name one target scales it: the forecaster's verdict, as the log has it.

The forecaster refuses all but one, each with the guard `rival` or, where it cannot be carried out, `spec`. While the log has no
verdict yet, the same rule is applied to the same objects. So a target never has two HPAs of ours.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from schemas.decisions.replica_plans import ReplicasRefused
from schemas.policies.ehpa import EhpaChanged
from streams.consumers.replicas.direct_conditions import ScalingDecision

_AGAINST = ("rival", "spec")
"""Guards by which the forecaster says that an EHPA does not scale its target."""


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
