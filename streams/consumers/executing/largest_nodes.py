"""What the largest node of a cluster has for pods, according to the log.

Nodes of impossible size are ignored.
"""

from datetime import timedelta

from schemas import bounds
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.clock_log import ClockReader
from streams.consumers.executing.cursor import Cursor
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import event_time_ms, offset_before_end

# Twice the time after which a source publishes a node again: the end of the topic names all nodes, and none that is gone.
REACH = timedelta(hours=6)


class LargestNodes:
    """The nodes of the context's cluster."""

    def __init__(self, context: LogContext) -> None:
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._nodes: dict[str, tuple[int, Amounts]] = {}
        """What each node has, and when its source said so, in milliseconds of event time; -1 where that is unknown."""
        self._clock = ClockReader(self._context.log, self._context.topics)

    def largest(self) -> Amounts | None:
        """The most of each resource that a node has now, after reading the log to its end; None where no node is known.

        Raises LogUnavailable.
        """
        self._clock.catch_up()
        if self._cursor is None:
            place = self._context.cluster_partition("cluster-changes")
            self._cursor = Cursor(self._context.log, {place: offset_before_end(self._context.log, *place, REACH)})
        for record in self._cursor.catch_up():
            self._apply(record)
        oldest = self._clock.counted.number - REACH // timedelta(milliseconds=1)
        self._nodes = {name: node for name, node in self._nodes.items() if node[0] < 0 or node[0] >= oldest}
        sizes = [size for _, size in self._nodes.values()]
        if not sizes:
            return None
        cpu = [size.cpu for size in sizes if size.cpu is not None]
        memory = [size.memory for size in sizes if size.memory is not None]
        return Amounts(Cores(max(cpu)) if cpu else None, Bytes(max(memory)) if memory else None)

    def _apply(self, record: Record) -> None:
        match self._context.codec.decode_or_none(record):
            case NodeChanged(cluster=self._context.cluster, node=name, allocatable=size):
                if not any(bounds.amounts("allocatable", size)):
                    self._nodes[name] = event_time_ms(record), size
            case NodeRemoved(cluster=self._context.cluster, node=name):
                self._nodes.pop(name, None)
