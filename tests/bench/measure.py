"""The measurements: catch-up, recovery, latency under checkpoints, idle cost, and the gap when a worker joins or dies."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
import psutil
from aiokafka import AIOKafkaProducer

from agents.run.stage_topics import input_topics, stage_names
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.sources.clock import TickWriter
from streams.topics import Topics
from tests.bench.fleet import Fleet
from tests.torture import kafka_topics
from tests.torture.processes import Process

SCRAPE_MS = 15_000
TICK_MS = 500
INPUTS = input_topics()


@dataclass
class Site:
    """A set of topics with a fleet, and the workers on it."""

    brokers: str
    folder: Path
    containers: int
    partitions: int
    label: str = ""
    """Tells two fleets of a size apart."""
    workers: list[Process] = field(default_factory=list)
    turn: int = 0
    samples: int = 0

    def __post_init__(self) -> None:
        self.topics = Topics(f"bench{self.containers}{self.label}", self.partitions)
        self.fleet = Fleet(self.topics, self.containers)
        self.now = 0

    def ends_now(self, span_ms: int) -> None:
        """Put the backlog that will be written so that it ends about now."""
        self.now = int(time.time() * 1000) // SCRAPE_MS * SCRAPE_MS - span_ms

    async def open(self) -> None:
        await asyncio.to_thread(kafka_topics.create, self.brokers, self.topics)
        self.clock = TickWriter(KafkaLog(KafkaConnection(self.brokers)), self.topics)
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.brokers, acks="all", max_request_size=8 << 20, max_batch_size=1 << 20, linger_ms=5
        )
        await self.producer.start()

    async def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        await self.producer.stop()

    async def send(self, records: list[NewRecord]) -> None:
        sent = [
            await self.producer.send(r.topic, key=r.key, value=r.value, partition=r.partition, headers=list(r.headers))
            for r in records
        ]
        await asyncio.gather(*sent)

    async def tick(self, number: int) -> None:
        self.turn = number
        await asyncio.to_thread(self.clock.write, number)

    async def backlog(self, scrapes: int, apart_ms: float, ticked: int = 1) -> None:
        """So many scrapes; a tick after each `ticked` of them, or each TICK_MS where scrapes come closer than that."""
        # A clock that went on meanwhile is further than the last scrape, and what comes before it would have no tick.
        self.samples, begun = 2 * self.containers * scrapes, max(self.now, self.turn)
        for n in range(1, scrapes + 1):
            self.now = begun + round(n * apart_ms)
            await self.send(list(self.fleet.scrape(self.now)))
            due = self.now if apart_ms >= TICK_MS or n == scrapes else self.now // TICK_MS * TICK_MS
            if due > self.turn and (n % ticked == 0 or n == scrapes):
                await self.tick(due)

    async def outage(self, scrapes: int) -> None:
        """What sources and clock append while workers are away: so many scrapes, and a tick each TICK_MS."""
        self.samples, self.now = 2 * self.containers * scrapes, max(self.now, self.turn)
        for _ in range(scrapes):
            until = self.now + SCRAPE_MS
            for number in range(self.now + TICK_MS, until, TICK_MS):
                await self.tick(number)
            self.now = until
            await self.send(list(self.fleet.scrape(until)))
            await self.tick(until)

    def worker(self, **told: object) -> Process:
        """A worker that writes a checkpoint after each scrape, so that marks say what has been folded."""
        pacing = {"samples": 0, "quiet": 30}
        shape = {"brokers": self.brokers, "prefix": self.topics.prefix, "partitions": self.partitions, "pacing": pacing}
        process = Process("tests.bench.worker", {**shape, **told}, self.folder / f"{self.topics.prefix}-{len(self.workers)}.log")
        process.start()
        self.workers.append(process)
        return process

    async def marked(self, *workers: Process, stage: str = "recommender", patience: float = 180.0) -> None:
        """Wait until these workers have written a mark of what is the last turn now, or of a later one, for every partition."""
        until, turn = time.monotonic() + patience, self.turn
        while time.monotonic() < until and not any(worker.dead for worker in workers):
            done = {n["partition"] for n in of_all(workers, "checkpoint", stage) if n["turn"] >= turn}
            if len(done) == self.partitions:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"no mark of turn {turn} after {patience} s; see {workers[0].log}")

    async def ticks(self) -> None:
        """The clock as it goes on from the last tick, until cancelled."""
        while True:
            await self.tick(self.turn + TICK_MS)
            await asyncio.sleep(TICK_MS / 1000)


@dataclass
class NoteFile:
    """The notes in a worker's log. Each is parsed once, because they are asked for five times a second."""

    read: int = 0
    notes: dict[str, list[dict]] = field(default_factory=lambda: defaultdict(list))

    def refresh(self, log: Path) -> None:
        """Take in the lines that were completed since the last time."""
        with log.open("rb") as file:
            file.seek(self.read)
            lines, _, torn = file.read().rpartition(b"\n")
            self.read = file.tell() - len(torn)
        for line in lines.splitlines():
            if line.startswith(b'{"event":'):
                note = orjson.loads(line)
                self.notes[note["event"]].append(note)


