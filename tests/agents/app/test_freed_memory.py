"""Memory that a burst used is the system's again soon after it."""

import asyncio
import ctypes
import queue

import pytest

from agents.app import freed_memory
from schemas.units import Seconds


def test_what_a_burst_freed_is_given_back_and_a_process_that_has_not_grown_is_left_alone() -> None:
    trims: queue.SimpleQueue[None] = queue.SimpleQueue()

    def trim() -> None:
        ctypes.CDLL(None).malloc_trim(0)
        trims.put(None)

    async def burst() -> tuple[int, int, int]:
        task = asyncio.create_task(freed_memory.give_back(Seconds(0.01), trim))
        await asyncio.to_thread(trims.get)
        before = freed_memory.resident()
        kept, held = [], []
        for _ in range(12_000):  # a block that stays after each that goes, as state grows amid what turns allocate
            held.append(bytes(16_000))
            kept.append(bytes(600))
        high = freed_memory.resident()
        held.clear()
        await asyncio.to_thread(trims.get)
        await asyncio.sleep(0.2)
        assert trims.qsize() <= 1
        task.cancel()
        return before, high, freed_memory.resident()

    if not freed_memory.resident():
        pytest.skip("this system does not say how large a process is")
    before, high, after = asyncio.run(burst())
    assert high - before > 150 << 20
    assert after - before < (high - before) / 2
