"""Ends a child process of the demo when the demo dies, whatever kills the demo.

Linux can send a signal when the parent dies; elsewhere the parent's own clean-up must be enough.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """If ULLAGE_PARENT names the process that started this one, ask to be killed when it dies, or at once if it already has."""
    parent = os.environ.pop("ULLAGE_PARENT", None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    # asked by the child itself: code between fork and exec is unsafe in a parent with threads
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # it may have died between our start and the line above, and then no signal comes
    if str(os.getppid()) != parent:
        os.kill(os.getpid(), signal.SIGKILL)
