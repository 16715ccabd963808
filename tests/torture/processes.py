"""Processes under torture: started, killed, stopped, put to sleep, and counted."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """One `python -m module told`; started again under the same log file."""

    def __init__(self, module: str, told: dict[str, object], log: Path) -> None:
        self.module, self.told, self.log = module, told, log
        self.process: subprocess.Popen[bytes] | None = None
        self.ends: Counter[int] = Counter()

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", self.module, json.dumps(self.told)]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

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
