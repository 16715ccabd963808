"""Child processes of one command: started, watched, restarted if `keep` is set, and none left behind.

Each child leads a process group of its own, so a Ctrl-C in the terminal reaches only that command, which then stops them in
order. A child knows its parent (`agents.processes.signals`) and dies with it, however that dies. A child's output goes to a
file.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from streams.errors import UllageError

RESTARTS = 5
GRACE = 8.0


class ChildDied(UllageError):
    """A process ended before its time."""


@dataclass(slots=True)
class ChildProcess:
    """One process. `keep`: start it again when it ends. `may_end`: it may end with exit code 0."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    keep: bool = False
    may_end: bool = False
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0

    def start(self) -> None:
        """Start it in a group of its own; its output is appended to its log."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: S603  # our own command, our own arguments
                self.argv,
                # a child that knows its parent ends with it, also where the parent is killed and cleans up nothing
                env={**os.environ, **self.environment, "ULLAGE_PARENT": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C reaches our command alone, which then stops its children in order
            )

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return None if self.process is None else self.process.poll()

    def wait(self, seconds: float) -> None:
        """Wait until it ends, at most so long."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)

    def last_lines(self, count: int = 8) -> str:
        """The last lines that it printed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"    {line}" for line in lines[-count:]) or "    (it printed nothing)"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its whole group; does nothing when that is gone."""
        if self.process is not None:
            # the group may have ended since the look
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)


@dataclass(slots=True)
class ChildProcesses:
    """All children of one command; their logs are in `folder`."""

    folder: Path
    all: list[ChildProcess] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str], keep: bool = False) -> ChildProcess:
        """Start `ullage COMMAND` with these environment variables added."""
        argv = [sys.executable, "-m", "agents", *command]
        child = ChildProcess(name, argv, environment, self.folder / f"{name}.log", keep)
        self.all.append(child)
        child.start()
        return child

    def check(self) -> list[str]:
        """Restart the children to keep; returns the names of those. Raises ChildDied for any other that has ended."""
        again = []
        for child in self.all:
            code = child.code
            if code is None or (child.may_end and code == 0):
                continue
            if not child.keep or child.restarts >= RESTARTS:
                raise ChildDied(_obituary(child, code))
            child.restarts += 1
            child.start()
            again.append(child.name)
        return again

    def stop(self, grace: float = GRACE) -> None:
        """Ask all to end, in reverse order of start; kill what is left after `grace` seconds. May be called again."""
        # in reverse order of start: consumers end before the cluster that they act on, and all before the broker
        for child in reversed(self.all):
            if child.code is None:
                child.send(signal.SIGTERM)
        until = time.monotonic() + grace
        while time.monotonic() < until and any(child.code is None for child in self.all):
            time.sleep(0.02)
        # also the groups of those that have ended, whose members may outlive them
        self.kill()

    def stop_one(self, name: str, grace: float = GRACE) -> None:
        """End one child for good."""
        for child in [c for c in self.all if c.name == name]:
            child.send(signal.SIGTERM)
            child.wait(grace)
            # also where it ignored SIGTERM
            child.send(signal.SIGKILL)
            child.wait(grace)
            self.all.remove(child)

    def kill(self) -> None:
        """Kill and reap every group."""
        for child in self.all:
            child.send(signal.SIGKILL)
            if child.process is not None:
                child.process.wait()


def _obituary(child: ChildProcess, code: int) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    often = f" for the {child.restarts + 1}th time" if child.restarts else ""
    return f"'{child.name}' {how}{often}; the end of {child.log}:\n{child.last_lines()}"
