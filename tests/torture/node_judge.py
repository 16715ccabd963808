"""Judges what was done to node groups: what AWS carried out and what the cluster shows, against the decisions and outcomes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from schemas.decisions.node_updates import (
    NodeRemovalPlanned,
    RemovalReason,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.facts.nodes import NodeGroupSeen
from schemas.outcomes import ActionFinished, Result
from tests.torture.node_cloud import END, RAISE, AwsAct

SEEN_FOR = timedelta(seconds=20)
"""Event time after which the stage must have taken in what the log says of a group: four ticks."""

NodePlan = ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned | SoftTaintPlanned
ACTS_AFTER_PAUSE = 1.0
"""Seconds of real time after a pause in which something that was under way may still be carried out."""
UNDER_WAY = 1
"""Acts of each pause that may have left the consumer before it."""


@dataclass
class NodeEvidence:
    """Everything that a verdict rests on. Times of the log and of AWS are real."""

    acts: Sequence[AwsAct]
    plans: Sequence[NodePlan]
    outcomes: Sequence[ActionFinished]
    groups: Mapping[str, Sequence[str]]
    """The instances of each group in the end."""
    desired: Mapping[str, int]
    ended: Sequence[str]
    """Instances that are gone."""
    nodes: Mapping[str, str]
    """The nodes of the cluster in the end, and the instance of each."""
    marked: Sequence[str]
    lost: Sequence[str]
    least_ready: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By deployment: the fewest pods that were ready at once, and how many its disruption budget keeps."""
    pauses: Sequence[tuple[float, float]] = ()
    waiting: Sequence[str] = ()
    """Pods that no node has taken in the end."""
    deleted: Sequence[str] = ()
    """Instances that AWS ended with their group."""
    told: Sequence[NodeGroupSeen] = ()
    """What the log says of groups, in order."""


def judge(seen: NodeEvidence) -> tuple[Counter[str], list[str]]:
    """Figures, and what is wrong."""
    wrong = [*_terminations(seen), *_raises(seen), *_outcomes(seen), *_remains(seen), *_paused(seen), *_switched(seen)]
    done = Counter(outcome.action.value for outcome in seen.outcomes if outcome.result is Result.DONE)
    drained = {plan.id for plan in seen.plans if isinstance(plan, NodeRemovalPlanned) and plan.evict}
    figures = Counter(
        {
            "plans": len(seen.plans),
            "raises": sum(act.action == RAISE for act in seen.acts),
            "terminations": sum(act.action == END for act in seen.acts),
            "drained": sum(one.decision in drained and one.result is Result.DONE for one in seen.outcomes),
            "growth done": done["scale-up"],
            "removals done": done["remove-node"],
            "soft taints done": done["soft-taint"],
            "sizes lowered": done["correct-size"],
            "never joined": sum(getattr(plan, "reason", None) is RemovalReason.UNREGISTERED for plan in seen.plans),
            "refused": sum(one.result is Result.REFUSED for one in seen.outcomes),
            "failed": sum(one.result is Result.FAILED for one in seen.outcomes),
            "expired": sum(one.result is Result.EXPIRED for one in seen.outcomes),
        }
    )
    return figures, wrong


def _terminations(seen: NodeEvidence) -> Iterable[str]:
    """Each instance that ended was named by a decision, and ended once, with its group's size lowered by one."""
    planned = {plan.instance: plan for plan in seen.plans if isinstance(plan, NodeRemovalPlanned)}
    ended = Counter(act.arguments["InstanceId"] for act in seen.acts if act.action == END)
    for act in seen.acts:
        if act.action == END:
            instance = act.arguments["InstanceId"]
            if instance not in planned:
                yield f"instance {instance} was terminated without a decision"
            plan = planned.get(instance)
            keeps = plan is not None and plan.reason is RemovalReason.UNREGISTERED  # at its group's minimum it is replaced
            if act.arguments.get("ShouldDecrementDesiredCapacity") != "true" and not keeps:
                yield f"instance {instance} was terminated and its group started another one"
    yield from (f"instance {one} was terminated {times} times" for one, times in ended.items() if times > 1)
    yield from (f"instance {one} is gone, and nobody terminated it" for one in seen.ended if one not in {*ended, *seen.deleted})


