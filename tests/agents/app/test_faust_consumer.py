"""What the worker makes of Faust's consumer."""

import asyncio
from types import SimpleNamespace
from typing import Any

from faust.types import TP

from agents.app.faust_consumer import FaustConsumer


class ConsumerThatForgetsZero:
    """Committed offsets and positions, and aiokafka's `seek_to_committed`, which seeks to no offset 0."""

    def __init__(self, positions: dict[TP, int]) -> None:
        self.positions, self.committed = positions, dict.fromkeys(positions, 0)

    def assignment(self) -> set[TP]:
        return set(self.positions)

    async def _commit(self, offsets: dict[TP, int]) -> None:
        self.committed.update(offsets)

    async def seek(self, partition: TP, offset: int) -> None:
        self.positions[partition] = offset

    async def perform_seek(self) -> None:
        self.positions.update({tp: offset for tp, offset in self.committed.items() if offset > 0})


def test_after_a_rebalance_every_input_is_read_from_where_recovery_says_also_from_offset_0() -> None:
    read, other = TP("policies", 1), TP("control", 1)
    consumer: Any = ConsumerThatForgetsZero({read: 2, other: 9})
    app: Any = SimpleNamespace(consumer=consumer)

    async def rebalance() -> None:
        await FaustConsumer(app).start_at({("policies", 1): 0, ("control", 1): 5})
        await consumer.perform_seek()

    asyncio.run(rebalance())
    assert consumer.positions == {read: 0, other: 5}
