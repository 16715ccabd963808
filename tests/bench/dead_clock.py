"""`python -m tests.bench.dead_clock`: the memory of a worker for which no clock ticked while sources went on.

A fleet is known, and in a checkpoint. Then scrapes of everything are appended without any tick; then a clock and a worker start.
With `--ticked` a tick follows each scrape, so that a worker decides much while no clock ticks, and the clock starts when it
has taken them all. What is said is how long until all tasks are level, and the resident memory of the worker.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path

from agents.run.stage_topics import stage_names
from streams.broker import Broker, BrokerSettings
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.sources.clock import Clock
from tests.bench import measure
from tests.bench.idle_costs import settle
from tests.bench.measure import Site

MINUTE_MS = 60_000
LEVEL = 2.0
"""Seconds from a tick to its turn within which a task is level."""
PATIENCE = 400.0


def say(what: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{what:<60} {value:>12,.1f} {unit}\n")
    sys.stdout.flush()


async def main(containers: int, scrapes: int, *, ticked: bool) -> None:
    """Let a clock be away for so many scrapes of so many containers."""
    with tempfile.TemporaryDirectory() as folder, Broker(BrokerSettings()) as broker:
        site = Site(broker.bootstrap, Path(folder), containers, 4)
        first = await settle(site, scrapes=24, apart_ms=3_600_000, later_ms=scrapes * MINUTE_MS)
        say("memory of the worker before", measure.resident(first)[1], "MiB")
        first.stop(60)
        for _ in range(scrapes):
            site.now += MINUTE_MS
            await site.send(list(site.fleet.scrape(site.now)))
            if ticked:
                await site.tick(site.now)
        stop = threading.Event()
        log = KafkaLog(KafkaConnection(broker.bootstrap))
        clock = threading.Thread(target=Clock(log, site.topics).run, args=[stop.is_set])
        began, worker = time.time(), site.worker(turns=True)
        try:
            if ticked:
                await site.marked(worker, patience=PATIENCE)
                say("memory of the worker before a clock ticks", measure.resident(worker)[1], "MiB")
                began = time.time()
            clock.start()
            await level(site, began)
            say("level after", time.time() - began, "s")
            await asyncio.sleep(60)
            after, most = measure.resident(worker)
            say("memory of the worker at its highest", most, "MiB")
            say("memory of the worker a minute after", after, "MiB")
            turns = [n for n in measure.notes(worker, "turn", "recommender") if n["partition"] == 0]
            say("turns of a partition", len(turns), "")
            say("longest of them", max(n["seconds"] for n in turns), "s")
        finally:
            stop.set()
            await site.close()


async def level(site: Site, since: float) -> None:
    """Wait until each task has taken a turn soon after its tick."""
    worker, until = site.workers[-1], time.time() + PATIENCE
    tasks = {(stage, partition) for stage in stage_names() for partition in range(site.partitions)}
    while time.time() < until and not worker.dead:
        notes = [n for n in measure.notes(worker, "turn") if n["turn"] / 1000 > since and n["at"] - n["turn"] / 1000 < LEVEL]
        if {(n["stage"], n["partition"]) for n in notes} == tasks:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"not level after {time.time() - since:.0f} s; see {worker.log.read_text()[-2000:]}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--containers", type=int, default=2_000)
    arguments.add_argument("--scrapes", type=int, default=1_440)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    arguments.add_argument("--ticked", action="store_true")
    chosen = arguments.parse_args()
    asyncio.run(main(chosen.containers, chosen.scrapes, ticked=chosen.ticked))
