"""Stands between us and Java, so that no Java outlives us: neither after Ctrl-C nor after kill -9.

Run as a script of its own: `watchdog.py THROW_AWAY java ...`. It starts Java, prints Java's process id, and waits until it reads
"stop", its parent is gone, or Java ends. Then it stops Java (gently at first) and ends with Java's code. If the parent vanished
without saying "stop", it also deletes the folder THROW_AWAY (empty name: none). On Linux Java dies with the watchdog, too. It
only uses the standard library, because it runs without our packages on its path.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

PATIENCE = 15.0
LOOK_EVERY = 0.5
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Start Java, keep it, end it."""
    throw_away, *command = sys.argv[1:]
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then says "stop"
    terminations: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: terminations.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    woken = _wake_by_signals()
    java = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_die_with_parent)  # noqa: S603, PLW1509  # our own command; the watchdog has one thread
    sys.stdout.write(f"{java.pid}\n")
    sys.stdout.flush()
    word = _wait(java, parent, terminations, woken)
    _end(java)
    if word == "vanished" and throw_away:
        shutil.rmtree(throw_away, ignore_errors=True)
    return java.returncode if java.returncode >= 0 else 128 - java.returncode


def _wake_by_signals() -> int:
    """A file to select on, which becomes readable when a signal comes."""
    # A signal between a look at `terminations` and `select` would otherwise be noticed half a second later.
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    return read


def _wait(java: "subprocess.Popen[bytes]", parent: int, terminations: list[int], woken: int) -> str:
    """Why the waiting ended: "ended" (Java did), "stop" (the parent said so), or "vanished" (the parent is gone)."""
    while java.poll() is None:
        if terminations:
            return "stop"
        if os.getppid() != parent:
            return "vanished"
        readable = select.select([0, woken], [], [], LOOK_EVERY)[0]
        if woken in readable:
            os.read(woken, 64)
        elif readable:
            return "stop" if os.read(0, 16).startswith(b"stop") else "vanished"
    return "ended"


def _end(java: "subprocess.Popen[bytes]") -> None:
    if java.poll() is None:
        java.terminate()
    try:
        java.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def _die_with_parent() -> None:
    """Linux: the kernel kills Java when the watchdog is gone. Elsewhere only the watchdog itself ends Java."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
