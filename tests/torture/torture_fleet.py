"""The workers and clocks of a run: started, started again when they end by themselves, and made sound at the end."""

import asyncio
import random
import signal
import time
from collections import Counter
from pathlib import Path

from streams.topics import Topics
from tests.torture.forked_processes import ForkedProcess
from tests.torture.generated_load import Clock
from tests.torture.processes import Process
from tests.torture.torture_clocks import TortureClocks
from tests.torture.torture_options import PERIOD, TortureOptions


class TortureFleet:
    """Two workers and two or three bad clocks. `done` counts what happens to them."""

    def __init__(self, options: TortureOptions, topics: Topics, brokers: str, clock: Clock, *, folder: Path) -> None:
        self.options, self.topics, self.brokers, self.folder = options, topics, brokers, folder
        self.name = f"t{options.seed}"
        """What the workers share; their changelogs begin with it."""
        self.done = Counter[str]()
        self.workers = [self._worker(n) for n in range(2)]
        told = {
            "brokers": brokers, "prefix": topics.prefix, "partitions": topics.partitions, "epoch": clock.epoch,
            "speed": clock.speed, "period": PERIOD, "faults": 1.0,
        }  # fmt: skip
        self.clocks = TortureClocks(told, folder, self.done, seed=options.seed)

    def start(self) -> None:
        """Start clocks and workers."""
        self.clocks.start()
        for process in self.workers:
            process.start()

    def tear(self, worker: Process, writes: int) -> None:
        """Let a worker die in its checkpoints, after so many more writes."""
        Path(str(worker.told["tear"])).write_text(str(writes))

    async def rest(self, seconds: float) -> None:
        """Let it work; start again the worker that died by itself (torn on purpose, or the broker's fault)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for process in self.workers:
                code = process.revive()
                if code is not None:
                    self.done["torn" if code == 9 else f"exit {code}"] += 1
            await asyncio.sleep(0.1)

    @property
    def recovered(self) -> bool:
        """Whether workers were at work before, so that their changelogs are there."""
        return any(worker.count('"recovered"') for worker in self.workers)

    def begin_anew_without_faults(self) -> None:
        """Kill the workers a last time."""
        for process in self.workers:
            process.kill()
            process.told |= {"tear": "", "skip": 0.0}
            process.start()

    def go_on_with(self, topics: Topics) -> None:
        """Start the workers on a log that was moved, whose prefix is their name from now on."""
        self.topics, self.name = topics, topics.prefix
        for process in self.workers:
            process.told |= {"prefix": topics.prefix, "partitions": topics.partitions, "name": topics.prefix}
            process.start()

    def end(self) -> None:
        """Ask the workers to end, and end the clocks."""
        for process in self.workers:
            process.send(signal.SIGCONT)
            process.ask_to_end()
        for process in self.workers:
            process.stop(20)
        self.clocks.end()

    def _worker(self, n: int) -> Process:
        told = {
            "brokers": self.brokers, "prefix": self.topics.prefix, "partitions": self.topics.partitions, "name": self.name,
            "stages": self.options.stages, "tear": str(self.folder / f"tear{n}"), "skip": 0.003, "buffer": 200_000,
            "mutants": self.options.worker_mutants, "once": str(self.folder / "once"),
        }  # fmt: skip
        return Process("tests.torture.faulty_worker", told, self.folder / f"worker{n}.log", ForkedProcess)


def writes_before_a_tear(chance: random.Random) -> int:
    """So that some tears come between chunks and some before a mark."""
    return chance.randrange(30)
