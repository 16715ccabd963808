"""`python -m tests.bench.restarts restart before=0/30 after=100000/240`: how long turns wait when workers die, start and join.

Each NAME=SAMPLES/ROUNDS is a pacing of checkpoints (`worker.checkpoint_samples`, and rounds between two quiet ones) with
topics of its own and a fleet of its own, all at once on one Kafka: a VPA for each workload, a day of history, a scrape a minute,
a tick each half second. `restart`: the only worker is killed with -9, three minutes after its marks, and another is started at
once; three minutes later a second one joins. `killed`: of two workers one is killed, and then the only one each two minutes, and
started again. What is said is the longest time in which a task of some stage took no turn within a second of its tick.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agents.run.stage_topics import stage_names
from streams.broker import Broker, BrokerSettings
from tests.bench import measure
from tests.bench.idle_costs import SCRAPE_SECONDS, settle
from tests.bench.measure import TICK_MS, Site
from tests.torture.processes import Process

LEVEL = 1.0
"""Seconds from a tick to its turn within which a task is level."""
AFTER = 30.0
"""Seconds after a disturbance that are looked at."""
APART = 12.0
"""Seconds between the same disturbance of two trials."""
EACH = 120.0
"""Seconds between two kills, where one follows the other: fewer than between two quiet rounds of checkpoints."""


@dataclass
class Trial:
    """A pacing and its site."""

    name: str
    site: Site
    pacing: Mapping[str, int]

    def worker(self) -> Process:
        return self.site.worker(turns=True, pacing=self.pacing)

    async def prepare(self) -> None:
        """A fleet that is known, in a checkpoint."""
        (await settle(self.site)).stop(60)

    async def live(self) -> None:
        """The clock and a scrape a minute, until cancelled."""
        site, scraped = self.site, 0.0
        while True:
            number = int(time.time() * 1000) // TICK_MS * TICK_MS
            if time.monotonic() - scraped > SCRAPE_SECONDS:
                scraped = time.monotonic()
                await site.send(list(site.fleet.scrape(number)))
            if number > site.turn:
                await site.tick(number)
            await asyncio.sleep(0.02)

    async def over(self, what: str, since: float, *workers: Process) -> None:
        """Say how long turns of a task were late at most, from a moment on, and how many were taken again."""
        await asyncio.sleep(AFTER - (time.time() - since))
        tasks: dict[tuple[str, int], list[float]] = {
            (stage, partition): [since] for stage in stage_names() for partition in range(self.site.partitions)
        }
        again = 0
        for note in measure.of_all(workers, "turn"):
            if note["at"] > since:
                again += note["turn"] / 1000 < since - LEVEL
                if note["at"] - note["turn"] / 1000 < LEVEL:
                    tasks[note["stage"], note["partition"]].append(note["at"])
        longest = max(float(np.max(np.diff([*sorted(at), since + AFTER]))) for at in tasks.values())
        sys.stdout.write(f"{self.name}: {what}: {longest:.2f} s, {again} turns taken again\n")
        sys.stdout.flush()


async def restart(trial: Trial, wait: float) -> None:
    """The only worker is killed, and another one starts; later a second joins."""
    first = trial.worker()
    await asyncio.sleep(wait)
    first.kill()
    since, second = time.time(), trial.worker()
    await trial.over("killed and started again", since, second)
    await asyncio.sleep(wait - AFTER)
    since, third = time.time(), trial.worker()
    await trial.over("a second joins", since, second, third)


async def killed(trial: Trial, wait: float) -> None:
    """One of two is killed; then the only one each two minutes."""
    first, second = trial.worker(), trial.worker()
    await asyncio.sleep(wait)
    second.kill()
    since = time.time()
    await trial.over("one of two is killed", since, first)
    for number in range(1, 4):
        await asyncio.sleep(EACH - (time.time() - since))
        first.kill()
        since, first = time.time(), trial.worker()
        await trial.over(f"killed after two minutes, time {number}", since, first)


SCENES = {"restart": restart, "killed": killed}


async def main(trials: Sequence[tuple[str, int, int]], containers: int, wait: float, scene: str) -> None:
    """Play a scene for all trials at once."""
    with tempfile.TemporaryDirectory() as folder, Broker(BrokerSettings()) as broker:
        made = [
            Trial(name, Site(broker.bootstrap, Path(folder), containers, 4, f"-{name}"), {"samples": samples, "quiet": quiet})
            for name, samples, quiet in trials
        ]
        for trial in made:
            await trial.prepare()
        clocks = [asyncio.create_task(trial.live()) for trial in made]
        try:
            await asyncio.gather(*(SCENES[scene](trial, wait + APART * n) for n, trial in enumerate(made)))
        finally:
            for clock in clocks:
                clock.cancel()
            for trial in made:
                await trial.site.close()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("scene", choices=SCENES)
    arguments.add_argument("trials", nargs="+", help="NAME=SAMPLES/ROUNDS")
    arguments.add_argument("--containers", type=int, default=2_000)
    arguments.add_argument("--wait", type=float, default=180.0)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    chosen = arguments.parse_args()
    named = [(name, *map(int, pacing.split("/"))) for name, _, pacing in (text.partition("=") for text in chosen.trials)]
    asyncio.run(main(named, chosen.containers, chosen.wait, chosen.scene))
