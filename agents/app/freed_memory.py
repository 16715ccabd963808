"""Gives memory that is free again back to the system, beside the turns.

Catching up, a recovery and a burst of decisions use several times what a worker needs at rest, and the C library keeps nearly all
of it: freed pages lie between ones in use, and only `malloc_trim` looks for them.
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
FREED = 32 << 20
"""Bytes that lie free more than after the last time, which are worth a look."""
_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class _Allocated(ctypes.Structure):
    """What `mallinfo2` says, in the C library's own words."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()  # noqa: SIM905  # a C struct
    )


def free() -> int:
    """Bytes that the C library keeps for later, given back or not; 0 where it does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _Allocated
    return int(ask().fordblks)


def trim() -> int:
    """Give back what is free. Returns what is resident then; what grows before the loop hears of it has grown since."""
    ctypes.CDLL(None).malloc_trim(0)
    return resident()


async def give_back(every: Seconds = EVERY, trim: Callable[[], int] = trim) -> None:
    """Do so from time to time, until cancelled. Returns at once where the C library has no such call."""
    if not resident() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return
    after = free_before = 0
    while True:
        await asyncio.sleep(every)
        free_now = await asyncio.to_thread(free)
        free_before = min(free_before, free_now)
        # Size alone would not do: a process that gave back while it was largest does not grow again when it frees the rest.
        if resident() > GROWN * after or free_now > free_before + FREED:
            # It takes milliseconds, more where there is much to give.
            after, free_before = await asyncio.to_thread(trim), free_now
