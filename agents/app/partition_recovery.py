"""Opens the partitions that a rebalance gave to this worker.

It runs as Faust's table recovery callback, after every rebalance, also for partitions that stay. Unless the state in memory is
the newest, recovery reads the whole changelog partition, and the newest good mark decides unless memory is further. A mark that
the log contradicts, or whose state cannot be loaded, is passed over. State lives nowhere else, and states are never merged. An
error ends the process, because Faust would swallow it.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any

from agents.app import log_reader, supervision
from agents.app.checkpoint_writer import ChangelogProducer, Generation, committable
from agents.app.clock_feed import ClockFeed
from agents.app.decision_producer import DecisionProducer
from agents.app.faust_internals import FaustConsumer
from agents.app.log_reader import ChangelogRecords, KeptOffsets
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import ChangelogContents, CheckpointMark, StoredState
from agents.run import python_gc
from streams.log.log_port import TopicAndPartition
from streams.sources.clock import wall_ms
from streams.topics import CLOCK


class Recovery:
    """One for each worker process."""

    def __init__(
        self,
        hosts: tuple[StageHost, ...],
        consumer: FaustConsumer,
        *,
        generation: Generation,
        observer: WorkerObserver,
        clock: ClockFeed,
    ) -> None:
        """`generation` is shared with the checkpoint writer."""
        self.clock = clock
        self.hosts, self.consumer, self.generation, self.observer = hosts, consumer, generation, observer
        self.plan, self.in_flight, self.budget = hosts[0].plan, hosts[0].in_flight, hosts[0].budget

    def revoked(self) -> None:
        """A rebalance begins: close all partitions until recovery opens them again."""
        self.generation.number += 1
        # What was published before may be read by another worker now.
        self.in_flight.follow(())
        for host in self.hosts:
            for owned in host.owned.values():
                owned.open = False
                self.observer.revoked(owned)

    async def recover(self, producer: DecisionProducer, changelog: ChangelogProducer) -> None:
        """Open every partition of which all inputs are assigned to this worker."""
        with supervision.guarded("recovering partitions"):
            async with self.generation.busy:
                if self.generation.over:
                    return
                await producer.start()
                await changelog.start()
                await self._recover()

    async def _recover(self) -> None:
        generation = self.generation.number
        ours = {host: self.consumer.owned(host.wires.values()) for host in self.hosts}
        for host in self.hosts:
            for partition in set(host.owned) - ours[host]:
                del host.owned[partition]
        self.observer.assigned((host.stage.name, partition) for host, ps in ours.items() for partition in ps)
        partitions = set().union(*ours.values())
        if not partitions:
            return
        async with log_reader.reader(self.plan.where) as consumer:
            # What is loaded lives as long as the process, and looking through it again and again took a third of the time.
            with python_gc.held():
                await self._load(consumer, ours)
                python_gc.exempt_present_objects()
            goals = await log_reader.ends(consumer, [(t, p) for t in self.plan.inputs() for p in partitions])
        for partition in sorted(partitions):
            if generation != self.generation.number:
                return  # another rebalance came, and another recovery follows it
            await self.consumer.start_at(committable(self.hosts, partition))
        if generation == self.generation.number:
            self._open(ours, goals)

    async def _load(self, consumer: Any, ours: Mapping[StageHost, set[int]]) -> None:
        """Bring the state of each of these partitions to the newest known turn."""
        places = {(self.plan.changelog(host.stage), p): (host, p) for host, ps in ours.items() for p in ps}
        began = monotonic()
        ends = await log_reader.ends(consumer, places)
        stale: dict[TopicAndPartition, int] = {}
        for place, (host, partition) in places.items():
            owned = host.owned.get(partition)
            # Nobody has written to the changelog since we did, so the state in memory is the newest.
            if owned is not None and owned.end == ends[place]:
                owned.rewind()
                self.observer.recovered(owned, found="memory", seconds=0.0)
            else:
                stale[place] = ends[place]
        # Stage by stage, and what was read goes as soon as it is loaded: all of it beside the whole state would be a worker's
        # highest memory.
        for host in ours:
            of_stage = {place: end for place, end in stale.items() if places[place][0] is host}
            if not of_stage:
                continue
            changelogs = await log_reader.contents(self.plan.where, of_stage)
            # only now, because a former owner may still write marks, and none may be ahead of what is known of the inputs
            inputs = {(wire, partition) for wire in host.wires.values() for _, partition in of_stage}
            stretches = await log_reader.kept_offsets(consumer, inputs)
            for place in list(changelogs):
                _, partition = places[place]
                contents, how = await self._adopt(host, partition, changelogs.pop(place), stretches)
                self.observer.recovered(host.owned[partition], found=how, seconds=monotonic() - began, torn=contents.broken)

    async def _adopt(
        self,
        host: StageHost,
        partition: int,
        records: ChangelogRecords,
        offsets: Mapping[TopicAndPartition, KeptOffsets],
    ) -> tuple[ChangelogContents, str]:
        """Load the newest loadable state of the changelog, keep ours if it is further, or start empty where the log begins."""
        owned, how, refused = host.owned.get(partition), "", list[CheckpointMark]()
        inputs = {name: offsets[wire, partition] for name, wire in host.wires.items()}
        while not how:
            contents = checkpoint_selection.read(records.last, without=refused)
            if owned is not None and (contents.found is None or owned.task.turn >= contents.found.mark.turn):
                # Further than the newest mark, because turns were taken after it; nothing has to be taken again.
                how = "memory"
                owned.rewind()
            elif contents.found is None:
                how = "nothing"
                await self._report_lost_state(host, partition)
                begins = {name: stretch.begin for name, stretch in inputs.items()}
                owned = OwnedPartition(host.task(partition, positions=begins), new_ledger([]), begins)
            else:
                restored = await self._restored(host, partition, contents.found, inputs)
                owned, how = (owned, "") if restored is None else (restored, "checkpoint")
                refused.append(contents.found.mark)
        assert owned is not None  # noqa: S101  # each way out of the loop has one
        host.owned[partition] = owned
        # A family of our own: a former owner that is thought dead may still write into the old one.
        owned.abandon([key for key, value in records.last.items() if value is not None])
        owned.end = records.end
        return contents, how

    async def _restored(
        self,
        host: StageHost,
        partition: int,
        stored: StoredState,
        inputs: Mapping[str, KeptOffsets],
    ) -> OwnedPartition | None:
        """The state that a mark names; None if the log contradicts the mark, or the state cannot be loaded."""
        why = await self._objection(partition, stored.mark, inputs)
        if not why:
            try:
                return await self._loaded(host, partition, stored, inputs)
            except Exception as error:  # noqa: BLE001  # bytes that another version or somebody else wrote fail in any way
                why = f"what it names cannot be loaded: {error!r}"
        self.observer.checkpoint_refused(host.stage.name, partition, turn=stored.mark.turn, reason=why)
        return None

    async def _objection(self, partition: int, mark: CheckpointMark, inputs: Mapping[str, KeptOffsets]) -> str:
        """Why the log contradicts a mark; empty if it does not."""
        ends = {name: stretch.end for name, stretch in inputs.items()}
        why = checkpoint_selection.objection(mark, ends, await self.clock.evidence(mark), now_ms=wall_ms())
        epochs = {name: read for name, read in mark.epochs.items() if name in inputs or name == CLOCK}
        return why or "; ".join((await self.clock.held([(partition, epochs)])).gone)

    async def _loaded(
        self, host: StageHost, partition: int, stored: StoredState, inputs: Mapping[str, KeptOffsets]
    ) -> OwnedPartition:
        """The state that a mark names. An input that the mark does not know is read from its beginning."""
        positions = {name: stored.mark.positions.get(name, stretch.begin) for name, stretch in inputs.items()}
        task = host.task(partition, positions=positions)
        for name in sorted(stored.chunks):
            task.state.load(name, stored.chunks[name])
            # A large state takes seconds, in which the group's heartbeats have to go on.
            await asyncio.sleep(0)
        mark = stored.mark
        task.resume(mark.turn, positions=positions, tick=mark.tick, inputs=mark.inputs, epochs=mark.epochs)
        return OwnedPartition(task, new_ledger([]), positions)

    async def _report_lost_state(self, host: StageHost, partition: int) -> None:
        """A group that committed offsets before must have had a state, so somebody deleted the changelog: report it."""
        committed = await log_reader.committed(self.plan.where, self.plan.name, [(w, partition) for w in host.wires.values()])
        if any(offset > 0 for offset in committed.values()):
            self.observer.state_gone(host.stage.name, partition)

    def _open(self, ours: Mapping[StageHost, set[int]], goals: Mapping[TopicAndPartition, int]) -> None:
        self.in_flight.follow((wire, partition) for host, ps in ours.items() for wire in host.names for partition in ps)
        for host, partitions in ours.items():
            for partition in partitions:
                owned = host.owned[partition]
                ends = {name: goals[wire, partition] for name, wire in host.wires.items()}
                owned.goals = {name: end for name, end in ends.items() if owned.task.aligner.inputs[name].next < end}
                owned.open = True
                self.observer.opened(owned)
        self.budget.count(owned for host in self.hosts for owned in host.owned.values())
        self.clock.begin()
