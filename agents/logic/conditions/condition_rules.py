"""The rules by which a VPA object gets its conditions.

Rules and texts are upstream's (pkg/recommender/model, vpa.go), but for the conditions of a loop of OOM kills and of outdated
facts, which are ours. A condition keeps the time of its last flip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.logic.resources.target_caps import MemoryBound
from schemas import times
from schemas.bounds import MOST_ON_ONE_TARGET
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition
from schemas.policies.vertical import ContainerMode
from schemas.policies.vpa import VpaChanged

NO_PODS_REASON = "NoPodsMatched"
NO_PODS_MESSAGE = "No pods match this VPA object"


@dataclass(frozen=True, slots=True)
class TargetKnowledge:
    """The known state of a VPA's target. `pods` is None while no source reports pods.

    `containers` is the recommendation: empty for none, None while it is unknown. `rival` is `namespace/name` of the VPA that
    governs the target instead of this one, if any. `crowded`: so many VPAs have this target that this one is ignored.
    `bound`: what keeps a loop of OOM kills going, None where there is no such loop. `blind_since`: the last turn in which a
    source saw the pods of the cluster, where that was too long ago.
    """

    pods: int | None = None
    containers: Sequence[ContainerRecommendation] | None = ()
    rival: str = ""
    crowded: bool = False
    bound: MemoryBound | None = None
    blind_since: int | None = None


def conditions(
    vpa: VpaChanged, target: TargetKnowledge, before: Sequence[DecidedCondition], at: datetime
) -> tuple[DecidedCondition, ...]:
    """The conditions of a VPA in the order of their types. `before`: those that were decided last; `at`: now."""
    now = at.replace(microsecond=0)  # metav1.Time has whole seconds, and a condition that is read back must equal this one
    since = {condition.type: condition for condition in before}
    governed = _crowded(vpa) if target.crowded else _rivalled(vpa, target.rival)
    unsupported = vpa.unsupported or governed
    pods = 0 if unsupported else target.pods
    # A VPA whose target another one governs says so, instead of claiming that no pods match.
    no_pods = _status(None if pods is None else pods == 0 and (not governed or bool(vpa.unsupported)))
    # While it is unknown whether there are pods, the last condition stays.
    if pods is None and ConditionType.NO_PODS in since:
        no_pods = since[ConditionType.NO_PODS].status
    provided = _status(None if target.containers is None and not target.rival else bool(target.containers))
    missing = provided is not ConditionStatus.TRUE and no_pods is ConditionStatus.TRUE
    reasons = {True: (NO_PODS_REASON, NO_PODS_MESSAGE), False: ("", "")}
    # Upstream has neither of these two conditions, so nothing is said of them before they are true for the first time.
    limited = _memory_limited(target.bound, now) if target.bound or ConditionType.MEMORY_LIMITED in since else ()
    blind = _facts_outdated(target.blind_since, now) if target.blind_since or ConditionType.FACTS_OUTDATED in since else ()
    decided = (
        DecidedCondition(ConditionType.UNSUPPORTED, _status(bool(unsupported)), now, "", unsupported),
        DecidedCondition(ConditionType.NO_PODS, no_pods, now, *reasons[no_pods is ConditionStatus.TRUE]),
        DecidedCondition(ConditionType.PROVIDED, provided, now, *reasons[missing]),
        *limited,
        *blind,
    )
    return tuple(_keep_time(condition, since.get(condition.type)) for condition in decided)


def shown(vpa: VpaChanged, recommended: Sequence[ContainerRecommendation]) -> tuple[ContainerRecommendation, ...]:
    """The recommendation that a status shows, by container name, without containers that the VPA has switched off since."""
    # When a VPA switches off all of its containers, the recommender decides nothing about them any more.
    modes = {entry.container: entry.mode for entry in vpa.containers}
    recommendations = [entry for entry in recommended if modes.get(entry.container, modes.get("*")) is not ContainerMode.OFF]
    return tuple(sorted(recommendations, key=lambda entry: entry.container))


def _memory_limited(bound: MemoryBound | None, now: datetime) -> tuple[DecidedCondition]:
    texts = ("", "") if bound is None else (bound.reason, bound.clause)
    return (DecidedCondition(ConditionType.MEMORY_LIMITED, _status(bound is not None), now, *texts),)


def _facts_outdated(seen: int | None, now: datetime) -> tuple[DecidedCondition]:
    reason, message = "", ""
    if seen is not None:
        reason = "NoSource"
        message = f"No source has seen the pods since {times.rfc3339(times.from_ms(seen))}, so nothing is planned for them"
    return (DecidedCondition(ConditionType.FACTS_OUTDATED, _status(seen is not None), now, reason, message),)


def _status(holds: bool | None) -> ConditionStatus:
    if holds is None:
        return ConditionStatus.UNKNOWN
    return ConditionStatus.TRUE if holds else ConditionStatus.FALSE


def _rivalled(vpa: VpaChanged, rival: str) -> str:
    ref = vpa.target_ref
    if not rival or ref is None:
        return ""
    return f"The targetRef '{ref.kind}/{ref.name}' is governed by the older VPA '{rival}' already"


def _crowded(vpa: VpaChanged) -> str:
    ref = vpa.target_ref
    name = "" if ref is None else f"{ref.kind}/{ref.name}"
    return (
        f"More than {MOST_ON_ONE_TARGET} VPAs have the targetRef '{name}'; this one is not among the oldest and is not looked at"
    )


def _keep_time(new: DecidedCondition, old: DecidedCondition | None) -> DecidedCondition:
    if old is None or old.status is not new.status:
        return new
    return DecidedCondition(new.type, new.status, old.since, new.reason, new.message)
