"""Opens the partitions that a rebalance gave to this worker.

Runs as Faust's `on_recover`, after every rebalance, also for partitions that stay. What we hold is the newest if nobody else has
written to the changelog since; else the whole changelog partition is read and the newest good mark decides, unless memory is
further. State lives nowhere else: there is no merging. Refuses to open anything when another rebalance came meanwhile, for then
another recovery follows; an error ends the process, because Faust would swallow it.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any

from agents.app import log_reader, supervision
from agents.app.checkpoint_writer import Changelog, Epoch, committable
from agents.app.decision_producer import Outbox
from agents.app.faust_consumer import Flow
from agents.app.log_reader import Contents, Place
from agents.app.owned_partition import Held, fresh
from agents.app.stage_host import Host
from agents.app.worker_observer import Watch
from agents.engine import checkpoint
from agents.engine.checkpoint import ChangelogContents, StoredState


class Recovery:
    """One for each worker process."""

    def __init__(self, hosts: tuple[Host, ...], flow: Flow, *, epoch: Epoch, watch: Watch) -> None:
        """`epoch` is shared with checkpoints."""
        self.hosts, self.flow, self.epoch, self.watch = hosts, flow, epoch, watch
        self.plan = hosts[0].plan

    def revoked(self) -> None:
        """A rebalance begins: take nothing in until recovery opens it again."""
        self.epoch.number += 1
        for host in self.hosts:
            for held in host.held.values():
                held.open = False
                self.watch.revoked(held)

    async def recover(self, outbox: Outbox, changelog: Changelog) -> None:
        """Open everything that is wholly ours."""
        with supervision.guarded("recovering partitions"):
            async with self.epoch.busy:
                if self.epoch.over:
                    return
                await outbox.start()
                await changelog.start()
                await self._recover()

    async def _recover(self) -> None:
        epoch = self.epoch.number
        ours = {host: self.flow.whole(host.wires.values()) for host in self.hosts}
        for host in self.hosts:
            for partition in set(host.held) - ours[host]:
                del host.held[partition]
        self.watch.assigned((host.stage.name, partition) for host, ps in ours.items() for partition in ps)
        partitions = set().union(*ours.values())
        if not partitions:
            return
        async with log_reader.reader(self.plan.where) as consumer:
            await self._load(consumer, ours)
            goals = await log_reader.ends(consumer, [(t, p) for t in self.plan.inputs() for p in partitions])
        for partition in sorted(partitions):
            if epoch != self.epoch.number:
                return
            await self.flow.commit(committable(self.hosts, partition))
        if epoch == self.epoch.number:
            self._open(ours, goals)

    async def _load(self, consumer: Any, ours: Mapping[Host, set[int]]) -> None:
        """Make sure that memory is at the newest known turn, for each of these."""
        places = {(self.plan.changelog(host.stage), p): (host, p) for host, ps in ours.items() for p in ps}
        began = monotonic()
        ends = await log_reader.ends(consumer, places)
        stale: dict[Place, int] = {}
        for place, (host, partition) in places.items():
            held = host.held.get(partition)
            if held is not None and held.end == ends[place]:
                held.rewind()
                self.watch.recovered(held, found="memory", seconds=0.0)
            else:
                stale[place] = ends[place]
        if not stale:
            return
        first = await log_reader.begins(consumer, [(topic, partition) for topic in self.plan.inputs() for _, partition in stale])
        for place, contents in (await log_reader.contents(consumer, stale)).items():
            reading, how = await self._adopt(*places[place], contents, first)
            host, partition = places[place]
            self.watch.recovered(host.held[partition], found=how, seconds=monotonic() - began, torn=reading.broken)

    async def _adopt(
        self, host: Host, partition: int, contents: Contents, first: Mapping[Place, int]
    ) -> tuple[ChangelogContents, str]:
        """Take the state from the changelog, keep ours if it is further, or begin where the log begins."""
        reading = checkpoint.read(contents.last)
        begins = {name: first[wire, partition] for name, wire in host.wires.items()}
        held = host.held.get(partition)
        if held is not None and (reading.found is None or held.task.turn >= reading.found.mark.turn):
            how = "memory"
            held.rewind()
        elif reading.found is not None:
            how = "checkpoint"
            held = host.held[partition] = await self._loaded(host, partition, reading.found, begins)
        else:
            how = "nothing"
            await self._lost_state(host, partition)
            held = host.held[partition] = Held(host.task(partition, positions=begins), fresh([]), begins)
        held.abandon([key for key, value in contents.last.items() if value is not None])
        held.end = contents.end
        return reading, how

    async def _loaded(self, host: Host, partition: int, found: StoredState, begins: Mapping[str, int]) -> Held:
        """The state that a mark names. An input that the mark does not know is read from its beginning."""
        positions = {name: found.mark.positions.get(name, begins[name]) for name in host.stage.reads}
        task = host.task(partition, positions=positions)
        for name in sorted(found.chunks):
            task.state.load(name, found.chunks[name])
            await asyncio.sleep(0)
        task.aligner = type(task.aligner)(positions, found.mark.turn)
        return Held(task, fresh([]), positions)

    async def _lost_state(self, host: Host, partition: int) -> None:
        """A group that has been here before, but no state: somebody deleted the changelog. Say so."""
        committed = await log_reader.committed(self.plan.where, self.plan.name, [(w, partition) for w in host.wires.values()])
        if any(offset > 0 for offset in committed.values()):
            self.watch.state_gone(host.stage.name, partition)

    def _open(self, ours: Mapping[Host, set[int]], goals: Mapping[Place, int]) -> None:
        for host, partitions in ours.items():
            for partition in partitions:
                held = host.held[partition]
                held.goals = {name: goals[wire, partition] for name, wire in host.wires.items()}
                held.open = True
                self.watch.opened(held)
