"""Gives memory that is free again back to the system, beside the turns.

Catching up, a recovery and a burst of decisions use several times what a worker needs at rest, and the C library keeps nearly all
of it: freed pages lie between ones in use, and only `malloc_trim` looks for them. It takes milliseconds, more where there is much
to give, so it runs in a thread, and only when the process has grown.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from schemas.units import Seconds

EVERY = Seconds(20.0)
"""Seconds between two looks."""
GROWN = 1.15
"""A process that is larger than this times what it was after the last time may have something to give."""
_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def trim() -> int:
    """Give back what is free. Returns what is resident then; what grows before the loop hears of it has grown since."""
    ctypes.CDLL(None).malloc_trim(0)
    return resident()


async def give_back(every: Seconds = EVERY, trim: Callable[[], int] = trim) -> None:
    """Do so from time to time, until cancelled. Returns at once where the C library has no such call."""
    if not resident() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return
    after = 0
    while True:
        await asyncio.sleep(every)
        if resident() > GROWN * after:
            after = await asyncio.to_thread(trim)
