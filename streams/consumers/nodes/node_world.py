"""What the asg consumer acts on."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from streams.clients.aws.aws_client import AwsClient
from streams.clients.kube.capacity_buffer_client import CapacityBufferClient
from streams.clients.kube.event_recorder import RecordEvent, record_nothing
from streams.clients.kube.node_drain_client import NodeDrainClient


@dataclass(frozen=True, slots=True)
class NodeWorld:
    """Groups in AWS, nodes, CapacityBuffers and Events in the cluster, and real time: pods and taints know no other."""

    aws: AwsClient
    nodes: NodeDrainClient
    buffers: CapacityBufferClient
    now: Callable[[], datetime]
    record: RecordEvent = record_nothing
