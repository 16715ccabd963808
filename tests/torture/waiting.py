"""Lets a run go on until what it must show has happened, or all has come to rest, so that a slow machine shows no less."""

import time
from collections.abc import Awaitable, Callable

Rest = Callable[[float], Awaitable[None]]
"""Lets the run work for so many seconds."""
LOOK = 5.0
"""Seconds between two looks whether enough has happened."""


async def until_enough(enough: Callable[[], Awaitable[bool]], rest: Rest, seconds: float) -> None:
    """Let the run work for so many seconds at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not await enough():
        await rest(LOOK)


async def until_calm(calm: Callable[[], Awaitable[bool]], rest: Rest, end: float, *, apart: float) -> bool:
    """Whether it was calm at three looks in a row, so many seconds apart, before the monotonic time `end`."""
    looks = 0
    while time.monotonic() < end and looks < 3:
        await rest(apart)
        looks = looks + 1 if await calm() else 0
    return looks >= 3
