"""SIGTERM and Ctrl-C as one thing: `Stop` is raised once, so that every `with` and `finally` runs undisturbed.

Further signals are ignored while a command cleans up; every clean-up is bounded in time.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop(BaseException):
    """Somebody asked the process to end. Not an Exception, so that no `except Exception` swallows it."""

    def __init__(self, number: signal.Signals) -> None:
        """`number` is the signal that asked."""
        super().__init__(number.name)
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """In this block a signal raises Stop."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def until_stopped() -> Iterator[None]:
    """As `stoppable`, for commands whose normal end is to be stopped: leaves quietly."""
    try:
        with stoppable():
            yield
    except Stop:
        return


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise Stop(signal.Signals(number))
