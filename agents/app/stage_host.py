"""Hosts one stage: takes records in, takes every turn that is complete, hands over what it decided.

It trusts no order that Faust gives: each input knows the next offset it wants; lower ones are ignored, and a gap is read beside
Faust. Refuses to take anything in for a partition that is not open, that is, not wholly ours and recovered.
"""

import asyncio
from functools import partial
from time import perf_counter
from typing import Any

from faust.types import Message

from agents.app import missed_records, supervision
from agents.app.backpressure import Pauses
from agents.app.decision_producer import Outbox
from agents.app.faust_consumer import Flow
from agents.app.owned_partition import Held
from agents.app.worker_observer import Watch
from agents.app.worker_plan import Plan
from agents.engine.stage import Stage
from agents.task import Task
from streams.codec.event_codec import Codec
from streams.log.port import Record

BREATH = 0.03
"""Seconds after which the agent lets others run: a queue that is never empty never yields."""


class Host:
    """One stage in one worker."""

    def __init__(self, stage: Stage, plan: Plan, *, flow: Flow, outbox: Outbox, watch: Watch) -> None:
        """Holds no partition yet."""
        self.stage, self.plan, self.flow, self.outbox, self.watch = stage, plan, flow, outbox, watch
        self.codec = Codec(plan.topics)
        self.wires = {name: plan.topics.wire(name) for name in stage.reads}
        self.names = {wire: name for name, wire in self.wires.items()}
        self.held: dict[int, Held] = {}
        alone = {name: wire for name, wire in self.wires.items() if plan.readers(name) == 1}
        self.pauses = Pauses(flow, alone, plan.buffer)
        self._breathed = 0.0

    def task(self, partition: int, *, positions: dict[str, int]) -> Task:
        """A task with an empty state."""
        return Task(self.stage, partition, topics=self.plan.topics, codec=self.codec, positions=positions)

    async def handle(self, message: Message) -> None:
        """One message from Faust."""
        held = self.held.get(message.partition)
        if held is None or not held.open:
            return
        name = self.names[message.topic]
        wanted = held.task.aligner.inputs[name].next
        if message.offset < wanted:
            return
        came = _record(message)
        if message.offset > wanted and not await self._close_gap(held, name, came):
            return
        self.feed(held, name, came)
        await self.pauses.look(held, name)
        await self._breathe()

    def feed(self, held: Held, name: str, came: Record) -> None:
        """Take a record in and every turn it completes. Nothing awaits in here, so others only ever see turn boundaries."""
        held.task.feed(name, came)
        if came.key != b"tick":
            return
        with supervision.guarded("taking a turn", **self._where(held)):
            while self._take(held):
                pass
        if len(held.task.aligner.inputs[name].closed) > 1:
            self.watch.waiting(held)

    def _take(self, held: Held) -> bool:
        began = perf_counter()
        try:
            taken = held.task.next_turn()
        except Exception as error:  # noqa: BLE001  # a step that raises is a broken invariant; the turn is known only now
            supervision.end(error, doing="taking a turn", **self._where(held))
        if taken is None:
            return False
        records = [*taken.decisions, *taken.dead]
        if records:
            held.unacked.append(self.outbox.send_soon(records))
        self.watch.turn(held, taken, perf_counter() - began)
        return True

    async def _close_gap(self, held: Held, name: str, came: Record) -> bool:
        """Feed what lies before `came`. False: the partition went away meanwhile."""
        task, source = held.task, held.task.aligner.inputs[name]
        self.watch.gap(self.stage.name, came, source.next)
        lost = partial(self.watch.lost, self.stage.name)
        async for records in missed_records.between(self.plan.where, came, start=source.next, lost=lost):
            if not held.open or held.task is not task:
                return False
            for record in records:
                self.feed(held, name, record)
        return held.open and held.task is task

    async def _breathe(self) -> None:
        await self.outbox.room()
        if perf_counter() - self._breathed > BREATH:
            await asyncio.sleep(0)
            self._breathed = perf_counter()

    def _where(self, held: Held) -> dict[str, object]:
        return {"stage": self.stage.name, "partition": held.task.partition, "turn": held.task.turn}


def _record(message: Message) -> Record:
    headers: Any = message.headers or ()  # pairs, as aiokafka gives them; Faust's type allows for more
    at = -1 if message.timestamp is None else round(message.timestamp * 1000)
    return Record(message.topic, message.partition, message.offset, message.key, message.value, tuple(headers), at)
