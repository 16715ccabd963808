"""Lets a group grow, if its desired size still is what the plan expected.

Done means that the group shows the number; facts about the group later show whether nodes came up. If the group's desired size
has changed meanwhile, it is left alone: somebody else changed it, and the next facts lead to a new plan.
"""

from schemas.decisions.node_updates import ScaleUpPlanned
from schemas.outcomes import OutcomeDetail, Result
from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.group_responses import AutoScalingGroup
from streams.consumers.executing.act_permit import ActPermit
from streams.consumers.executing.handler import HandlerResult
from streams.consumers.nodes import instance_protection


def grow(aws: AwsClient, plan: ScaleUpPlanned, permit: ActPermit, *, protect: bool) -> HandlerResult | None:
    """Look, ask the permit, then AWS. Raises TryAgain and GiveUp."""
    group = aws.group(plan.group)
    if group is None:
        return HandlerResult(Result.REFUSED, f"it moved: group '{plan.group}' is gone", OutcomeDetail.NOT_FOUND)
    if group.desired >= plan.after:
        return _shown(group)
    if group.desired != plan.before:
        reason = f"it moved: group '{plan.group}' wants {group.desired} nodes, expected {plan.before}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    if group.unscalable:
        return HandlerResult(Result.REFUSED, f"group '{plan.group}': {group.unscalable}", OutcomeDetail.INVALID)
    if plan.after > group.most:
        reason = f"group '{plan.group}' may have {group.most} nodes, planned were {plan.after}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.AT_LIMIT)
    permit.check("scaling group", plan.group)
    aws.raise_desired(group, plan.after)
    if protect:
        instance_protection.protect(aws, group)
    return None


def look(aws: AwsClient, plan: ScaleUpPlanned) -> HandlerResult | str:
    """The result if the group has this desired size; else what it shows. Raises TryAgain and GiveUp."""
    group = aws.group(plan.group)
    if group is None:
        return f"group '{plan.group}' is gone"
    return _shown(group) if group.desired >= plan.after else f"group '{group.name}' wants {group.desired} nodes"


def _shown(group: AutoScalingGroup) -> HandlerResult:
    return HandlerResult(Result.DONE, f"group '{group.name}' wants {group.desired} nodes", OutcomeDetail.ALREADY_DONE)
