"""`python -m tests.bench.idle_costs after=. before=../before`: a clock and a worker at rest, of several checkouts, on one Kafka.

Each checkout has an environment of its own in `.venv` and topics of its own, and they take turns on a Kafka that serves nobody
else meanwhile: first with nothing to watch, then with a VPA for each workload of a fleet and a scrape of it each minute. For each
stretch this prints the CPU of clock, worker and Kafka, the milliseconds from a tick's time to its turn in each partition, the
resident memory of each, and what a day of it writes, from the sizes of Kafka's files. The writer of scrapes is this
checkout's for all, and compresses as sources do.

It starts processes by the command line, so that what is measured is what people run, and asks nothing of the checkouts but
`ullage topics apply`, `ullage source clock` and `tests.bench.worker`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams.admin import topic_admin
from streams.broker import Broker, BrokerSettings
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.bench.fleet import PODS, Fleet
from tests.bench.measure import Site
from tests.torture.processes import Process

SCRAPE_SECONDS = 60.0
DAY_SECONDS = 86_400
HISTORY, HISTORY_APART_MS = 288, 300_000
"""Scrapes of a day before: a fleet that has just been met is recommended anew all the time."""
SOURCE = "/ullage/source/bench"
ROOT = Path(__file__).parents[2]
FLEETS = (0, 100, 1_000, 10_000, 100_000)
"""Containers of the fleets that `make bench` measures."""


@dataclass(frozen=True)
class Stretch:
    """What is measured at once: so many seconds after so many others, with so many containers."""

    containers: int
    warm: float
    seconds: float
    partitions: int = 4


@dataclass(frozen=True)
class Checkout:
    """A state of the project, and a name for it."""

    name: str
    folder: Path

    def python(self, *arguments: str) -> list[str]:
        """A command of its interpreter, which has to be started in its folder."""
        return [str(self.folder / ".venv/bin/python"), "-m", *arguments]


def written(brokers: str, prefix: str) -> dict[str, int]:
    """Bytes of Kafka's files by wire name of the topic, of one copy, for the topics and changelogs of a prefix."""
    sizes: dict[str, int] = {}
    with topic_admin.connect(KafkaConnection(brokers), right="Describe on the cluster") as client:
        for node in client.describe_log_dirs():
            for topic in (topic for folder in node["log_dirs"] for topic in folder["topics"]):
                if topic["name"].startswith(prefix):
                    size = sum(partition["partition_size"] for partition in topic["partitions"])
                    sizes[topic["name"]] = sizes.get(topic["name"], 0) + size
    return sizes


async def settle(site: Site, *, scrapes: int = HISTORY, apart_ms: int = HISTORY_APART_MS, later_ms: int = 0) -> Process:
    """Open a site whose fleet is known with a history that ends `later_ms` before now; the worker that has a mark of it."""
    site.ends_now(scrapes * apart_ms + later_ms)
    await site.open()
    await introduce(site)
    await site.backlog(scrapes, apart_ms)
    first = site.worker()
    await site.marked(first, patience=300.0)
    return first


async def introduce(site: Site) -> None:
    """Append the pods of a site's fleet, and a VPA for each workload."""
    records = list(known(site.fleet, site.now))
    for start in range(0, len(records), 5_000):
        await site.send(records[start : start + 5_000])


def known(fleet: Fleet, at_ms: int) -> Iterator[NewRecord]:
    """The pods of the fleet, and a VPA for each workload."""
    at, codec, topics = datetime.fromtimestamp(at_ms / 1000, UTC), fleet.codec, fleet.topics
    requests = Amounts(Cores(0.5), Bytes(1 << 29))
    for workload in fleet.workloads:
        selector = (Requirement("app", Operator.IN, (workload.name,)),)
        target = TargetRef(workload.kind, workload.name)
        vpa = VpaChanged(at, "bench", workload.namespace, workload.name, at, target, selector)
        for partition in range(topics.partitions):
            yield codec.encode(vpa, topic="policies", key=workload.key, partition=partition, source=SOURCE)
        for number in range(PODS):
            pod = PodName(workload.namespace, f"{workload.name}-7d9f8b6c5-{number:05d}", f"{workload.name}-{number}")
            containers = (ContainerSeen("main", requests),)
            fact = PodChanged(at, workload, pod, PodPhase.RUNNING, at, containers, labels={"app": workload.name})
            for topic, key in (("pod-changes", workload.key), ("pod-changes-by-cluster", "bench")):
                yield codec.encode(fact, topic=topic, key=key, partition=topics.partition_of(key), source=SOURCE)


