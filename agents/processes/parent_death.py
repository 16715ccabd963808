"""Dying with the parent: a process started by the demo must not outlive it, whatever kills the demo.

Linux can send a signal when the parent dies; elsewhere the parent's own clean-up has to do. The request is made by the child
itself, because code between fork and exec is unsafe in a parent with threads.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with() -> None:
    """When ULLAGE_PARENT names the process that started us: be killed when it dies, at once if it is already dead."""
    parent = os.environ.pop("ULLAGE_PARENT", None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if str(os.getppid()) != parent:
        os.kill(os.getpid(), signal.SIGKILL)
