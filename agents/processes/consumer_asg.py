"""Puts the asg consumer together: AWS, the cluster's nodes, and how a node is emptied, by the settings."""

from agents.processes.consumer_webhook import real_time
from agents.processes.source_asg import connect_aws
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.capacity_buffer_client import CapacityBufferClient
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.executing.object_events import RecordEvent
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.node_removal import RemovalOptions
from streams.consumers.nodes.node_world import NodeWorld
from streams.log_context import LogContext


def asg(context: LogContext, settings: Settings, lease: HolderLease | None, record: RecordEvent) -> Executor:
    """The asg consumer with these settings. Raises BadInput where the AWS SDK is not installed."""
    api = Api(cluster_factory.connection(settings.cluster))
    ours = settings.drain
    options = RemovalOptions(
        cordon=ours.cordon,
        delay=Seconds(ours.delay_seconds),
        gone_margin=Seconds(ours.gone_margin_seconds),
        hooks=Seconds(ours.hooks_seconds),
        evictions=ours.evictions,
        protect=settings.aws.protect_instances,
    )
    world = NodeWorld(connect_aws(settings.aws), NodeDrainClient(api), CapacityBufferClient(api), real_time, record)
    return asg_consumer(context, world, options, lease)
