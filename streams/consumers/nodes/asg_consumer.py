"""The asg consumer: carries out the decisions about nodes on AWS and the cluster, and removes stale marks from nodes."""

from collections.abc import Collection

import structlog

from schemas.catalogue import Event
from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    NodeRemovalPlanned,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.outcomes import Action
from streams.clients.aws.aws_client import AwsClient
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import ActPermit, Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.nodes import buffer_status, group_size, node_events, removal_marks
from streams.consumers.nodes.node_removal import NodeRemoval, NodeWorld, RemovalOptions
from streams.errors import EdgeError
from streams.log_context import LogContext

TOPIC = "node-updates"
_log = structlog.get_logger(__name__)


def asg_consumer(
    context: LogContext, world: NodeWorld, options: RemovalOptions | None = None, lease: HolderLease | None = None
) -> Executor:
    """A consumer that carries out the decisions about nodes, while it holds the `lease` if there is one."""
    chosen = options or RemovalOptions()
    permit = ActPermit(lease)
    removal = NodeRemoval(world, permit, chosen)
    return Executor(
        context,
        Handler(
            TOPIC,
            ScaleUpPlanned,
            Action.SCALE_UP,
            act=lambda plan: _grow(world, plan, permit, protect=chosen.protect),
            look=lambda plan: group_size.look_at_raised(world.aws, plan),
        ),
        Handler(
            TOPIC,
            SizeCorrectionPlanned,
            Action.CORRECT_SIZE,
            act=lambda plan: _lower(world, plan, permit),
            look=lambda plan: group_size.look(world.aws, plan),
        ),
        Handler(TOPIC, NodeRemovalPlanned, Action.REMOVE_NODE, act=removal.act, look=removal.look, undo=removal.undo),
        Handler(
            TOPIC,
            SoftTaintPlanned,
            Action.SOFT_TAINT,
            act=lambda plan: removal_marks.change_soft_taint(world.nodes, plan, permit, world.now()),
            look=lambda plan: removal_marks.look_at_soft_taint(world.nodes, plan),
            at_once=True,
        ),
        Handler(
            TOPIC,
            BufferStatusPlanned,
            Action.BUFFER_STATUS,
            act=lambda plan: buffer_status.write(world.buffers, plan, permit, world.now()),
            look=lambda plan: buffer_status.look(world.buffers, plan),
            at_once=True,
        ),
        permit=permit,
        upkeep=lambda pending: sweep(world, pending),
        notice=lambda event: _notice(world, context.cluster, event),
    )


def _notice(world: NodeWorld, cluster: str, event: Event) -> None:
    """What is decided that nobody carries out, and that people look for in the cluster."""
    if getattr(event, "cluster", cluster) == cluster:
        node_events.record_notice(world.record, world.nodes, event)


def _grow(world: NodeWorld, plan: ScaleUpPlanned, permit: ActPermit, *, protect: bool) -> HandlerResult | None:
    with node_events.recorded_failure(world.record, plan):
        result = group_size.raise_size(world.aws, plan, permit, protect=protect)
    if result is None:
        node_events.record_growth(world.record, world.nodes, plan)
    return result


def _lower(world: NodeWorld, plan: SizeCorrectionPlanned, permit: ActPermit) -> HandlerResult | None:
    with node_events.recorded_failure(world.record, plan):
        return group_size.lower(world.aws, plan, permit)


def sweep(world: NodeWorld, pending: Collection[str]) -> None:
    """Take our marks off nodes whose removal is abandoned: its decision was lost, or is older than the outcomes in memory."""
    pending_digests = {removal_marks.digest(decision) for decision in pending}
    try:
        for node in world.nodes.labelled(removal_marks.MARK):
            mark = removal_marks.read(node)
            # A node whose instance ends keeps its marks until it is gone, so that nothing is scheduled there.
            if mark is not None and mark.digest not in pending_digests and _works(world.aws, node.provider_id):
                world.nodes.change(node, **removal_marks.removed(node))
                _log.warning("a mark that no pending decision needs was taken off", node=node.name)
    except EdgeError as error:
        _log.warning("nodes could not be looked through for old marks", error=str(error))  # the next sweep tries again


def _works(aws: AwsClient, provider_id: str) -> bool:
    """Whether the instance of a node goes on running."""
    instance = provider_id.rpartition("/")[2]
    member = aws.group_instance(instance)
    if member is not None:
        return not member[1].leaving
    # It is in no group, and may run all the same.
    state = aws.instance_states([instance]).get(instance)
    return state is not None and not state.gone
