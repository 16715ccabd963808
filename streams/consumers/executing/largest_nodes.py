"""What the largest node of a cluster has for pods, according to the log.

Sources publish each node again and again, so the end of the topic names them all, and a node that is no longer published does not
count. Nodes of impossible size are ignored.
"""

from datetime import timedelta

from schemas import bounds
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.codec.event_codec import latest_tick
from streams.consumers.executing.cursor import Cursor
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import offset_before_end

REACH = timedelta(hours=6)
"""How far back the log is read, and how long a node counts: twice the time after which a source publishes a node again."""


class LargestNodes:
    """The nodes of the context's cluster."""

    def __init__(self, context: LogContext) -> None:
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._nodes: dict[str, tuple[int, Amounts]] = {}
        """What each node has, and the newest tick before it said so."""
        self._tick = -1

    def largest(self) -> Amounts | None:
        """The most of each resource that a node has now, after reading the log to its end; None where no node is known.

        Raises LogUnavailable.
        """
        if self._cursor is None:
            place = self._context.cluster_partition("cluster-changes")
            self._cursor = Cursor(self._context.log, {place: offset_before_end(self._context.log, *place, REACH)})
        for record in self._cursor.catch_up():
            self._apply(record)
        oldest = self._tick - REACH // timedelta(milliseconds=1)
        self._nodes = {name: node for name, node in self._nodes.items() if node[0] < 0 or node[0] >= oldest}
        sizes = [size for _, size in self._nodes.values()]
        if not sizes:
            return None
        cpu = [size.cpu for size in sizes if size.cpu is not None]
        memory = [size.memory for size in sizes if size.memory is not None]
        return Amounts(Cores(max(cpu)) if cpu else None, Bytes(max(memory)) if memory else None)

    def _apply(self, record: Record) -> None:
        tick = latest_tick(record, before=self._tick)
        if tick is not None:
            self._tick = tick
            return
        match self._context.codec.decode_or_none(record):
            case NodeChanged(cluster=self._context.cluster, node=name, allocatable=size):
                if not any(bounds.amounts("allocatable", size)):
                    self._nodes[name] = self._tick, size
            case NodeRemoved(cluster=self._context.cluster, node=name):
                self._nodes.pop(name, None)