@contextmanager
def scraped(brokers: str, topics: Topics, containers: int) -> Iterator[None]:
    """A scrape of everything each minute, spread over the minute; before them a day of history, and the fleet."""
    if not containers:
        yield
        return
    stop, fleet = threading.Event(), Fleet(topics, containers)

    def scrape(log: KafkaLog) -> None:
        while not stop.is_set():
            began = time.monotonic()
            log.append(list(fleet.scrape(int(time.time() * 1000))))
            stop.wait(max(0.0, began + SCRAPE_SECONDS - time.monotonic()))

    now = int(time.time() * 1000)
    with KafkaLog(KafkaConnection(brokers)) as log:
        for past in range(HISTORY, 0, -1):
            log.append(list(fleet.scrape(now - past * HISTORY_APART_MS)))
        records = list(known(fleet, now))
        for start in range(0, len(records), 5_000):
            log.append(records[start : start + 5_000])
        thread = threading.Thread(target=scrape, args=[log])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def running(
    checkout: Checkout, brokers: str, topics: Topics, folder: Path
) -> Iterator[tuple[psutil.Process, psutil.Process, Path]]:
    """A clock and a worker of this checkout, and the file of the worker's notes."""
    settings = ["--brokers", brokers]
    for setting in (f"topics.prefix={topics.prefix}", f"topics.partitions={topics.partitions}"):
        settings += ["--set", setting]
    subprocess.run(
        checkout.python("agents", "topics", "apply", *settings), cwd=checkout.folder, check=True, stdout=subprocess.DEVNULL
    )
    notes = folder / f"{topics.prefix}.log"
    worker = json.dumps({"brokers": brokers, "prefix": topics.prefix, "partitions": topics.partitions, "turns": True})
    commands = checkout.python("agents", "source", "clock", *settings), checkout.python("tests.bench.worker", worker)
    processes: list[subprocess.Popen[bytes]] = []
    with notes.open("wb") as output:
        try:
            for command, to in zip(commands, (subprocess.DEVNULL, output), strict=True):
                processes.append(subprocess.Popen(command, cwd=checkout.folder, stdout=to, stderr=to))
            clock, folding = (psutil.Process(process.pid) for process in processes)
            yield clock, folding, notes
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _cpu(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def measured(checkout: Checkout, brokers: str, stretch: Stretch, folder: Path) -> Mapping[str, float]:
    """The figures of one stretch of one checkout."""
    topics = Topics(f"{checkout.name}-{stretch.containers}-{stretch.partitions}-{time.time_ns()}", stretch.partitions)
    kafka = next(child for child in psutil.Process().children(recursive=True) if "java" in child.name())
    with running(checkout, brokers, topics, folder) as (clock, worker, notes), scraped(brokers, topics, stretch.containers):
        time.sleep(stretch.warm)
        processes = {"clock": clock, "worker": worker, "Kafka": kafka}
        used, size, began, since = (
            {n: _cpu(p) for n, p in processes.items()},
            written(brokers, topics.prefix),
            time.monotonic(),
            time.time(),
        )
        time.sleep(stretch.seconds)
        seconds = time.monotonic() - began
        used = {name: _cpu(process) - used[name] for name, process in processes.items()}
        grown = {name: after - size.get(name, 0) for name, after in written(brokers, topics.prefix).items()}
        resident = {name: process.memory_info().rss / (1 << 20) for name, process in processes.items()}
    delays, turns = [], set()
    for line in notes.read_bytes().splitlines():
        if line.startswith(b'{"event":"turn"') and (note := json.loads(line))["at"] >= since:
            delays.append(1000 * note["at"] - note["turn"])
            turns.add(note["turn"])
    figures = {f"CPU of {name}, % of a core": 100 * cpu / seconds for name, cpu in used.items()}
    figures |= {f"CPU of {name}, ms a tick": 1000 * used[name] / len(turns) for name in used}
    figures |= {f"tick to turn, p{p}, ms": float(np.percentile(delays, p)) for p in (50, 90)}
    figures |= {f"memory of {name}, MiB": size for name, size in resident.items()}
    a_day = DAY_SECONDS / seconds
    figures["MB a day"] = sum(grown.values()) * a_day / 1e6
    largest = sorted(grown.items(), key=lambda item: -item[1])
    return figures | {f"MB a day: {name.removeprefix(topics.prefix)}": grew * a_day / 1e6 for name, grew in largest if grew}


def measure(put: Callable[[str, float, str, str], None], brokers: str) -> None:
    """What an installation takes by its number of containers. The largest fleet needs longer until its history is taken in."""
    with tempfile.TemporaryDirectory() as folder:
        for containers in FLEETS:
            stretch = Stretch(containers, warm=300.0 if containers == max(FLEETS) else 75.0, seconds=120.0)
            figures = measured(Checkout("here", ROOT), brokers, stretch, Path(folder))
            for name, parts in (("clock and worker", ("clock", "worker")), ("Kafka", ("Kafka",))):
                memory = sum(figures[f"memory of {part}, MiB"] for part in parts)
                cores = sum(figures[f"CPU of {part}, % of a core"] for part in parts)
                put(f"{containers:,} containers at rest: memory of {name}", memory, "MiB", "")
                put(f"{containers:,} containers at rest: CPU of {name}", cores, "% of a core", "")


def show(stretch: Stretch, figures: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """A table of one stretch: a column a checkout, each the medians of its rounds, and the rounds behind them."""
    lines = [f"\n{stretch.containers} containers, {stretch.partitions} partitions, {stretch.seconds:.0f} s a round"]
    rows = dict.fromkeys(row for rounds in figures.values() for measures in rounds for row in measures)
    lines += ["| | " + " | ".join(figures) + " |", "|---|" + "---:|" * len(figures)]
    for row in rows:
        cells = []
        for rounds in figures.values():
            values = [measures.get(row, 0.0) for measures in rounds]
            cells.append(f"{np.median(values):,.2f} ({', '.join(f'{value:,.2f}' for value in values)})")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(checkouts: Sequence[Checkout], stretches: Sequence[Stretch], rounds: int) -> None:
    """Measure all, and print a table for each stretch."""
    with tempfile.TemporaryDirectory() as folder, Broker(BrokerSettings()) as broker:
        for stretch in stretches:
            figures: dict[str, list[Mapping[str, float]]] = {checkout.name: [] for checkout in checkouts}
            for _ in range(rounds):
                for checkout in checkouts:
                    figures[checkout.name].append(measured(checkout, broker.bootstrap, stretch, Path(folder)))
            show(stretch, figures)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("checkouts", nargs="+", help="NAME=FOLDER")
    arguments.add_argument("--containers", type=int, nargs="+", default=[0, 2000, 10_000])
    arguments.add_argument("--partitions", type=int, default=4)
    arguments.add_argument("--warm", type=float, default=75.0)
    arguments.add_argument("--seconds", type=float, default=180.0)
    arguments.add_argument("--rounds", type=int, default=2)
    chosen = arguments.parse_args()
    main(
        [Checkout(name, Path(folder).resolve()) for name, folder in (text.split("=", 1) for text in chosen.checkouts)],
        [Stretch(count, chosen.warm, chosen.seconds, chosen.partitions) for count in chosen.containers],
        chosen.rounds,
    )
