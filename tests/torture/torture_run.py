"""One run: two workers, a bad clock, generated load; kill, stop, freeze and tear at random; then settle and check."""

import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaProducer

from agents.engine import checkpoint_selection
from agents.engine.stage import Stage
from streams.broker import Broker, BrokerSettings
from streams.codec import event_codec
from streams.topics import Topics
from tests.torture import faulty_worker, kafka_topics, recomputation
from tests.torture.generated_load import Clock, Load, keep_sending
from tests.torture.processes import Process
from tests.torture.recomputation import Report
from tests.torture.torture_cluster import TortureCluster

PERIOD = 20_000
TICK = 0.2
"""A tick is twenty simulated seconds, and comes every 200 ms: decisions that wait for a dead worker may expire, not all do."""


@dataclass(frozen=True)
class TortureOptions:
    """What a run is to be."""

    seed: int
    kills: int = 20
    stages: str = "pipeline"
    partitions: int = 4
    broker_kills: int = 1
    freezes: int = 3
    rest: float = 5.0
    """Seconds at most between two blows."""


SHORT = TortureOptions(1, kills=3, partitions=2, freezes=1, rest=4.0)


@dataclass
class Run:
    """A run under way."""

    told: TortureOptions
    broker: Broker
    folder: Path
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.told.seed)
        self.topics = Topics(f"torture{self.told.seed}", self.told.partitions)
        self.stages: tuple[Stage, ...] = faulty_worker.stages(self.told.stages)
        self.inputs = tuple(dict.fromkeys(name for stage in self.stages for name in stage.reads))
        self.clock = Clock(time.time(), PERIOD / 1000 / TICK)
        self.workers = [self._worker(n) for n in range(2)]
        self.clocks: list[Process] = []
        self.shop: TortureCluster | None = None
        self.consumer: Process | None = None

    def open_shop(self) -> None:
        """A simulated cluster and its consumers, for stages that decide about pods."""
        self.shop = TortureCluster(self.broker.bootstrap, self.topics, self.told.seed, self.clock())
        told = {
            "brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": self.told.partitions,
            "url": self.shop.open(), "die": 0.03,
        }  # fmt: skip
        self.consumer = Process("tests.torture.faulty_consumer", told, self.folder / "consumer.log")
        self.consumer.start()

    @property
    def name(self) -> str:
        return f"t{self.told.seed}"

    def _worker(self, n: int) -> Process:
        told = {
            "brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": self.told.partitions, "name": self.name,
            "stages": self.told.stages, "tear": 0.002, "skip": 0.003, "buffer": 200_000,
        }  # fmt: skip
        return Process("tests.torture.faulty_worker", told, self.folder / f"worker{n}.log")

    def add_clock(self) -> None:
        self.done["clocks"] += 1
        told = {
            "brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": self.told.partitions,
            "topics": self.inputs, "epoch": self.clock.epoch, "speed": self.clock.speed, "period": PERIOD,
            "seed": self.told.seed * 1000 + self.done["clocks"], "faults": 1.0,
        }  # fmt: skip
        process = Process("tests.torture.faulty_clock", told, self.folder / "clock.log")
        process.start()
        self.clocks.append(process)

    async def hurt(self) -> None:
        """The torture itself."""
        blows = ["kill"] * self.told.kills + ["freeze"] * self.told.freezes + ["broker"] * self.told.broker_kills
        blows += ["stop"] * max(1, self.told.kills // 5) + ["clock"] * max(2, self.told.kills // 3)
        blows += ["consumer"] * max(1, self.told.kills // 4)
        self.chance.shuffle(blows)
        for blow in blows:
            await self._rest(self.chance.uniform(0.5, self.told.rest))
            await getattr(self, f"_{blow}")(self.chance.choice(self.workers))
        await self._rest(5.0)

    async def _rest(self, seconds: float) -> None:
        """Let it work; start again who died by himself (torn on purpose, or the broker's fault)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for process in self.workers:
                code = process.revive()
                if code is not None:
                    self.done["torn" if code == 9 else f"exit {code}"] += 1
            if self.consumer is not None and (code := self.consumer.revive()) is not None:
                self.done["died between act and outcome" if code == 9 else f"consumer exit {code}"] += 1
            await asyncio.sleep(0.1)

    async def _kill(self, process: Process) -> None:
        self.done["kill -9"] += 1
        process.kill()
        await self._again(process)

    async def _stop(self, process: Process) -> None:
        self.done["TERM"] += 1
        process.send(signal.SIGTERM)
        if await asyncio.to_thread(process.wait, 25) == -1:
            self.done["TERM too slow"] += 1
        await self._again(process)

    async def _again(self, process: Process) -> None:
        if self.chance.random() < 0.4:
            await asyncio.sleep(self.chance.uniform(0, 7))
        process.start()

    async def _freeze(self, process: Process) -> None:
        """Longer than the session timeout of 6 s: the group gives its partitions away, and then it wakes up."""
        self.done["frozen"] += 1
        process.send(signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(7, 11))
        process.send(signal.SIGCONT)

    async def _clock(self, _process: Process) -> None:
        self.done["clock events"] += 1
        if len(self.clocks) < 2 and self.chance.random() < 0.5:
            self.add_clock()
            return
        self.clocks.pop(self.chance.randrange(len(self.clocks))).kill()
        if not self.clocks:
            await asyncio.sleep(self.chance.uniform(0, 2))
            self.add_clock()

    async def _consumer(self, _process: Process) -> None:
        if self.consumer is not None:
            self.done["consumer kill -9"] += 1
            self.consumer.kill()
            self.consumer.start()

    async def _broker(self, _process: Process) -> None:
        self.done["broker kill -9"] += 1
        await asyncio.to_thread(self.broker.kill)
        await asyncio.sleep(self.chance.uniform(0.5, 2.0))
        await asyncio.to_thread(self.broker.start)

    async def settle(self) -> bool:
        """End all clocks, write clean ticks, restart the workers without faults, wait until every mark names the last turn."""
        for process in self.clocks:
            process.kill()
        await self._clean_ticks()
        if self.consumer is not None:
            self.consumer.kill()
            self.consumer.told["die"] = 0.0
            self.consumer.start()
        for process in self.workers:
            process.kill()
            process.told |= {"tear": 0.0, "skip": 0.0}
            process.start()
        until = time.monotonic() + 120
        while time.monotonic() < until:
            await self._rest(3.0)
            if await self._level() and (self.shop is None or not (await self.shop.judge())[1]):
                return True
        return False

    async def _clean_ticks(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all")
        await producer.start()
        self.last = (self.clock() // PERIOD + 10) * PERIOD
        for number in (self.last - PERIOD, self.last):
            for name in self.inputs:
                for p in range(self.topics.partitions):
                    r = event_codec.tick(self.topics.wire(name), p, number)
                    await producer.send_and_wait(r.topic, key=r.key, value=r.value, partition=r.partition)
        await producer.stop()

    async def _level(self) -> bool:
        for stage in self.stages:
            topic = f"{self.name}-{stage.name}-state-changelog"
            for records in await kafka_topics.whole(self.broker.bootstrap, topic, self.topics.partitions):
                found = checkpoint_selection.read({r.key: r.value for r in records if r.key is not None}).found
                if found is None or found.mark.turn != self.last:
                    return False
        return True

    def end(self) -> None:
        if self.consumer is not None:
            self.consumer.kill()
        for process in [*self.workers, *self.clocks]:
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        for process in [*self.workers, *self.clocks]:
            process.wait(20)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def run(told: TortureOptions) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="ullage-torture-"))
    began = time.monotonic()
    broker = Broker(BrokerSettings(heap_mb=384, quick=True)).start()
    run = Run(told, broker, folder)
    try:
        await asyncio.to_thread(kafka_topics.create, broker.bootstrap, run.topics)
        load, stop = Load(run.topics, told.seed), asyncio.Event()
        if told.stages == "pipeline":
            await asyncio.to_thread(run.open_shop)
        run.add_clock()
        for process in run.workers:
            process.start()
        sending = asyncio.create_task(keep_sending(broker.bootstrap, load, run.clock, stop))
        await run.hurt()
        stop.set()
        await sending
        settled = await run.settle()
        run.end()
        report = await recomputation.recompute(broker.bootstrap, run.topics, run.stages, run.name)
        if run.shop is not None:
            figures, wrong = await run.shop.judge()
            report.figures.update(figures)
            report.wrong += wrong
            run.shop.close()
    finally:
        run.end()
        broker.close()
    if not settled:
        report.wrong.append("the workers did not reach the last turn")
    blows = ", ".join(f"{what} {n}" for what, n in sorted(run.done.items()))
    words = ("gap", "LOST", "checkpoint", "memory")
    seen = ", ".join(f"{word} {sum(p.count(f'{chr(34)}{word}{chr(34)}') for p in run.workers)}" for word in words)
    took = f"{time.monotonic() - began:.0f} s | {blows} | {seen} | samples {load.sent['samples']:,}"
    say(f"seed {told.seed} | {told.stages} | {took} | {report}")
    if report.exact:
        shutil.rmtree(folder)
    else:
        say(f"logs in {folder}")
    return report
