"""One run: two workers, a bad clock, generated load, clusters with consumers; hurt all of them, then settle and check."""

import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
from tests.torture.torture_consumers import TortureConsumers
from tests.torture.torture_options import EXPIRES, PERIOD, SETTLING, SOUND, STARTING, TICK, TortureOptions


@dataclass
class Run:
    """A run under way."""

    options: TortureOptions
    broker: Broker
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    clusters: list[TortureCluster] = field(default_factory=list)
    consumers: list[TortureConsumers] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance, self.broker_needed = random.Random(self.options.seed), asyncio.Lock()
        self.topics = Topics(f"torture{self.options.seed}", self.options.partitions)
        self.stages: tuple[Stage, ...] = faulty_worker.stages(self.options.stages)
        self.inputs = tuple(dict.fromkeys(name for stage in self.stages for name in stage.reads))
        self.clock = Clock(time.time(), PERIOD / 1000 / TICK)
        self.workers = [self._worker(n) for n in range(2)]
        self.clocks: list[Process] = []

    def open_clusters(self) -> None:
        """Simulated clusters and their consumers, for stages that decide about pods."""
        mutants = {SOUND: "", **{f"mutant-{mutant}": mutant for mutant in self.options.consumer_mutants}}
        for name, mutant in mutants.items():
            size = 2 if mutant else self.options.deployments
            cluster = TortureCluster(name, self.broker.bootstrap, self.topics, self.clock(), size, mutant)
            cluster.open()
            self.clusters.append(cluster)
        for some, die, log in ((self.clusters[:1], 0.03, "sound"), (self.clusters[1:], 0.0, "mutant")):
            if some:
                where = self.folder / f"consumers-{log}.log"
                self.consumers.append(TortureConsumers(some, self.broker.bootstrap, self.topics, die=die, log=where))
                self.consumers[-1].start()

    @property
    def name(self) -> str:
        return f"t{self.options.seed}"

    def _worker(self, n: int) -> Process:
        told = {
            "brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": self.options.partitions,
            "name": self.name, "stages": self.options.stages, "tear": self.options.tear, "skip": 0.003, "buffer": 200_000,
            "mutant": self.options.worker_mutant,
        }  # fmt: skip
        return Process("tests.torture.faulty_worker", told, self.folder / f"worker{n}.log")

    def add_clock(self) -> None:
        self.done["clocks"] += 1
        told = {
            "brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": self.options.partitions,
            "topics": self.inputs, "epoch": self.clock.epoch, "speed": self.clock.speed, "period": PERIOD,
            "seed": self.options.seed * 1000 + self.done["clocks"], "faults": 1.0,
        }  # fmt: skip
        process = Process("tests.torture.faulty_clock", told, self.folder / "clock.log")
        process.start()
        self.clocks.append(process)

    async def hurt(self) -> None:
        """The torture itself, once all is at work: workers, clocks and broker on one side, consumers on the other."""
        until = time.monotonic() + STARTING
        while time.monotonic() < until and (not self._recovered or None in await self._marks()):
            await self._rest(1.0)
        await self._more(TortureCluster.finished, 5, STARTING)
        consumers = asyncio.create_task(self._hurt_consumers())
        await self._hurt_workers()
        while not consumers.done():
            await self._rest(0.5)
        await consumers

    async def _hurt_workers(self) -> None:
        blows = ["kill"] * self.options.kills + ["freeze"] * self.options.freezes + ["broker"] * self.options.broker_kills
        blows += ["stop"] * max(1, self.options.kills // 5) + ["clock"] * max(2, self.options.kills // 3)
        self.chance.shuffle(blows)
        for blow in blows:
            await self._rest(self.chance.uniform(0.5, self.options.rest))
            await getattr(self, f"_{blow}")(self.chance.choice(self.workers))
        await self._rest(5.0)

    async def _hurt_consumers(self) -> None:
        for blow in self.options.consumer_blows if self.clusters else ():
            await self._rest_consumers(self.chance.uniform(2.0, self.options.rest))
            await getattr(self, f"_consumers_{blow}")()

    async def _rest(self, seconds: float) -> None:
        """Let it work; start again the worker that died by itself (torn on purpose, or the broker's fault)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for process in self.workers:
                code = process.revive()
                if code is not None:
                    self.done["torn" if code == 9 else f"exit {code}"] += 1
            await asyncio.sleep(0.1)

    async def _rest_consumers(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._revive_consumers()
            await asyncio.sleep(0.1)

    def _revive_consumers(self) -> None:
        for consumers in self.consumers:
            code = consumers.revive()
            if code is not None:
                self.done["died between act and outcome" if code == 9 else f"consumer exit {code}"] += 1

    async def _more(self, count: Callable[[TortureCluster], int], more: int, most: float) -> None:
        """Wait until each cluster has so many more plans or outcomes, but not for ever."""
        until, before = time.monotonic() + most, [await asyncio.to_thread(count, cluster) for cluster in self.clusters]
        while time.monotonic() < until:
            await self._rest_consumers(0.5)
            now = [await asyncio.to_thread(count, cluster) for cluster in self.clusters]
            if all(n >= b + more for n, b in zip(now, before, strict=True)):
                return

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

    async def _broker(self, _process: Process) -> None:
        self.done["broker kill -9"] += 1
        async with self.broker_needed:
            await asyncio.to_thread(self.broker.kill)
            await asyncio.sleep(self.chance.uniform(0.5, 2.0))
            await asyncio.to_thread(self.broker.start)

    async def _consumers_kill(self) -> None:
        self.done["consumer kill -9"] += 1
        for consumers in self.consumers:
            consumers.kill()
            consumers.start()

    async def _consumers_away(self) -> None:
        """Longer than plans hold: what was planned meanwhile has expired when they come back."""
        self.done["consumers away"] += 1
        for consumers in self.consumers:
            consumers.kill()
        await self._more(TortureCluster.planned, 2, STARTING)
        await asyncio.sleep(EXPIRES + 4.0)
        for consumers in self.consumers:
            consumers.start()
        await self._more(TortureCluster.finished, 2, STARTING)

    async def _consumers_paused(self) -> None:
        """Consumers are frozen until plans are there and a pause after them; they must refuse them all."""
        self.done["paused with plans"] += 1
        async with self.broker_needed:  # a client that slept through a broker's end waits 40 s before it looks again
            for consumers in self.consumers:
                consumers.freeze()
            await self._more(TortureCluster.planned, 3, STARTING)
            await self._pause()
            for consumers in self.consumers:
                consumers.thaw()
        await self._more(TortureCluster.finished, 2, EXPIRES)
        await self._rest_consumers(1.0)
        await self._resume()

    async def _consumers_pause(self) -> None:
        """A pause while all are at work."""
        self.done["paused at work"] += 1
        await self._pause()
        await self._rest_consumers(6.0)
        await self._resume()

    async def _pause(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(cluster.pause) for cluster in self.clusters))

    async def _resume(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(cluster.resume) for cluster in self.clusters))

    async def settle(self) -> bool:
        """End all clocks, write clean ticks, restart the workers without faults, wait until every mark names the last turn."""
        for process in self.clocks:
            process.kill()
        await self._clean_ticks()
        for consumers in self.consumers:
            consumers.kill()
            consumers.be_sound()
            consumers.start()
        for process in self.workers:
            process.kill()
            process.told |= {"tear": 0.0, "skip": 0.0}
            process.start()
        until = time.monotonic() + SETTLING
        while time.monotonic() < until:
            await self._rest(2.0)
            self._revive_consumers()
            if await self._level() and not await self._unanswered():
                return True
        return False

    async def _unanswered(self) -> bool:
        found = [await cluster.judged() for cluster in self.clusters]
        return any(says.endswith("has no outcome") for _, wrong in found for says in wrong)

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

    @property
    def _recovered(self) -> bool:
        """Whether workers were at work before, so that their changelogs are there."""
        return any(worker.count('"recovered"') for worker in self.workers)

    async def _level(self) -> bool:
        return set(await self._marks()) == {self.last}

    async def _marks(self) -> list[int | None]:
        """The turn of each newest checkpoint, of every partition of every stage; None where there is none yet."""
        turns: list[int | None] = []
        for stage in self.stages:
            topic = f"{self.name}-{stage.name}-state-changelog"
            for records in await kafka_topics.whole(self.broker.bootstrap, topic, self.topics.partitions):
                found = checkpoint_selection.read({r.key: r.value for r in records if r.key is not None}).found
                turns.append(None if found is None else found.mark.turn)
        return turns

    async def judge(self, report: Report) -> None:
        """What the consumers did: of the sound ones into the report, of the mutants beside it."""
        for cluster in self.clusters:
            figures, wrong = await cluster.judged()
            if cluster.mutant:
                report.mutants[cluster.mutant] = wrong
            else:
                report.figures.update(figures)
                report.wrong += wrong

    def end(self) -> None:
        for consumers in self.consumers:
            consumers.process.kill()
        for process in [*self.workers, *self.clocks]:
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        for process in [*self.workers, *self.clocks]:
            process.wait(20)

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def run(options: TortureOptions) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="ullage-torture-"))
    began = time.monotonic()
    broker = Broker(BrokerSettings(heap_mb=384, quick=True, start_timeout=STARTING)).start()
    run = Run(options, broker, folder)
    try:
        await asyncio.to_thread(kafka_topics.create, broker.bootstrap, run.topics)
        load, stop = Load(run.topics, options.seed, options.workloads), asyncio.Event()
        if options.clusters and options.stages == "pipeline":
            await asyncio.to_thread(run.open_clusters)
        run.add_clock()
        for process in run.workers:
            process.start()
        sending = asyncio.create_task(keep_sending(broker.bootstrap, load, run.clock, stop, every=options.between))
        await run.hurt()
        stop.set()
        await sending
        settled = await run.settle()
        run.end()
        report = await recomputation.recompute(broker.bootstrap, run.topics, run.stages, run.name)
        await run.judge(report)
    finally:
        run.end()
        run.close()
        broker.close()
    report.figures["recoveries"] = sum(len(p.lines('"checkpoint"')) for p in run.workers)
    if not settled:
        report.wrong.append("the workers did not reach the last turn")
    if options.stages == "pipeline":
        report.require(dict(options.minimum))
    _print(run, report, f"{time.monotonic() - began:.0f} s", load.sent["samples"])
    if report.exact:
        shutil.rmtree(folder)
    else:
        say(f"logs in {folder}")
    return report


def _print(run: Run, report: Report, took: str, samples: int) -> None:
    blows = ", ".join(f"{what} {n}" for what, n in sorted(run.done.items()))
    words: Sequence[str] = ("gap", "LOST", "checkpoint", "memory")
    seen = ", ".join(f"{word} {sum(p.count(f'{chr(34)}{word}{chr(34)}') for p in run.workers)}" for word in words)
    mutant = f" with {run.options.worker_mutant}" if run.options.worker_mutant else ""
    say(f"seed {run.options.seed} | {run.options.stages}{mutant} | {took} | {blows} | {seen} | samples {samples:,} | {report}")
    for name, wrong in report.mutants.items():
        say(f"  consumers with {name}: {'WRONG ' + '; '.join(wrong[:2]) if wrong else 'EXACT'}")
