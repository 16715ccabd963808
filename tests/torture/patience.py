"""Lets a run go on until what it must show has happened, so that a slow machine does not make it show too little."""

import time
from collections.abc import Awaitable, Callable

LOOK = 5.0
"""Seconds between two looks whether enough has happened."""


async def until_enough(enough: Callable[[], Awaitable[bool]], rest: Callable[[float], Awaitable[None]], seconds: float) -> None:
    """Let the run work for so many seconds at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not await enough():
        await rest(LOOK)
