"""What the largest node of a cluster has for pods, as the log says.

Sources publish each node again and again, so the end of the topic names them all. A log without nodes says nothing.
"""

from datetime import timedelta

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.consumers.executing.cursor import Cursor
from streams.log_context import LogContext
from streams.log_range import offset_before_end

REACH = timedelta(hours=6)
"""How far back the log is read at first: twice the time after which a source publishes a node again."""


class NodeSizes:
    """The nodes of the context's cluster."""

    def __init__(self, context: LogContext) -> None:
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._nodes: dict[str, Amounts] = {}

    def largest(self) -> Amounts | None:
        """The most of each resource that a node has now, after reading the log to its end; None where no node is known.

        Raises LogUnavailable.
        """
        if self._cursor is None:
            place = self._context.cluster_partition("cluster-changes")
            self._cursor = Cursor(self._context.log, {place: offset_before_end(self._context.log, *place, REACH)})
        for record in self._cursor.catch_up():
            match self._context.codec.decode_or_none(record):
                case NodeChanged(cluster=self._context.cluster, node=name, allocatable=allocatable):
                    self._nodes[name] = allocatable
                case NodeRemoved(cluster=self._context.cluster, node=name):
                    self._nodes.pop(name, None)
        if not self._nodes:
            return None
        cpu = [node.cpu for node in self._nodes.values() if node.cpu is not None]
        memory = [node.memory for node in self._nodes.values() if node.memory is not None]
        return Amounts(Cores(max(cpu)) if cpu else None, Bytes(max(memory)) if memory else None)
