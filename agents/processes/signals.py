"""Turns SIGTERM and Ctrl-C into one exception, `Stop`, which is raised once so that every `with` and `finally` runs undisturbed.

While a command cleans up, further signals are ignored. A signal that a finalizer swallows is sent again. A child process asks
Linux for a signal when its parent dies; elsewhere the parent's own clean-up must be enough.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Final

from agents.run.current_process_part import PRESENT

AGAIN: Final = 0.05
"""Seconds until a signal is sent again that a finalizer swallowed: by then the finalizer has ended or is caught once more."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop(BaseException):
    """A signal asked the process to end. Not an Exception, so that no `except Exception` swallows it."""

    def __init__(self, number: signal.Signals) -> None:
        """`number` is the signal."""
        super().__init__(number.name)
        self.number = number
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """While this block runs, a signal raises Stop."""
    before, report = {number: signal.signal(number, _stop) for number in _SIGNALS}, sys.unraisablehook

    def swallowed(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, Stop):
            report(lost)
            return
        for number in _SIGNALS:
            signal.signal(number, _stop)
        # Python only reports what a finalizer or a call-back of its garbage collector raises, so the signal is lost there
        again = threading.Timer(AGAIN, os.kill, (os.getpid(), lost.exc_value.number))
        again.daemon = True
        again.start()

    sys.unraisablehook = swallowed
    try:
        yield
    finally:
        # as it was before, since a command may run inside a test or within another one
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, handler)


def pause(seconds: float) -> None:
    """Sleep so long; in a part of a process, raise Stop when all its parts are asked to end."""
    part = PRESENT.get()
    if part is None:
        time.sleep(seconds)
    elif part.ending.wait(seconds):
        raise Stop(signal.SIGTERM)


def ending() -> threading.Event:
    """What is set when the parts of this process are asked to end; of a process of one part, which a signal ends, never."""
    part = PRESENT.get()
    return threading.Event() if part is None else part.ending


class until_stopped:  # noqa: N801  # it reads as the function that it stands for
    """Like `stoppable`, for commands that run until they are stopped: Stop ends the block without an error.

    A part of a process gets no signals; `pause` ends its block in the same way.
    """

    # A class and no generator: a signal may come before the block begins, and a generator must not end before it has yielded.

    def __init__(self) -> None:
        """Changes nothing yet."""
        self._signals: AbstractContextManager[None] = stoppable() if PRESENT.get() is None else nullcontext()

    def __enter__(self) -> None:
        """Raise Stop on a signal from now on."""
        self._signals.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Restore the handlers; True if a signal ended the block."""
        self._signals.__exit__(None, None, None)
        # a signal may come while a Condition is between its locks: leaving it fails, too, and Stop is the cause
        return isinstance(error, Stop) or (isinstance(error, RuntimeError) and isinstance(error.__context__, Stop))


def _stop(number: int, _frame: FrameType | None) -> None:
    # once: a second signal would interrupt the clean-up, whose every step is bounded in time
    for signal_number in _SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    raise Stop(signal.Signals(number))


_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """If ULLAGE_PARENT names the process that started this one, ask to be killed when it dies, or at once if it already has."""
    # taken out, because this process is another parent to its own children
    parent = os.environ.pop("ULLAGE_PARENT", None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    # asked by the child itself: code between fork and exec is unsafe in a parent with threads
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # it may have died between our start and the line above, and then no signal comes
    if str(os.getppid()) != parent:
        os.kill(os.getpid(), signal.SIGKILL)
