"""One run: two workers, bad clocks, generated load, clusters with consumers; hurt all of them, then settle and check."""

import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.commands.change import topics_move
from agents.engine import checkpoint_selection
from agents.engine.stage import Stage
from agents.settings.all_settings import LogSettings, TopicSettings, WorkerSettings
from streams.broker import Broker, BrokerSettings
from streams.consumers.executing.holder_lease import HolderLease
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.topics import Topics
from tests.support import ticks
from tests.support.slow_machines import SLOWER
from tests.torture import fast_pipeline_settings, faulty_worker, kafka_topics, recomputation
from tests.torture.consumer_blows import ConsumerBlows
from tests.torture.generated_load import Clock, Load, keep_sending
from tests.torture.mutant_consumers import MUTANTS
from tests.torture.recomputation import Report
from tests.torture.torture_cluster import INSTANCES, TortureCluster
from tests.torture.torture_consumers import TortureConsumers
from tests.torture.torture_fleet import TortureFleet
from tests.torture.torture_options import LONGEST_SETTLING, PERIOD, SETTLING, SOUND, STARTING, TICK, TortureOptions
from tests.torture.unexpected_exits import unexpected
from tests.torture.worker_blows import WorkerBlows

INTERVAL = 60_000
"""Milliseconds: the updater plans once in this time, so none of its plans is newer than the first clean tick for that long."""


