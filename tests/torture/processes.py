"""Processes under torture: started, killed, stopped, put to sleep, and counted."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]


class Running(Protocol):
    """A process that was started, in the words of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def send_signal(self, number: signal.Signals, /) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def start_interpreter(module: str, told: dict[str, object], log: Path) -> Running:
    """A new interpreter."""
    with log.open("ab") as output:
        command = [sys.executable, "-m", module, json.dumps(told)]
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, stdin=subprocess.DEVNULL)


class Process:
    """One `python -m module told`; started again under the same log file. `begin` is how it is started."""

    def __init__(
        self,
        module: str,
        told: dict[str, object],
        log: Path,
        begin: Callable[[str, dict[str, object], Path], Running] = start_interpreter,
    ) -> None:
        self.module, self.told, self.log, self.begin = module, told, log, begin
        self.process: Running | None = None
        self.ends: Counter[int] = Counter()

    def start(self) -> None:
        self.process = self.begin(self.module, self.told, self.log)

    @property
    def dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def revive(self) -> int | None:
        """Start it again if it ended by itself; how it ended."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.ends[code] += 1
        self.start()
        return code

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Its exit code; killed when it takes longer."""
        if self.process is None:
            return -9
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -1

    def stop(self, seconds: float) -> int:
        """Ask it to end; its exit code."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None  # what was killed on purpose is not revived

    def count(self, word: str) -> int:
        """How many lines of its log say so."""
        return len(self.lines(word))

    def lines(self, word: str) -> list[str]:
        """The lines of its log that say so."""
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(errors="replace").splitlines() if word in line]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
