"""Wires the node groups of a simulated cluster to a log: the real sources publish them, and the real consumer acts on them.

Everything runs on the cluster's own time, because a day may pass in a minute: so sources and consumer live in the cluster's
process, as its admission does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.processes.source_asg import node_template
from streams.clients.aws.aws_client import AwsClient
from streams.clients.kube.capacity_buffer_client import CapacityBufferClient
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.log_context import LogContext
from streams.simulated.api_server import KubernetesPaths, SimulatedApi
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.scheduling_changes import SchedulingChanges
from streams.sources.asg.asg_source import AsgSource, GroupSelection
from streams.sources.simulated_scheduling_poller import SimulatedSchedulingPoller

OPTIONS = RemovalOptions(evictions=1)  # one after the other, so that the same seed gives the same day


@dataclass(frozen=True, slots=True)
class SimulatedNodeGroups:
    """The node groups of a simulated cluster. `publish` publishes what is new, `act` carries out what was decided."""

    publish: Callable[[datetime], object]
    act: Callable[[], object]


def open_node_groups(
    cluster: SimulatedCluster,
    context: Callable[[], LogContext],
    *,
    world: NodeWorld | None = None,
    apart: timedelta = timedelta(),
) -> SimulatedNodeGroups:
    """Sources and consumer, each with a `context` of its own. `world` has other clients in tests of their failures.

    `apart` is how far apart the moments of `publish` are.
    """
    acted_on = world or node_world(cluster)
    scheduling = SimulatedSchedulingPoller(context(), SchedulingChanges(cluster).take)
    groups = AsgSource(acted_on.aws, context(), GroupSelection(tags={"owner": ""}, prices=cluster.cloud.prices), node_template)
    # a source that is asked less often must not seem silent in between
    groups.period = max(groups.period, apart)
    consumer = asg_consumer(context(), acted_on, OPTIONS)

    def publish(at: datetime) -> None:
        scheduling.poll(at)
        groups.poll(at)

    return SimulatedNodeGroups(publish, consumer.poll_once)


def node_world(cluster: SimulatedCluster) -> NodeWorld:
    """The real clients on a simulated cluster and its cloud."""
    api = SimulatedApi(KubernetesPaths(cluster))
    return NodeWorld(
        AwsClient(cluster.cloud, cluster.cloud), NodeDrainClient(api), CapacityBufferClient(api), lambda: cluster.now
    )
