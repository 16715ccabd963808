"""Bounds how much is buffered of an input that runs ahead of the others, or that gets records but no tick.

It holds an input that is over the bound and already has a complete segment that the others lack. The turn never waits for such an
input, so holding it cannot stop the turn. Its records are skipped meanwhile. An input that only this stage reads is paused, so
that it is not fetched in vain; one that several stages read goes on for the others. When the input is released, reading goes back
to where this stage stopped; the other stages have had those records and ignore them. If that seek fails, the gap is read like any
other.

An input whose open segment is over the bound is skimmed: its records are dropped, and those that follow are skipped, until a tick
closes the segment. Then the whole segment is read again, because now the turn can take it.
"""

from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition


class Backpressure:
    """Holds and releases the inputs of one stage. `wires` maps all of them from short to wire names; `alone` reads it alone."""

    def __init__(self, consumer: FaustConsumer, wires: dict[str, str], bound: int, *, alone: frozenset[str]) -> None:
        """`bound` is in bytes, for each input."""
        self.consumer, self.wires, self.bound, self.alone = consumer, wires, bound, alone

    def hold(self, owned: OwnedPartition, name: str) -> None:
        """After a record of input `name` came in: skim that input if it gets no tick, and hold it if it is ahead."""
        source = owned.task.aligner.inputs[name]
        if source.open_size > self.bound and not source.closed:
            source.forget_open()
            owned.skimmed.add(name)
        if source.buffered > self.bound and source.closed and name not in owned.held:
            owned.held.add(name)
            if name in self.alone:
                self.consumer.pause(self.wires[name], owned.task.partition)

    async def release(self, owned: OwnedPartition) -> None:
        """Read on with the held inputs that are no longer ahead."""
        for name in sorted(owned.held):
            if not owned.open:
                return  # a rebalance began meanwhile, and recovery starts without pauses
            source = owned.task.aligner.inputs[name]
            if name in owned.held and (not source.closed or source.buffered < self.bound // 2):
                owned.held.discard(name)
                read_on = self.consumer.resume if name in self.alone else self.consumer.seek
                await read_on(self.wires[name], owned.task.partition, source.next)

    @staticmethod
    def read_again(owned: OwnedPartition, name: str) -> None:
        """A skimmed input has got its tick: read its whole segment again."""
        owned.skimmed.discard(name)
        owned.task.aligner.inputs[name].next = owned.task.aligner.positions[name]