def _raises(seen: NodeEvidence) -> Iterable[str]:
    """Sizes went up to numbers that a decision names, and down only where one gives up what AWS did not deliver."""
    planned = {(plan.group, plan.after) for plan in seen.plans if isinstance(plan, ScaleUpPlanned)}
    given_up = [plan for plan in seen.plans if isinstance(plan, SizeCorrectionPlanned)]
    for act in seen.acts:
        if act.action == RAISE:
            group, wanted = act.arguments["AutoScalingGroupName"], int(act.arguments["DesiredCapacity"])
            allowed = any(plan.group == group and plan.after <= wanted and plan.before == act.wanted for plan in given_up)
            if wanted < act.wanted and not allowed:
                yield f"group {group} was lowered from {act.wanted} to {wanted}"
            if (group, wanted) not in planned and not (wanted < act.wanted and allowed):
                yield f"group {group} was let grow to {wanted}, which nobody decided"


def _outcomes(seen: NodeEvidence) -> Iterable[str]:
    """Each plan has one outcome, and "done" is what AWS shows."""
    by_plan: dict[str, list[ActionFinished]] = {}
    for outcome in seen.outcomes:
        by_plan.setdefault(outcome.decision, []).append(outcome)
    raised = {
        (act.arguments["AutoScalingGroupName"], int(act.arguments["DesiredCapacity"])) for act in seen.acts if act.action == RAISE
    }
    for plan in seen.plans:
        found = by_plan.pop(plan.id, [])
        if not found:
            yield f"{plan.id} has no outcome"
        if len({(one.result, one.detail) for one in found}) > 1:
            yield f"{plan.id} has several outcomes: {sorted(str(one.result) for one in found)}"
        if any(one.result is Result.DONE for one in found):
            yield from _not_done(plan, seen, raised)
    yield from (f"an outcome names {name}, which nobody decided" for name in by_plan)


def _not_done(plan: NodePlan, seen: NodeEvidence, raised: set[tuple[str, int]]) -> Iterable[str]:
    if isinstance(plan, NodeRemovalPlanned) and plan.instance not in seen.ended:
        yield f"{plan.id} is done, and instance {plan.instance} is still there"
    if isinstance(plan, ScaleUpPlanned) and not any(group == plan.group and after >= plan.after for group, after in raised):
        yield f"{plan.id} is done, and group {plan.group} never wanted {plan.after}"


def _remains(seen: NodeEvidence) -> Iterable[str]:
    """In the end nothing is half done, and AWS and the cluster agree."""
    yield from (f"node {name} is still marked" for name in seen.marked)
    yield from (f"pod {name} was lost with its node" for name in seen.lost)
    yield from (f"pod {name} waits, though some group delivers nodes for it" for name in seen.waiting)
    there = {one for instances in seen.groups.values() for one in instances}
    yield from (f"node {name} has no instance any more" for name, one in seen.nodes.items() if one not in there)
    for name, instances in seen.groups.items():
        if seen.desired[name] != len(instances):
            yield f"group {name} wants {seen.desired[name]} and has {len(instances)}"
    for name, (least, keep) in seen.least_ready.items():
        if least < keep:
            yield f"only {least} pods of {name} were ready at once, and its budget keeps {keep}"


def _switched(seen: NodeEvidence) -> Iterable[str]:
    """Nothing is planned against a switch that the log tells of, nor done against one that AWS shows."""
    told: dict[str, list[NodeGroupSeen]] = defaultdict(list)
    for fact in seen.told:
        told[fact.group].append(fact)
    for plan in seen.plans:
        if isinstance(plan, ScaleUpPlanned | NodeRemovalPlanned):
            lately = [fact for fact in told[plan.group] if plan.at - SEEN_FOR < fact.at <= plan.at]
            before = [fact for fact in told[plan.group] if fact.at <= plan.at - SEEN_FOR]
            shown = [_against(plan, fact) for fact in (*before[-1:], *lately)]
            if shown and all(shown):  # else a switch was taken back a moment ago
                yield f"{plan.id} concerns group {plan.group}, of which the log says: {shown[0]}"
    for act in seen.acts:
        if act.held:
            yield f"instance {act.arguments['InstanceId']} was terminated although {act.held}"


def _against(plan: ScaleUpPlanned | NodeRemovalPlanned, fact: NodeGroupSeen) -> str:
    """The switch of a group that a plan goes against."""
    if fact.unscalable:
        return fact.unscalable
    grows = isinstance(plan, ScaleUpPlanned)
    if ("Launch" if grows else "Terminate") in fact.suspended:
        return f"{', '.join(fact.suspended)} suspended"
    return "its instances are refreshed" if fact.refreshing and not grows else ""


def _paused(seen: NodeEvidence) -> Iterable[str]:
    for begin, end in seen.pauses:
        late = [act for act in seen.acts if begin + ACTS_AFTER_PAUSE < act.at < end]
        if len(late) > UNDER_WAY:
            yield f"{len(late)} acts under a pause: {[act.action for act in late[:3]]}"
