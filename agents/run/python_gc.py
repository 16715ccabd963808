"""How Python's cyclic garbage collector is set in processes that hold a large state.

A state of many containers is millions of objects that live as long as the process and never form a cycle that is dropped. A turn
makes tens of thousands more, which reference counting frees. With Python's defaults the collector walks through all of them again
and again: it took almost half of a worker's time while it caught up.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from schemas.units import Seconds

_YOUNG = 50_000
"""New objects after which the young ones are looked through; Python's default is 700."""
_OLDER = (20, 100)
"""How many looks at younger objects come before one at older ones."""

_MANY = 1_000_000
"""... while decisions are far behind: a pause of half a second delays nothing then, and looking took a fifth of the CPU."""
BEHIND = Seconds(30.0)
"""Seconds of event time from which on decisions count as far behind."""

_FEW = 2_000
"""... in a process that somebody waits for."""


def relax() -> None:
    """Look for cycles rarely.

    A process that starts in another way than by a command, such as one of several that share a backtest, has to call it itself.
    """
    # A command does it before it loads its modules, which took a tenth of its start otherwise.
    gc.set_threshold(_YOUNG, *_OLDER)


def follow(lag: Seconds) -> None:
    """Look even more rarely while the decisions of a worker are this far behind, otherwise as `relax` does."""
    young = _MANY if lag > BEHIND else _YOUNG
    if gc.get_threshold()[0] != young:
        gc.set_threshold(young, *_OLDER)


@contextmanager
def held() -> Iterator[None]:
    """No collection while the block runs, such as a turn, which waits for none then."""
    # What is due comes right after the block.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pause_briefly() -> None:
    """Collect in small steps, for a process that serves requests: fifty thousand objects take 20 to 60 ms."""
    gc.set_threshold(_FEW, 10, 1_000)


def exempt_present_objects() -> None:
    """Never examine the present objects again. Call it when a state is loaded."""
    gc.freeze()
