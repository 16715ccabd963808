"""Changes how many nodes a group wants: more, as planned, or no more than there are, where its cloud failed to deliver.

Done means that the group shows the number; facts about the group later show whether nodes came up. If the group's desired size
has changed meanwhile, it is left alone: somebody else changed it, and the next facts lead to a new plan.
"""

import structlog

from schemas.decisions.node_updates import ScaleUpPlanned, SizeCorrectionPlanned
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Seconds, counted
from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.group_responses import AutoScalingGroup
from streams.consumers.executing.handler import ActPermit, HandlerResult
from streams.errors import EdgeError, TryAgain

_SOON = Seconds(1.0)
_log = structlog.get_logger(__name__)


def lower(aws: AwsClient, plan: SizeCorrectionPlanned, permit: ActPermit) -> HandlerResult | None:
    """Do the next step; None after the last. Raises TryAgain while there is one, and GiveUp."""
    group = aws.group(plan.group)
    if group is None:
        return HandlerResult(Result.REFUSED, f"it moved: group '{plan.group}' is gone", OutcomeDetail.NOT_FOUND)
    # AWS ends instances where a group wants fewer than it has, and chooses them itself.
    least = max(plan.after, group.existing, group.least)
    if group.desired <= least:
        return _nothing_missing(group, plan)
    if group.desired != plan.before:
        reason = f"it moved: group '{plan.group}' wants {counted(group.desired, 'node')}, expected {plan.before}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    if group.unscalable:
        return HandlerResult(Result.REFUSED, f"group '{plan.group}': {group.unscalable}", OutcomeDetail.INVALID)
    permit.check("lowering group", plan.group)
    # If AWS delivers an instance between our look and our request after all, that one has to go, which has no pods yet.
    bare = _bare(group)
    if bare:
        aws.protect(group.name, bare, protected=True)
        answer = f"{len(bare)} instances were protected first"
        raise TryAgain(doing="lowering group", to=plan.group, answer=answer, after=_SOON)
    aws.give_up_missing(group, least)
    return None


def look(aws: AwsClient, plan: SizeCorrectionPlanned) -> HandlerResult | str:
    """The result if the group wants no more than planned, or has all that it wants; else what it shows. Raises as `lower`."""
    group = aws.group(plan.group)
    if group is None:
        return f"group '{plan.group}' is gone"
    if group.desired > max(plan.after, group.existing, group.least):
        return f"group '{plan.group}' wants {counted(group.desired, 'node')}, and has {group.existing}"
    return _nothing_missing(group, plan)


def _nothing_missing(group: AutoScalingGroup, plan: SizeCorrectionPlanned) -> HandlerResult:
    if group.existing < group.desired == group.least:
        reason = f"group '{plan.group}' may not want less than {counted(group.least, 'node')}; it has {group.existing}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.AT_LIMIT)
    reason = f"group '{plan.group}' wants {counted(group.desired, 'node')}, and has {group.existing}"
    return HandlerResult(Result.DONE, reason, OutcomeDetail.ALREADY_DONE)


def raise_size(aws: AwsClient, plan: ScaleUpPlanned, permit: ActPermit, *, protect: bool) -> HandlerResult | None:
    """Look, ask the permit, then AWS. Raises TryAgain and GiveUp."""
    group = aws.group(plan.group)
    if group is None:
        return HandlerResult(Result.REFUSED, f"it moved: group '{plan.group}' is gone", OutcomeDetail.NOT_FOUND)
    if group.desired >= plan.after:
        return _raised_shown(group)
    if group.desired != plan.before:
        reason = f"it moved: group '{plan.group}' wants {counted(group.desired, 'node')}, expected {plan.before}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    if group.unscalable:
        return HandlerResult(Result.REFUSED, f"group '{plan.group}': {group.unscalable}", OutcomeDetail.INVALID)
    if plan.after > group.most:
        reason = f"group '{plan.group}' may have {counted(group.most, 'node')}, planned were {plan.after}"
        return HandlerResult(Result.REFUSED, reason, OutcomeDetail.AT_LIMIT)
    permit.check("scaling group", plan.group)
    aws.raise_desired(group, plan.after)
    if protect:
        protect_instances(aws, group)
    return None


def look_at_raised(aws: AwsClient, plan: ScaleUpPlanned) -> HandlerResult | str:
    """The result if the group has this desired size; else what it shows. Raises TryAgain and GiveUp."""
    group = aws.group(plan.group)
    if group is None:
        return f"group '{plan.group}' is gone"
    return _raised_shown(group) if group.desired >= plan.after else f"group '{group.name}' wants {counted(group.desired, 'node')}"


def _raised_shown(group: AutoScalingGroup) -> HandlerResult:
    return HandlerResult(Result.DONE, f"group '{group.name}' wants {counted(group.desired, 'node')}", OutcomeDetail.ALREADY_DONE)


def protect_instances(aws: AwsClient, group: AutoScalingGroup) -> None:
    """Protect the group's instances in service from scale-in, so that only our decisions end one. A failure stops nothing.

    A group can also be configured to start its instances protected (docs/nodes.md).
    """
    bare = _bare(group)
    if not bare:
        return
    try:
        aws.protect(group.name, bare, protected=True)
    except EdgeError as error:
        _log.warning("instances are not protected from their group", group=group.name, error=str(error))


def _bare(group: AutoScalingGroup) -> list[str]:
    return [instance.id for instance in group.instances if instance.lifecycle == "InService" and not instance.protected]