@dataclass
class Run:
    """A run under way."""

    options: TortureOptions
    broker: Broker
    folder: Path
    clusters: list[TortureCluster] = field(default_factory=list)
    consumers: list[TortureConsumers] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = Topics(f"torture{self.options.seed}", self.options.partitions)
        self.stages: tuple[Stage, ...] = faulty_worker.stages(self.options.stages, self.options.partitions)
        self.clock = Clock(time.time(), PERIOD / 1000 / TICK)
        self.fleet = TortureFleet(self.options, self.topics, self.broker.bootstrap, self.clock, folder=self.folder)
        broker_needed = asyncio.Lock()
        self.consumer_blows = ConsumerBlows(self.options, self.clusters, self.consumers, broker_needed)
        self.worker_blows = WorkerBlows(self.options, self.fleet, self.broker, broker_needed, self._peace)

    @property
    def done(self) -> Counter[str]:
        """What was done to all of them."""
        return self.fleet.done + self.consumer_blows.done

    def open_clusters(self) -> None:
        """Simulated clusters and their consumers, for stages that decide about pods; two instances for the sound one."""
        mutants = {SOUND: "", **{f"mutant-{mutant}": mutant for mutant in self.options.consumer_mutants}}
        for name, mutant in mutants.items():
            size = 2 if mutant and not _wants_a_rival(mutant) else self.options.deployments
            cluster = TortureCluster(name, self.broker.bootstrap, self.topics, self.clock(), size, mutant)
            cluster.open()
            self.clusters.append(cluster)
        for instance in range(INSTANCES):
            self._start_consumers(self.clusters[:1], instance, die=0.02)
        wrong = self.clusters[1:]
        contested = [cluster for cluster in wrong if _wants_a_rival(cluster.mutant)]
        for instance, clusters in enumerate((wrong, contested)):
            if clusters:
                self._start_consumers(clusters, instance, die=0.0)

    def _start_consumers(self, clusters: list[TortureCluster], instance: int, *, die: float) -> None:
        log = self.folder / f"consumers-{clusters[0].name}.log"
        consumers = TortureConsumers(clusters, self.broker.bootstrap, self.topics, instance=instance, die=die, log=log)
        consumers.start()
        self.consumers.append(consumers)

    async def hurt(self) -> None:
        """The torture itself, once all is at work: workers, clocks and broker on one side, consumers on the other."""
        # What is killed before it has a checkpoint begins anew, and that shows nothing.
        until = time.monotonic() + SLOWER * STARTING
        while time.monotonic() < until and (not self.fleet.recovered or None in await self._marks()):
            await self.fleet.rest(1.0)
        await self._peace()
        consumers = asyncio.create_task(self.consumer_blows.strike())
        await self.worker_blows.strike()
        while not consumers.done():
            await self.fleet.rest(0.5)
        await consumers

    async def _peace(self) -> None:
        """Let the workers work until enough was done to the sound cluster."""
        if not self.clusters:
            await self.fleet.rest(self.options.rest)
            return
        until, acts = time.monotonic() + self.options.calm, self.clusters[0].cluster.acts
        enough = len(acts) + self.options.calm_acts
        while len(acts) < enough and time.monotonic() < until:
            await self.fleet.rest(0.5)
            self.consumer_blows.revive()

    async def settle(self) -> bool:
        """End clocks and planning, write clean ticks, restart the workers without faults, wait until all took the last turn."""
        self.fleet.clocks.end()
        await asyncio.gather(*(asyncio.to_thread(cluster.plan_no_more) for cluster in self.clusters))
        await self._clean_ticks((self.clock() // INTERVAL + 2) * INTERVAL)
        for consumers in self.consumers:
            consumers.kill()
            consumers.be_sound()
            consumers.start()
        self.fleet.begin_anew_without_faults()
        begun, marks = time.monotonic(), list[int | None]()
        until = begun + SETTLING
        while time.monotonic() < min(until, begun + LONGEST_SETTLING):
            await self.fleet.rest(2.0)
            self.consumer_blows.revive()
            before, marks = marks, await self._marks()
            if marks != before:
                until = time.monotonic() + SETTLING
            if set(marks) == {self.last}:
                if not await self._unanswered():
                    return True
                await self._clean_ticks(self.last + PERIOD)  # a resize is in force a while after it was accepted
        return False

    async def _unanswered(self) -> bool:
        found = [await cluster.judged() for cluster in self.clusters]
        return any(says.endswith("has no outcome") for _, wrong in found for says in wrong)

    async def _clean_ticks(self, last: int) -> None:
        self.last = last
        with KafkaLog(KafkaConnection(self.broker.bootstrap)) as log:
            for number in (self.last - PERIOD, self.last):
                await asyncio.to_thread(ticks.append, log, self.topics, number)

    async def _marks(self) -> list[int | None]:
        """The turn of each newest checkpoint, of every partition of every stage; None where there is none yet."""
        turns: list[int | None] = []
        for stage in self.stages:
            topic = f"{self.fleet.name}-{stage.name}-state-changelog"
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

    async def move(self, report: Report) -> None:
        """`topics move`, once all have ended; the workers go on in the copy, and what is wrong there is added to the report."""
        before = fast_pipeline_settings.settings(self.topics.partitions).model_copy(
            update={
                "log": LogSettings(brokers=self.broker.bootstrap),
                "topics": TopicSettings(prefix=self.topics.prefix, partitions=self.topics.partitions),
                "worker": WorkerSettings(name=self.fleet.name),
            }
        )
        there = Topics(f"{self.topics.prefix}moved", self.options.moved_to)
        await asyncio.to_thread(topics_move.run, before, partitions=there.partitions, to=there.prefix)
        self.topics, moved = there, self.last + 1
        self.stages = faulty_worker.stages(self.options.stages, there.partitions)
        self.fleet.go_on_with(there)
        await self._clean_ticks(self.last + 2 * PERIOD)
        until = time.monotonic() + STARTING
        while set(await self._marks()) != {self.last} and time.monotonic() < until:
            await self.fleet.rest(1.0)
        self.fleet.end()
        found = await recomputation.recompute(self.broker.bootstrap, there, self.stages, self.fleet.name, since=moved)
        report.figures["records after the move"] = found.figures["records"]
        report.wrong += [f"after the move: {wrong}" for wrong in found.wrong]

    def unexpected_exits(self) -> list[str]:
        """Processes that ended by themselves, and that the torture did not bring to it."""
        consumers = [each.process for each in self.consumers]
        return unexpected([*self.fleet.workers, *self.fleet.clocks.all, *consumers], self.worker_blows.away)

    def end(self) -> None:
        for consumers in self.consumers:
            consumers.process.kill()
        self.fleet.end()

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()


def _wants_a_rival(mutant: str) -> bool:
    """Whether what is wrong with it shows only where two instances want one Lease."""
    return MUTANTS[mutant].lease is not HolderLease


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
        run.fleet.start()
        sending = asyncio.create_task(keep_sending(broker.bootstrap, load, run.clock, stop, every=options.between))
        await run.hurt()
        stop.set()
        await sending
        settled = await run.settle()
        run.end()
        report = await recomputation.recompute(broker.bootstrap, run.topics, run.stages, run.fleet.name)
        await run.judge(report)
        if settled and options.moved_to and options.stages == "pipeline":
            await run.move(report)
    finally:
        run.end()
        run.close()
        broker.close()
    report.figures["recoveries"] = sum(worker.count('"checkpoint"') for worker in run.fleet.workers)
    report.figures["torn checkpoints"], report.figures["take-overs"] = run.done["torn"], run.done["take-overs"]
    if not settled:
        report.wrong.append("the workers did not reach the last turn")
    report.wrong += run.unexpected_exits()
    if any(worker.count("cannot be loaded: TypeError") for worker in run.fleet.workers):
        # A mutant made for older code does that, too, and then shows nothing.
        report.wrong.append("a worker could not load a checkpoint, for a fault of its code")
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
    seen = ", ".join(f"{word} {sum(p.count(f'{chr(34)}{word}{chr(34)}') for p in run.fleet.workers)}" for word in words)
    mutant = f" with {', '.join(run.options.worker_mutants)}" if run.options.worker_mutants else ""
    say(f"seed {run.options.seed} | {run.options.stages}{mutant} | {took} | {blows} | {seen} | samples {samples:,} | {report}")
    for name, wrong in report.mutants.items():
        say(f"  consumers with {name}: {'WRONG ' + '; '.join(wrong[:2]) if wrong else 'EXACT'}")
