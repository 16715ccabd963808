"""Bounds what is held of an input that runs ahead of the others.

Pause only an input that is over the bound and already holds a complete segment that the others lack: the input that the turn
waits for is never paused, so a pause cannot stop the turn. An input that several stages read is never paused, since one
stage's wait would be the other's famine; such inputs (policies) are small. Faust drops what it has in hand of a paused
partition, so reading resumes by a seek; if that seek fails to take, the gap is closed like any other.
"""

from agents.app.faust_consumer import Flow
from agents.app.owned_partition import Held


class Pauses:
    """The pauses of one stage. `wires` maps the inputs that may be paused from short to wire names."""

    def __init__(self, flow: Flow, wires: dict[str, str], bound: int) -> None:
        """`bound` in bytes for each input."""
        self.flow, self.wires, self.bound = flow, wires, bound

    async def look(self, held: Held, name: str) -> None:
        """After a record of input `name` came in: pause it if it is ahead; resume what no longer is."""
        source = held.task.aligner.inputs[name]
        partition = held.task.partition
        if source.size > self.bound and source.closed and name not in held.paused and name in self.wires:
            held.paused.add(name)
            self.flow.pause(self.wires[name], partition)
        if held.paused:
            await self._resume(held)

    async def _resume(self, held: Held) -> None:
        for name in sorted(held.paused):
            if not held.open:
                return  # a rebalance came meanwhile; recovery begins without pauses
            source = held.task.aligner.inputs[name]
            if name in held.paused and (not source.closed or source.size < self.bound // 2):
                held.paused.discard(name)
                await self.flow.resume(self.wires[name], held.task.partition, source.next)
