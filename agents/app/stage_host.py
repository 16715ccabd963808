"""Hosts one stage: takes records in, takes every turn that is complete, and queues the decisions.

It does not trust the order in which Faust delivers. Each input knows the next offset it wants; lower ones are ignored, and a gap
is read beside Faust. A partition only takes records in while it is open, that is, wholly owned by this worker and recovered.
"""

import math
from collections.abc import Iterable
from functools import partial
from time import perf_counter

from agents.app import log_reader, supervision
from agents.app.decision_producer import DecisionProducer
from agents.app.faust_internals import FaustConsumer
from agents.app.owned_partition import OwnedPartition
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.engine.stage import Stage
from agents.run import python_gc
from agents.run.partition_task import OwnDecisionCache, Task, TurnResult
from streams.clock_rules import Tick
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.log.log_port import Record


class StageHost:
    """One stage in one worker."""

    def __init__(  # noqa: PLR0913  # wired once, by keyword
        self,
        stage: Stage,
        plan: WorkerPlan,
        *,
        consumer: FaustConsumer,
        producer: DecisionProducer,
        observer: WorkerObserver,
        in_flight: OwnDecisionCache | None = None,
        budget: "BufferBudget | None" = None,
    ) -> None:
        """Owns no partition yet. `in_flight` and `budget` are shared by all hosts of a worker."""
        self.in_flight = in_flight or OwnDecisionCache()
        self.stage, self.plan, self.producer, self.observer = stage, plan, producer, observer
        self.codec = Codec(plan.topics)
        self.wires = {name: plan.topics.wire(name) for name in stage.reads}
        self.names = {wire: name for name, wire in self.wires.items()}
        self.owned: dict[int, OwnedPartition] = {}
        self.agreed: dict[int, int] = {}
        """For each partition of the topic of rules, its end when this worker last agreed with the rules of the log."""
        alone = frozenset(name for name in self.wires if plan.readers(name) == 1)
        self.budget = budget or BufferBudget(plan.buffer)
        self.backpressure = Backpressure(consumer, self.wires, self.budget, alone=alone)

    def task(self, partition: int, *, positions: dict[str, int]) -> Task:
        """A task with an empty state."""
        return Task(
            self.stage,
            partition,
            topics=self.plan.topics,
            codec=self.codec,
            positions=positions,
            in_flight=self.in_flight,
        )

    async def handle(self, record: Record) -> None:
        """Handle one record of an input from Faust."""
        owned = self.owned.get(record.partition)
        # Not ours any more, or not recovered yet: recovery sets the position from which it comes again.
        if owned is None or not owned.open:
            return
        name = self.names[record.topic]
        wanted = owned.task.aligner.inputs[name].next
        if record.last_offset < wanted or name in owned.held:
            return
        if record.offset > wanted and not await self._close_gap(owned, name, record):
            return
        self.feed(owned, name, record)
        if self.backpressure.hold(owned, name):
            self.observer.held(owned)
        await self._go_on(owned)

    def feed(self, owned: OwnedPartition, name: str, record: Record) -> None:
        """Take in a record, and every turn that it completes. It does not await, so other code only ever sees turn boundaries."""
        source = owned.task.aligner.inputs[name]
        before = source.size
        owned.task.feed(name, record)
        self.budget.size += source.size - before
        if owned.goals:
            self._look_at_goal(owned, name)
        self._take_turns(owned)

    async def take_tick(self, owned: OwnedPartition, tick: Tick) -> None:
        """Take in a tick, and the turn if it is complete."""
        owned.task.take_tick(tick)
        if not self._take_turns(owned):
            self.observer.waiting(owned)
        await self._go_on(owned)

    async def _go_on(self, owned: OwnedPartition) -> None:
        """Wait for room for decisions, and take the turns that waited for it; read on with inputs that were held."""
        while not self.producer.has_room:
            await self.producer.wait_for_room()
            if owned.open:
                self._take_turns(owned)
        if owned.held and await self.backpressure.release(owned):
            self.observer.held(owned)

    def _take_turns(self, owned: OwnedPartition) -> bool:
        """Take every turn that is complete and for whose decisions there is room. Returns whether there was one."""
        took, aligner, producer = False, owned.task.aligner, self.producer
        if aligner.ticks and not aligner.lacking:
            with supervision.guarded("taking a turn", **self._where(owned)):
                while producer.has_room and aligner.ticks and not aligner.lacking and self._take_turn(owned):
                    took = True
        return took

    async def read_beside(self, owned: OwnedPartition, name: str) -> None:
        """Read an input up to the end that the next turn wants, beside Faust, which hides that the last offsets hold nothing."""
        task, aligner = owned.task, owned.task.aligner
        source, end = aligner.inputs[name], aligner.wanted(name)
        place, lost = (self.wires[name], task.partition), partial(self.observer.lost, self.stage.name)
        stretch = log_reader.Stretch(place, source.next, end)
        async for records, upto in log_reader.read_stretch(self.plan.where, stretch, lost=lost, patient=False):
            if not owned.open or owned.task is not task:
                return
            for record in records:
                self.feed(owned, name, record)
            source.skip_to(upto)
            self._take_turns(owned)
            await self._go_on(owned)
        if owned.goals:
            self._look_at_goal(owned, name)

    def _look_at_goal(self, owned: OwnedPartition, name: str) -> None:
        """Check whether the task has caught up; while no ticks come no turn would show that."""
        if owned.task.aligner.inputs[name].next >= owned.goals.get(name, math.inf):
            del owned.goals[name]
            self.observer.opened(owned)

    def _take_turn(self, owned: OwnedPartition) -> bool:
        """Take the next turn if it is complete. Returns whether it was."""
        began, before = perf_counter(), owned.task.aligner.size
        self.observer.turn_began(owned)
        try:
            # What is due is collected after the turn, so that no decision waits for it.
            with python_gc.held():
                result = owned.task.next_turn()
        except Exception as error:  # noqa: BLE001  # a step that raises is a broken invariant; only here the turn is known
            supervision.end(error, doing="taking a turn", **self._where(owned))
        self.observer.turn_ended()
        if result is None:
            return False
        self.budget.size += owned.task.aligner.size - before
        self._refuse_other_rules(owned, result)
        records = result.published
        owned.taken += result.records
        owned.samples += result.samples
        owned.set_aside |= bool(result.dead)
        if records:
            owned.unacked.append(self.producer.send_soon(records))
            python_gc.follow(owned.lag)
        self.observer.turn(owned, result, perf_counter() - began)
        return True

    def _refuse_other_rules(self, owned: OwnedPartition, result: TurnResult) -> None:
        """End the process before it publishes a turn that another version of the program must decide."""
        changed = result.rules
        if changed is None or changed.rules.program == self.stage.program:
            return
        # Rules from before this worker's start may be those of an older program, whose turns this one takes again after a crash.
        if changed.place.offset >= self.agreed.get(owned.task.partition, 0):
            other, own = changed.rules.program, self.stage.program
            says = f"from turn {result.turn} on version {other} of its rules decides, and this program has version {own}"
            error = BadInput(f"{says}: start the program that set these rules")
            supervision.end(error, doing="taking a turn", **self._where(owned))

    async def _close_gap(self, owned: OwnedPartition, name: str, record: Record) -> bool:
        """Feed the records before this one. False: a rebalance took the partition meanwhile."""
        task, source = owned.task, owned.task.aligner.inputs[name]
        self.observer.gap(self.stage.name, record, source.next)
        lost = partial(self.observer.lost, self.stage.name)
        stretch = log_reader.Stretch((record.topic, record.partition), source.next, record.offset)
        async for records, _ in log_reader.read_stretch(self.plan.where, stretch, lost=lost):
            if not owned.open or owned.task is not task:
                return False
            for missing in records:
                self.feed(owned, name, missing)
            await self._go_on(owned)
        return owned.open and owned.task is task

    def _where(self, owned: OwnedPartition) -> dict[str, object]:
        return {"stage": self.stage.name, "partition": owned.task.partition, "turn": owned.task.turn}


