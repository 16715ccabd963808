"""The bad clocks of a run: two or three at once, of which now and then one is killed or frozen."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.torture.forked_processes import ForkedProcess
from tests.torture.processes import Process

MOST = 3
"""Clocks at once."""


class TortureClocks:
    """`done` counts what happens to them, and `told` is what each of them is told."""

    def __init__(self, told: Mapping[str, object], folder: Path, done: Counter[str], *, seed: int) -> None:
        self._told, self._folder, self._done, self._seed = told, folder, done, seed
        self._chance = random.Random(f"clocks {seed}")
        self._kills = self._chance.random() < 0.5
        """Whether the last blow was a kill."""
        self.running: list[Process] = []
        self.all: list[Process] = []
        """Those that were ended, too."""

    def start(self) -> None:
        """Start two."""
        for _ in range(2):
            self._add()

    def _add(self) -> None:
        self._done["clocks"] += 1
        told = {**self._told, "seed": self._seed * 1000 + self._done["clocks"]}
        process = Process("tests.torture.faulty_clock", told, self._folder / "clock.log", ForkedProcess)
        process.start()
        self.running.append(process)
        self.all.append(process)

    async def strike(self) -> None:
        """Freeze one for some ticks, or kill one, and let one or two join; the next blow is the other of the two."""
        victim, self._kills = self._chance.choice(self.running), not self._kills
        if self._kills:
            self._done["clocks killed"] += 1
            self.running.remove(victim)
            victim.kill()
            for _ in range(self._chance.randrange(1, MOST + 1 - len(self.running))):
                self._add()
        else:
            self._done["clocks frozen"] += 1
            victim.send(signal.SIGSTOP)
            await asyncio.sleep(self._chance.uniform(1.0, 5.0))
            victim.send(signal.SIGCONT)

    def end(self) -> None:
        """No more ticks."""
        for process in self.running:
            process.kill()
