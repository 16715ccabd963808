"""Processes under torture: started, killed, stopped, put to sleep, and counted.

Each remembers when it ended by itself, with what code, and when it woke up, so that a run can say which ends nobody provided for.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
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


def end_with_any_thread() -> None:
    """Let this process end with code 70 when one of its threads fails; it would go on without it, and nobody would know."""

    def end(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is not SystemExit:
            traceback.print_exception(failed.exc_value)
            sys.stderr.flush()
            os._exit(70)

    threading.excepthook = end


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """A process ended by itself: the code, and between which looks at it (seconds since the epoch)."""

    code: int
    after: float
    at: float


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
        self.ends: list[ProcessEnd] = []
        """When it ended by itself."""
        self.wakes: list[float] = []
        """When it went on after it was frozen."""
        self._looked, self._frozen = 0.0, False
        self._asked: float | None = None
        """When it was asked to end."""

    def start(self) -> None:
        self._note_end()
        self.process = self.begin(self.module, self.told, self.log)
        self._looked, self._asked = time.time(), None

    @property
    def dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def revive(self) -> int | None:
        """Start it again if it ended by itself; how it ended."""
        code = self._note_end()
        if code is not None:
            self.start()
        return code

    def _note_end(self) -> int | None:
        """Remember it if it ended by itself since the last look; the code."""
        code, before, self._looked = None if self.process is None else self.process.poll(), self._looked, time.time()
        if code is not None:
            self.ends.append(ProcessEnd(code, before, self._looked))
            self.process = None
        return code

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            if number is signal.SIGCONT and self._frozen:
                self.wakes.append(time.time())
            self._frozen = number is signal.SIGSTOP or (self._frozen and number is not signal.SIGCONT)

    def wait(self, seconds: float) -> int:
        """The code with which it ends, as it was asked to; killed when it takes longer."""
        if self.process is None:
            return -9
        process, self.process = self.process, None
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return -1

    def ask_to_end(self) -> None:
        """Ask it to end, once; what it does from now on is no end by itself, unless it is one with an error."""
        if self._asked is None:
            self._note_end()
            self.send(signal.SIGTERM)
            self._asked = time.time()

    def stop(self, seconds: float) -> int:
        """Ask it to end, if nobody did; its exit code. One that is not 0 counts as an end by itself."""
        self.ask_to_end()
        asked, code = self._asked or 0.0, self.wait(seconds)
        if code > 0:
            self.ends.append(ProcessEnd(code, asked, time.time()))
        return code

    def kill(self) -> None:
        self._note_end()
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
