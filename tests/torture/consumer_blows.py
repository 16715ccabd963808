"""What is done to the consumers of clusters, while workers are hurt as well: each blow falls once acts are done again."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.torture.torture_cluster import TortureCluster
from tests.torture.torture_consumers import TortureConsumers
from tests.torture.torture_options import EXPIRES, STARTING, TortureOptions

ACTS_BETWEEN = 5
"""Acts of each cluster between two blows ..."""
PEACE = 120.0
"""... but no longer than so many seconds."""
TAKEN_OVER = 40.0
"""Seconds at most until another instance has the Lease of a frozen one; it may take 15."""
BOTH_AWAKE = 40
"""Acts after the holder of a Lease that is never let go has woken up."""
FREEZES = 3
"""How often a holder is frozen, at most, until another has taken over once."""


@dataclass
class ConsumerBlows:
    """`instances` are all consumers of all `clusters`. `broker_needed` is held by whoever cannot bear that the broker ends."""

    options: TortureOptions
    clusters: Sequence[TortureCluster]
    instances: Sequence[TortureConsumers]
    broker_needed: asyncio.Lock
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"consumers {self.options.seed}")
        self.blows: Mapping[str, Callable[[], Awaitable[None]]] = {
            "away": self._away, "frozen_holder": self._frozen_holder, "paused": self._paused,
            "pause": self._pause_at_work, "kill": self._kill,
        }  # fmt: skip

    async def strike(self) -> None:
        """All of it."""
        for blow in self.options.consumer_blows if self.clusters else ():
            await self.acts(ACTS_BETWEEN, PEACE)
            await self.rest(self.chance.uniform(0.0, self.options.rest))
            await self.blows[blow]()

    async def rest(self, seconds: float) -> None:
        """Let them work, and start those again that ended by themselves."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.revive()
            await asyncio.sleep(0.1)

    def revive(self) -> None:
        """Start those again that ended by themselves."""
        for consumers in self.instances:
            code = consumers.revive()
            if code is not None:
                self.done["died between act and outcome" if code == 9 else f"consumer exit {code}"] += 1

    async def acts(self, more: int, most: float, cluster: TortureCluster | None = None) -> None:
        """Wait until so many more acts were done to a cluster, the first if none is named, but not for ever."""
        until, acts = time.monotonic() + most, (cluster or self.clusters[0]).cluster.acts
        enough = len(acts) + more
        while len(acts) < enough and time.monotonic() < until:
            await self.rest(0.2)

    async def until_more(self, count: Callable[[TortureCluster], int], more: int, most: float) -> None:
        """Wait until each cluster has so many more of what `count` counts, but not for ever."""
        until, before = time.monotonic() + most, [await asyncio.to_thread(count, cluster) for cluster in self.clusters]
        while time.monotonic() < until:
            await self.rest(0.5)
            now = [await asyncio.to_thread(count, cluster) for cluster in self.clusters]
            if all(n >= b + more for n, b in zip(now, before, strict=True)):
                return

    async def _kill(self) -> None:
        """One instance of two; the other takes over if this one held the Lease."""
        self.done["consumer kill -9"] += 1
        victim = self.chance.choice(self.instances)
        victim.kill()
        victim.start()

    async def _away(self) -> None:
        """All, longer than plans hold: what was planned meanwhile has expired when they come back."""
        self.done["consumers away"] += 1
        for consumers in self.instances:
            consumers.kill()
        await self.until_more(TortureCluster.planned, 2, STARTING)
        await asyncio.sleep(EXPIRES + 4.0)
        for consumers in self.instances:
            consumers.start()
        await self.until_more(TortureCluster.finished, 2, STARTING)

    async def _frozen_holder(self) -> None:
        """Whoever holds the Lease is frozen while it acts, until another has taken over and acted; then it wakes up.

        An instance may die by itself in that moment, and then takes the Lease again when it is back; then once more.
        """
        async with self.broker_needed:  # a client that slept through a broker's end waits 40 s before it looks again
            for cluster in self._contested():
                for _ in range(FREEZES):
                    if await self._taken_from_frozen(cluster):
                        self.done["take-overs from a mutant" if cluster.mutant else "take-overs"] += 1
                        # Two that both believe to hold it have to meet in an act.
                        await self.acts(BOTH_AWAKE if cluster.mutant else 0, PEACE, cluster)
                        break
        await self.rest(3.0)

    def _contested(self) -> list[TortureCluster]:
        """The clusters with more than one instance."""
        return [cluster for cluster in self.clusters if sum(cluster in consumers.clusters for consumers in self.instances) > 1]

    async def _taken_from_frozen(self, cluster: TortureCluster) -> bool:
        """Freeze who holds the Lease for as long as another needs to take it and to act; whether another did."""
        until = time.monotonic() + TAKEN_OVER
        while (holder := cluster.holder()) is None and time.monotonic() < until:
            await self.rest(0.2)
        frozen = next((one for one in self.instances if one.instance == holder and cluster in one.clusters), None)
        if frozen is None:
            self.done["nobody held the Lease"] += 1
            return False
        self.done["frozen holder"] += 1
        ends = len(frozen.process.ends)
        frozen.freeze()
        until = time.monotonic() + TAKEN_OVER
        while cluster.holder() == holder and len(frozen.process.ends) == ends and time.monotonic() < until:
            await self.rest(0.2)
        if len(frozen.process.ends) > ends:
            return False
        taken = cluster.holder() != holder
        if taken:
            await self.acts(3, EXPIRES, cluster)
        frozen.thaw()
        return taken

    async def _paused(self) -> None:
        """They are frozen until plans are there and a pause after them; they must refuse them all."""
        self.done["paused with plans"] += 1
        async with self.broker_needed:
            for consumers in self.instances:
                consumers.freeze()
            await self.until_more(TortureCluster.planned, 3, STARTING)
            await self._pause()
            for consumers in self.instances:
                consumers.thaw()
        await self.until_more(TortureCluster.finished, 2, EXPIRES)
        await self.rest(1.0)
        await self._resume()

    async def _pause_at_work(self) -> None:
        self.done["paused at work"] += 1
        await self._pause()
        await self.rest(6.0)
        await self._resume()

    async def _pause(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(cluster.pause) for cluster in self.clusters))

    async def _resume(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(cluster.resume) for cluster in self.clusters))
