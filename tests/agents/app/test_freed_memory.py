"""Memory that a burst used is the system's again soon after it."""

import json
import subprocess
import sys

import pytest

from agents.app import freed_memory

BURST = """
import asyncio, json, queue
from agents.app import freed_memory

trims = queue.SimpleQueue()

def trim():
    after = freed_memory.trim()
    trims.put(None)
    return after

async def burst():
    task = asyncio.create_task(freed_memory.give_back(0.01, trim))
    await asyncio.to_thread(trims.get, timeout=20)
    before = freed_memory.resident()
    kept, held = [], []
    for _ in range(12_000):  # a block that stays after each that goes, as state grows amid what turns allocate
        held.append(bytes(16_000))
        kept.append(bytes(600))
    high = freed_memory.resident()
    held.clear()
    await asyncio.to_thread(trims.get, timeout=20)
    await asyncio.sleep(0.2)
    task.cancel()
    return before, high, freed_memory.resident(), trims.qsize()

print(json.dumps(asyncio.run(burst())))
"""
"""In a process of its own: how much the one of the tests has grown, and what is free in it, is what the tests before left."""


AT_ITS_LARGEST = BURST.replace(
    """    high = freed_memory.resident()
""",
    """    await asyncio.to_thread(trims.get, timeout=20)  # gives nothing back, because all of it is in use
    high = freed_memory.resident()
""",
)


def given_back(script: str) -> int:
    """Play it, see that what it freed went back, and say how many looks there were that nobody had waited for."""
    played = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    before, high, after, trims = json.loads(played.stdout)
    assert high - before > 150 << 20
    assert after - before < (high - before) / 2
    return int(trims)


def test_what_is_freed_after_a_look_at_the_largest_is_given_back_too() -> None:
    """As a worker's that is looked at while it catches up."""
    if not freed_memory.free():
        pytest.skip("this C library does not say what is free")
    given_back(AT_ITS_LARGEST)


def test_what_a_burst_freed_is_given_back_and_a_process_that_has_not_grown_is_left_alone() -> None:
    if not freed_memory.resident():
        pytest.skip("this system does not say how large a process is")
    assert given_back(BURST) <= 1