_FILES: dict[Path, NoteFile] = defaultdict(NoteFile)


def notes(worker: Process, event: str, stage: str | None = None) -> list[dict]:
    """What a worker noted."""
    file = _FILES[worker.log]
    file.refresh(worker.log)
    return [n for n in file.notes[event] if stage in (None, n["stage"])]


def of_all(workers: Sequence[Process], event: str, stage: str | None = None) -> list[dict]:
    """What these workers noted."""
    return [note for worker in workers for note in notes(worker, event, stage)]


@dataclass(frozen=True)
class CaughtUp:
    """A backlog folded into checkpointed state."""

    samples: int
    wall: float
    cpu: float
    written: int


async def folded(site: Site, worker: Process) -> CaughtUp:
    """From the moment the worker opens its partitions to the last mark of the recommender."""
    await site.marked(worker)
    first = min(notes(worker, "opened"), key=lambda n: n["at"])
    marks = notes(worker, "checkpoint", "recommender")
    last = max((n for n in marks if n["turn"] == site.turn), key=lambda n: n["at"])
    return CaughtUp(site.samples, last["at"] - first["at"], last["cpu"] - first["cpu"], sum(n["size"] for n in marks))


async def catch_up(site: Site, *workers: Process, patience: float = 180.0) -> CaughtUp:
    """From the first partition that is opened until each stage has the backlog, and what was decided from it, in marks.

    Few records, which a worker leaves for a quiet round, need only be taken.

    The clock goes on meanwhile, as it does after an outage, up to the first tick after the recommender's marks of the backlog:
    before it stand all decisions. `workers`, which share the partitions, note their turns.
    """
    clock = asyncio.create_task(site.ticks())
    try:
        await site.marked(*workers, patience=patience)
    finally:
        clock.cancel()
    await site.tick(site.turn + TICK_MS)
    until = time.monotonic() + patience
    while not (last := settled(site, workers)):
        if any(worker.dead for worker in workers) or time.monotonic() > until:
            raise AssertionError(f"turn {site.turn} is not in all marks after {patience} s; see {workers[0].log}")
        await asyncio.sleep(0.2)
    first, marks = min(of_all(workers, "opened"), key=lambda n: n["at"]), of_all(workers, "checkpoint")
    cpu = sum(_cpu(worker, last["at"]) for worker in workers)
    return CaughtUp(site.samples, last["at"] - first["at"], cpu, sum(n["size"] for n in marks))


def _cpu(worker: Process, until: float) -> float:
    """Seconds of CPU of a worker from the first partition that it opened to a moment."""
    noted = [n for event in ("opened", "turn", "checkpoint") for n in notes(worker, event) if n["at"] <= until]
    return max((n["cpu"] for n in noted), default=0.0) - min((n["cpu"] for n in noted), default=0.0)


def settled(site: Site, workers: Sequence[Process]) -> dict | None:
    """What completed the last turn in all stages and partitions: that turn, or the mark of their last urgent one.

    None while something is missing.
    """
    turns, marks = of_all(workers, "turn"), of_all(workers, "checkpoint")
    ends = []
    for task in [(stage, p) for stage in stage_names() for p in range(site.partitions)]:
        taken = [n for n in turns if (n["stage"], n["partition"]) == task]
        eventful = max((n["turn"] for n in taken if n["eventful"]), default=-1)
        held = [n for n in marks if (n["stage"], n["partition"]) == task and n["turn"] >= eventful]
        done = [n for n in taken if n["turn"] == site.turn]
        if not done or (eventful >= 0 and not held):
            return None
        ends += [done[0], *held[:1]] if eventful >= 0 else [done[0]]
    return max(ends, key=lambda n: n["at"])


def resident(worker: Process) -> tuple[float, float]:
    """MiB of a worker in memory: now, and at its highest."""
    assert worker.process is not None
    lines = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="ascii").splitlines()
    sizes = {
        name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines if line.startswith("Vm"))
    }
    return sizes["VmRSS"], sizes["VmHWM"]