class BufferBudget:
    """The bytes that the inputs of all tasks of a worker hold together, and how many they may hold. One for each worker.

    What a turn wants is never refused: so the turns of stages that feed one another go on, however small the budget is.
    """

    def __init__(self, most: int) -> None:
        """Nothing is held yet."""
        self.most, self.size, self._inputs = most, 0, 1

    def count(self, tasks: Iterable[OwnedPartition]) -> None:
        """These are the open tasks, and no others hold anything."""
        aligners = [owned.task.aligner for owned in tasks]
        self.size, self._inputs = sum(a.size for a in aligners), max(1, sum(len(a.inputs) for a in aligners))

    @property
    def share(self) -> int:
        """What an input may hold in any case, so that a large one does not stop small ones: half the budget for all of them."""
        return self.most // (2 * self._inputs)


class Backpressure:
    """Bounds how much is buffered of inputs that run ahead of the clock, or of the inputs that a turn waits for.

    `wires` maps all inputs of one stage from short to wire names; `alone` are those that no other stage reads. The records of an
    input that is held are skipped.
    """

    def __init__(self, consumer: FaustConsumer, wires: dict[str, str], budget: BufferBudget, *, alone: frozenset[str]) -> None:
        self.consumer, self.wires, self.budget, self.alone = consumer, wires, budget, alone

    def hold(self, owned: OwnedPartition, name: str) -> bool:
        """After a record of input `name` came in: hold that input if all hold too much and no turn waits for it.

        Returns whether it is held since now.
        """
        aligner, budget = owned.task.aligner, self.budget
        source = aligner.inputs[name]
        # The turn never waits for an input that has been read up to the wanted end, so holding it cannot stop the turn.
        if budget.size <= budget.most or source.size <= budget.share or source.next < aligner.wanted(name) or name in owned.held:
            return False
        owned.held.add(name)
        if name in self.alone:
            # Otherwise it goes on for the other stages that read it.
            self.consumer.pause(self.wires[name], owned.task.partition)
        return True

    async def release(self, owned: OwnedPartition) -> bool:
        """Read on with the held inputs that the next turn waits for, and with all that have room again.

        Returns whether there are any.
        """
        budget, held = self.budget, len(owned.held)
        for name in sorted(owned.held):
            if not owned.open:
                return False  # a rebalance began meanwhile, and recovery starts without pauses
            aligner = owned.task.aligner
            source = aligner.inputs[name]
            # At half, because each time the fetches begin anew.
            room = budget.size < budget.most // 2 or source.size < budget.share // 2
            if name in owned.held and (source.next < aligner.wanted(name) or room):
                owned.held.discard(name)
                # Back to where this stage stopped. Other stages have had those records and ignore them. If the seek fails, the
                # gap is read like any other.
                read_on = self.consumer.resume if name in self.alone else self.consumer.seek
                await read_on(self.wires[name], owned.task.partition, source.next)
        return len(owned.held) < held
