"""Bounds how much is buffered of an input that runs ahead of the others.

It pauses only an input that is over the bound and already holds a complete segment that the others lack. The turn never waits
for such an input, so a pause cannot stop the turn. An input that several stages read is never paused, because one stage would
starve the others; such inputs (policies) are small. When Faust pauses a partition it drops the messages it has prefetched, so
reading resumes with a seek. If that seek fails, the gap is read like any other.
"""

from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition


class Backpressure:
    """Pauses and resumes the inputs of one stage. `wires` maps the inputs that may be paused from short to wire names."""

    def __init__(self, consumer: FaustConsumer, wires: dict[str, str], bound: int) -> None:
        """`bound` is in bytes, for each input."""
        self.consumer, self.wires, self.bound = consumer, wires, bound

    async def update(self, owned: OwnedPartition, name: str) -> None:
        """After a record of input `name` came in: pause that input if it is ahead, and resume those that no longer are."""
        source = owned.task.aligner.inputs[name]
        partition = owned.task.partition
        if source.size > self.bound and source.closed and name not in owned.paused and name in self.wires:
            owned.paused.add(name)
            self.consumer.pause(self.wires[name], partition)
        if owned.paused:
            await self._resume(owned)

    async def _resume(self, owned: OwnedPartition) -> None:
        for name in sorted(owned.paused):
            if not owned.open:
                return  # a rebalance began meanwhile, and recovery starts without pauses
            source = owned.task.aligner.inputs[name]
            if name in owned.paused and (not source.closed or source.size < self.bound // 2):
                owned.paused.discard(name)
                await self.consumer.resume(self.wires[name], owned.task.partition, source.next)