async def rest(site: Site, seconds: float) -> None:
    """Ticks of real time and nothing else for so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(site.ticks(), seconds)


async def recovery(site: Site, **told: object) -> float:
    """From the start of a process to all partitions open, with nobody else in the group."""
    began = time.time()
    worker = site.worker(**told)
    while True:
        opened = notes(worker, "opened", "recommender")
        if len(opened) >= site.partitions:
            return max(n["at"] for n in opened) - began
        if worker.dead or time.time() - began > 60:
            raise AssertionError(f"not open after 60 s; see {worker.log}")
        await asyncio.sleep(0.05)


async def live(site: Site, seconds: float, stop_scrapes: bool = False) -> None:
    """Ticks of real time, and a scrape of everything spread over every 15 s."""
    until = time.monotonic() + seconds
    scrape = iter(())
    begun = 0.0
    while time.monotonic() < until:
        number = int(time.time() * 1000) // TICK_MS * TICK_MS
        if number > site.turn:
            await site.tick(number)
        if not stop_scrapes and time.monotonic() - begun > 15:
            begun, scrape = time.monotonic(), site.fleet.scrape(number)
        if record := next(scrape, None):
            await site.send([record])
        await asyncio.sleep(0.05)


async def latency(site: Site, count: int = 300) -> list[float]:
    """Milliseconds from an OOM kill's append to that of the recommendation, by the broker's clock."""
    before = {
        p: len(r)
        for p, r in enumerate(await kafka_topics.whole(site.brokers, site.topics.wire("recommendations"), site.partitions))
    }
    chance = random.Random(1)
    running = asyncio.create_task(live(site, count * 0.1 + 6))
    places: dict[bytes, int] = {}
    await asyncio.sleep(2)
    for i in chance.sample(range(len(site.fleet.workloads)), count):
        record = site.fleet.oom(i, int(time.time() * 1000))
        sent = await site.producer.send_and_wait(
            record.topic, key=record.key, value=record.value, partition=record.partition, headers=list(record.headers)
        )
        places[record.key] = sent.timestamp
        await asyncio.sleep(chance.uniform(0.05, 0.15))
    await running
    found: dict[bytes, int] = {}
    for p, records in enumerate(await kafka_topics.whole(site.brokers, site.topics.wire("recommendations"), site.partitions)):
        for r in records[before[p] :]:
            if r.key in places and r.timestamp_ms >= places[r.key]:
                found.setdefault(r.key, r.timestamp_ms)
    if len(found) < count:
        raise AssertionError(f"{count - len(found)} of {count} OOM kills got no recommendation")
    return [found[key] - at for key, at in places.items()]


async def idle(site: Site, worker: Process, after: float, seconds: float = 30.0) -> float:
    """CPU milliseconds of the worker for one tick (all inputs, all partitions), so many seconds after the last scrape.

    Once a minute each workload is looked at that had usage in the two minutes before, so for two minutes after a scrape ticks
    have more to do. It is measured for half minutes, because in each the stages write one quiet round of checkpoints.
    """
    assert worker.process is not None
    process = psutil.Process(worker.process.pid)
    await live(site, after, stop_scrapes=True)
    used, first = sum(process.cpu_times()[:2]), site.turn
    await live(site, seconds, stop_scrapes=True)
    return 1000 * (sum(process.cpu_times()[:2]) - used) / ((site.turn - first) / TICK_MS)


async def gaps(site: Site) -> tuple[float, float]:
    """The longest pause between two turns of any partition (join, kill -9), with ticks every 500 ms."""
    site.workers[-1].stop(30)
    await recovery(site, turns=True)
    first = site.workers[-1]
    running = asyncio.create_task(live(site, 45, stop_scrapes=True))
    await asyncio.sleep(3)
    second = site.worker(turns=True)
    joined = time.time()
    await asyncio.sleep(18)
    second.kill()
    killed = time.time()
    await running
    turns = [*notes(first, "turn", "recommender"), *notes(second, "turn", "recommender")]
    return _longest(turns, joined - 1, killed), _longest(turns, killed - 1, time.time())


def _longest(turns: list[dict], begin: float, end: float) -> float:
    longest = 0.0
    for partition in {n["partition"] for n in turns}:
        at = sorted(n["at"] for n in turns if n["partition"] == partition and begin <= n["at"] <= end)
        longest = max(longest, float(np.max(np.diff([begin, *at]))))
    return longest
