"""One program of the control plane as a process: started, known to be ready, stopped in order, its log kept.

The broker's keeper stands between us and it, so that none outlives the tests: neither after Ctrl-C nor after kill -9.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streams.broker import watchdog

_STOP_WAIT = watchdog.PATIENCE + 5.0
_LOOK_EVERY = 0.02
_QUOTED = 1500


class PlaneError(Exception):
    """Why the control plane, or one program of it, does not run."""


class Program:
    """`ready` says whether it answers. The log is appended to from start to start."""

    def __init__(self, command: Sequence[str], log: Path, ready: Callable[[], bool]) -> None:
        self.name = Path(command[0]).name
        self._command, self.log, self._ready = list(command), log, ready
        self._keeper: subprocess.Popen[str] | None = None
        self.pid = 0

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        with self.log.open("a", encoding="utf-8") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(watchdog.__file__)), "", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        line = self._keeper.stdout.readline() if self._keeper.stdout is not None else ""
        self.pid = int(line) if line.strip() else 0

    def wait_ready(self, timeout: float, *, restarts: int = 0) -> None:
        """Raises PlaneError with the last it wrote. One that ends meanwhile is started again, at most so many times."""
        until = time.monotonic() + timeout
        while not self._ready():
            if not self.running and restarts > 0:
                restarts -= 1
                self.start()
                continue
            if not self.running or time.monotonic() > until:
                what = f"was not ready within {timeout:.0f} s" if self.running else "ended while it started"
                said = self.log.read_text(encoding="utf-8", errors="replace")[-_QUOTED:]
                raise PlaneError(f"{self.name} {what}. The last it wrote to '{self.log}' was: {said}")
            time.sleep(_LOOK_EVERY)

    def ask_to_stop(self) -> None:
        """Without waiting; `stop` waits."""
        if self.running and self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.write("stop\n")
            self._keeper.stdin.flush()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help. Harmless when it does not run."""
        keeping, self._keeper = self._keeper, None
        if keeping is None:
            return
        try:
            keeping.communicate("stop\n", timeout=_STOP_WAIT)
        except subprocess.TimeoutExpired:
            keeping.kill()
            keeping.communicate()

    def stop_within(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL when it still runs after `seconds`."""
        self.ask_to_stop()
        until = time.monotonic() + seconds
        while self.running and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        self.kill()

    def kill(self) -> None:
        """kill -9."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        self.stop()
