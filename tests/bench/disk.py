"""`python -m tests.bench.disk`: what scrapes, and the decisions from them, write to the disk of a real Kafka in a day.

A day of scrapes, a minute apart, of a fleet that has a day of history and a VPA for each workload, written as sources write and
ticked once a scrape; a worker takes it all. Bytes are those of Kafka's files, of one copy. Checkpoints and the clock keep real
time, so they are left out: `tests.bench.idle_costs` measures them.

What it leaves out besides: pods that come and go, outcomes, forecasts. The noise is that of `tests.bench.fleet`, with no daily
cycle. Prints a table for docs/lab/bench.md, from which `make sizing` computes.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from streams.broker import Broker, BrokerSettings
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.topics import CLOCK, TOPICS
from tests.bench import idle_costs
from tests.bench.measure import Site

MINUTE_MS, DAY_MINUTES, REPUBLISHED_MINUTES = 60_000, 1440, 180


async def scraped(brokers: str, containers: int, minutes: int, folder: Path) -> Mapping[str, float]:
    """Bytes of a container by short name of the topic, of so many minutes of event time that end about now."""
    site = Site(brokers, folder, containers, 4, "-disk")
    site.ends_now(minutes * MINUTE_MS + idle_costs.HISTORY * idle_costs.HISTORY_APART_MS)
    await site.open()
    with KafkaLog(KafkaConnection(brokers)) as log:
        await asyncio.to_thread(log.append, list(idle_costs.known(site.fleet, site.now)))
        await site.backlog(idle_costs.HISTORY, idle_costs.HISTORY_APART_MS)
        await site.marked(site.worker(), patience=600.0)
        before = idle_costs.written(brokers, site.topics.prefix)
        for minute in range(minutes):
            if minute and minute % REPUBLISHED_MINUTES == 0:  # as sources publish again what stands
                await asyncio.to_thread(log.append, list(idle_costs.known(site.fleet, site.now)))
            site.now += MINUTE_MS
            await asyncio.to_thread(log.append, list(site.fleet.scrape(site.now)))
            await site.tick(site.now)
        await site.marked(site.workers[-1], patience=600.0)
    after = idle_costs.written(brokers, site.topics.prefix)
    await site.close()
    wires = {topic.name: site.topics.wire(topic.name) for topic in TOPICS if topic.name != CLOCK}
    grown = {name: (after[wire] - before[wire]) / containers for name, wire in wires.items()}
    return {name: size for name, size in grown.items() if size}


def main(containers: int) -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as folder, Broker(BrokerSettings()) as broker:
        a_day = asyncio.run(scraped(broker.bootstrap, containers, DAY_MINUTES, Path(folder)))
    lines = [f"| `{name}` | {size:,.0f} |" for name, size in a_day.items()]
    sys.stdout.write("\n".join(["| topic | bytes of a container-day |", "|---|---:|", *lines]) + "\n")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--containers", type=int, default=2000)
    main(arguments.parse_args().containers)
