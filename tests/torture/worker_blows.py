"""What is done to workers, clocks and the broker: bursts of blows in an order that follows from the seed, and peace between them.

After a burst the workers are left in peace until acts are done again. So a burst hits work under way, and not processes that are
still starting, however slow the machine is.
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from streams.broker import Broker
from tests.torture.processes import Process
from tests.torture.torture_fleet import TortureFleet, writes_before_a_tear
from tests.torture.torture_options import TortureOptions


def bursts(options: TortureOptions, chance: random.Random) -> Iterator[list[str]]:
    """All blows of a run, in bursts."""
    counts: Mapping[str, int] = {
        "kill": options.kills,
        "freeze": options.freezes,
        "broker": options.broker_kills,
        "tear": options.tears,
        "stop": max(1, options.kills // 5),
        "clock": max(2, options.kills // 3),
    }
    blows = [blow for blow, count in counts.items() for _ in range(count)]
    chance.shuffle(blows)
    return (blows[i : i + options.burst] for i in range(0, len(blows), options.burst))


@dataclass
class WorkerBlows:
    """`peace` lets all work until enough was done. `broker_needed` is held by whoever cannot bear that the broker ends."""

    options: TortureOptions
    fleet: TortureFleet
    broker: Broker
    broker_needed: asyncio.Lock
    peace: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self.chance = random.Random(f"workers {self.options.seed}")
        self.away: list[tuple[float, float]] = []
        """When the broker was away."""
        self.blows: Mapping[str, Callable[[Process], Awaitable[None]]] = {
            "kill": self._kill, "freeze": self._freeze, "broker": self._broker,
            "tear": self._tear, "stop": self._stop, "clock": self._clock,
        }  # fmt: skip

    async def strike(self) -> None:
        """All of it."""
        for burst in bursts(self.options, self.chance):
            for blow in burst:
                await self.fleet.rest(self.chance.uniform(0.5, self.options.rest))
                await self.blows[blow](self.chance.choice(self.fleet.workers))
            await self.peace()

    async def _kill(self, process: Process) -> None:
        self.fleet.done["kill -9"] += 1
        process.kill()
        await self._again(process)

    async def _stop(self, process: Process) -> None:
        self.fleet.done["TERM"] += 1
        if await asyncio.to_thread(process.stop, 25) == -1:
            self.fleet.done["TERM too slow"] += 1
        await self._again(process)

    async def _again(self, process: Process) -> None:
        if self.chance.random() < 0.4:
            await asyncio.sleep(self.chance.uniform(0, 7))
        process.start()

    async def _tear(self, process: Process) -> None:
        """It dies in the middle of a checkpoint, as soon as it writes some."""
        self.fleet.tear(process, writes_before_a_tear(self.chance))

    async def _freeze(self, process: Process) -> None:
        """Longer than the session timeout of 6 s: the group gives its partitions away, and then it wakes up."""
        self.fleet.done["frozen"] += 1
        process.send(signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(7, 11))
        process.send(signal.SIGCONT)

    async def _clock(self, _process: Process) -> None:
        await self.fleet.clocks.strike()

    async def _broker(self, _process: Process) -> None:
        self.fleet.done["broker kill -9"] += 1
        async with self.broker_needed:
            begun = time.time()
            await asyncio.to_thread(self.broker.kill)
            await asyncio.sleep(self.chance.uniform(0.5, 2.0))
            await asyncio.to_thread(self.broker.start)
            self.away.append((begun, time.time()))
