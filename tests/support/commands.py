"""The product's commands as processes, on topics of a test's own: started, killed, waited for, and gone at the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streams.topics import Topics
from tests.support.slow_machines import SLOWER

ROOT = Path(__file__).parents[2]


@dataclass
class Commands:
    """`python -m agents WORDS`, each under a name, with the settings in `told` (environment names without `ULLAGE_`)."""

    broker: str
    topics: Topics
    folder: Path
    told: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *words: str) -> None:
        settings = {
            "LOG__BROKERS": self.broker,
            "TOPICS__PREFIX": self.topics.prefix,
            "TOPICS__PARTITIONS": str(self.topics.partitions),
            "WORKER__NAME": self.topics.prefix,
            "WORKER__CHECKPOINT_LEAST": "0.1",  # tests wait for marks of turns in which little came
            **self.told,
        }
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **{f"ULLAGE_{key}": value for key, value in settings.items()}}
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "agents", *words]
            self.running[name] = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def end(self, name: str) -> None:
        """Ask it to end, and wait until it did."""
        self.running[name].terminate()
        self.running[name].wait(SLOWER * 30)

    def wait(self, done: Callable[[], object], seconds: float, what: str = "") -> None:
        """Until it is done; nobody may have ended with an error meanwhile."""
        until = time.monotonic() + SLOWER * seconds
        while not done():
            ended = [name for name, process in self.running.items() if process.poll() not in (None, 0, -signal.SIGKILL)]
            assert not ended, f"{ended} ended:\n{self.said(ended[0])}"
            assert time.monotonic() < until, f"after {SLOWER * seconds:g} s still not: {what}"
            time.sleep(0.3)

    def said(self, name: str) -> str:
        """The last lines of what it said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
