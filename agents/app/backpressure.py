"""Bounds how much is buffered of an input that runs ahead of the clock, or of the inputs that a turn waits for.

It holds an input that is over the bound and has been read up to the end that the next turn wants. The turn never waits for such
an input, so holding it cannot stop the turn. Its records are skipped meanwhile. An input that only this stage reads is paused, so
that it is not fetched in vain; one that several stages read goes on for the others. When the input is released, reading goes back
to where this stage stopped; the other stages have had those records and ignore them. If that seek fails, the gap is read like any
other.
"""

from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition


class Backpressure:
    """Holds and releases the inputs of one stage. `wires` maps all of them from short to wire names; `alone` reads it alone."""

    def __init__(self, consumer: FaustConsumer, wires: dict[str, str], bound: int, *, alone: frozenset[str]) -> None:
        """`bound` is in bytes, for each input."""
        self.consumer, self.wires, self.bound, self.alone = consumer, wires, bound, alone

    def hold(self, owned: OwnedPartition, name: str) -> None:
        """After a record of input `name` came in: hold that input if it is over the bound and no turn waits for it."""
        aligner = owned.task.aligner
        source = aligner.inputs[name]
        if source.size > self.bound and source.next >= aligner.wanted(name) and name not in owned.held:
            owned.held.add(name)
            if name in self.alone:
                self.consumer.pause(self.wires[name], owned.task.partition)

    async def release(self, owned: OwnedPartition) -> None:
        """Read on with the held inputs that the next turn waits for, or that were taken in."""
        for name in sorted(owned.held):
            if not owned.open:
                return  # a rebalance began meanwhile, and recovery starts without pauses
            aligner = owned.task.aligner
            source = aligner.inputs[name]
            if name in owned.held and (source.next < aligner.wanted(name) or source.size < self.bound // 2):
                owned.held.discard(name)
                read_on = self.consumer.resume if name in self.alone else self.consumer.seek
                await read_on(self.wires[name], owned.task.partition, source.next)
