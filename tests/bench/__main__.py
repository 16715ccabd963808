"""`python -m tests.bench [--out bench.json] [--only 10000]`: a table, and bench.json as {name: {value, unit, goal}}."""

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from agents.app import freed_memory
from streams.broker import Broker, BrokerSettings
from tests.bench import (
    backtest_costs,
    control_lookup,
    five_workers,
    hostile_batches,
    hostile_nodes,
    hostile_tenant,
    idle_costs,
    kube_source,
    machine,
    measure,
    node_reaction,
    node_scaling,
    one_partition,
    policy_costs,
    reading_commands,
    received_usage,
    replicas,
    updater_pass,
    vertical,
    webhook,
)
from tests.bench.measure import Site


@dataclass(frozen=True)
class Size:
    """So many containers in so many partitions. First `history` scrapes, `apart` minutes from one another, with a tick after each
    `ticked` of them, so that the fleet is known; then `dense` scrapes as close as they come live at the goal's rate (ticks every
    500 ms); then `late` scrapes 15 s apart, and ticks every 500 ms, as a worker finds them after an outage."""

    containers: int
    partitions: int
    history: int
    apart: int
    dense: int
    late: int
    goal: float
    ticked: int = 1

    @property
    def cadence(self) -> float:
        """Milliseconds between two scrapes of everything at which the live load is the goal."""
        return 1000 * 2 * self.containers / self.goal

    @property
    def span_ms(self) -> int:
        """From the first scrape to the last. It is to end now, for a tick of now would make the usage of another year expire."""
        outages = 2 if self.is_largest else 1
        return self.history * self.apart * 60_000 + round(self.dense * self.cadence) + outages * self.late * measure.SCRAPE_MS

    @property
    def is_largest(self) -> bool:
        """Whether it is the fleet by which goals are set, which two workers catch up with, too."""
        return self.containers == 100_000


SIZES = (
    Size(1_000, 1, 288, 5, dense=4_000, late=400, goal=2e6),
    Size(10_000, 2, 288, 5, dense=600, late=100, goal=2e6),
    Size(100_000, 4, 288, 5, dense=40, late=40, goal=1e6, ticked=12),
)
"""History makes recommendations settle: a fleet that has just been met is recommended anew all the time."""
Results = dict[str, dict[str, object]]


def put(results: Results, name: str, value: float, unit: str, goal: str = "") -> None:
    results[name] = {"value": round(value, 3), "unit": unit, "goal": goal}
    sys.stdout.write(f"{name:<60} {value:>14,.2f} {unit:<12} {goal}\n")
    sys.stdout.flush()


async def known_fleet(results: Results, site: Site, size: Size, label: str) -> None:
    """Write the history, and let a worker meet it while the clock goes on."""
    # Without the clock, all that is decided meanwhile would be one turn of the stages that read it.
    await site.backlog(size.history, size.apart * 60_000, size.ticked)
    first = site.worker(turns=True)
    done = await measure.catch_up(site, first, patience=1_800.0)
    put(results, f"{label}: meeting the fleet, CPU", done.cpu, "s")
    put(results, f"{label}: meeting the fleet, memory of the worker at its highest", measure.resident(first)[1], "MiB")
    first.stop(30)


async def with_vpas(results: Results, site: Site, size: Size) -> None:
    """A worker that meets the pods of a fleet, their VPAs and four hours of samples, and one that starts after it."""
    size = replace(size, history=4, apart=60, dense=0, late=0, ticked=1)
    site.ends_now(size.span_ms)
    await site.open()
    await idle_costs.introduce(site)
    label = f"{size.containers // 1000}k containers with a VPA for each workload"
    await known_fleet(results, site, size, label)
    put(results, f"{label}: recovery", await measure.recovery(site), "s")
    await measure.rest(site, freed_memory.EVERY + 10.0)
    fresh, most = measure.resident(site.workers[-1])
    put(results, f"{label}: memory of a fresh worker", fresh, "MiB")
    put(results, f"{label}: memory of a fresh worker at its highest", most, "MiB")


async def catching_up(results: Results, site: Site, size: Size, label: str, goal: str = "") -> None:
    """A backlog as an outage leaves it; of the largest fleet also with two workers, which share the partitions."""
    await site.outage(size.late)
    done = await measure.catch_up(site, site.worker(turns=True))
    outage = size.late * measure.SCRAPE_MS / 1000
    put(results, f"{label}: catching up, samples per CPU second", done.samples / done.cpu, "samples/s")
    put(results, f"{label}: catching up, times real time", outage / done.wall, "x", goal)
    if size.is_largest:
        site.workers[-1].stop(30)
        await site.outage(size.late)
        done = await measure.catch_up(site, site.worker(turns=True), site.worker(turns=True))
        put(results, f"{label}: catching up with two workers, times real time", outage / done.wall, "x")
        site.workers[-2].stop(30)
    await memory(results, site, label)


async def memory(results: Results, site: Site, label: str) -> None:
    """Of the worker that has just caught up, half a minute later, and of one that starts where it ended."""
    caught_up = site.workers[-1]
    await measure.rest(site, freed_memory.EVERY + 10.0)
    after, most = measure.resident(caught_up)
    caught_up.stop(30)
    await measure.recovery(site)
    await measure.rest(site, 5.0)
    fresh, _ = measure.resident(site.workers[-1])
    put(results, f"{label}: memory of a fresh worker", fresh, "MiB")
    put(results, f"{label}: memory after catching up, to that of a fresh one", after / fresh, "x", "<= 1.3")
    put(
        results,
        f"{label}: memory of a worker at its highest",
        most,
        "MiB",
        "<= 1,024" * (site.containers == SIZES[-1].containers),
    )


async def throughput(results: Results, site: Site, size: Size, profile: str | None) -> None:
    site.ends_now(size.span_ms)
    await site.open()
    label = f"{site.containers // 1000}k containers"
    await known_fleet(results, site, size, label)
    await site.backlog(size.dense, size.cadence)
    worker = site.worker(turns=True, profile=profile)
    done = await measure.folded(site, worker)
    put(results, f"{label}: samples per CPU second", done.samples / done.cpu, "samples/s", f">= {size.goal:,.0f}")
    upstream = {1_000: 495, 10_000: 557, 100_000: 1_064}[size.containers]
    goal = f"{'<= 400; ' if size.is_largest else ''}upstream {upstream:,}, in memory alone"
    put(results, f"{label}: Kafka record to checkpointed state", 1e9 * done.cpu / done.samples, "ns/sample", goal)
    put(results, f"{label}: samples per second", done.samples / done.wall, "samples/s")
    put(results, f"{label}: rows per second", done.samples / 2 / done.wall, "rows/s")
    put(results, f"{label}: checkpoint bytes", done.written, "bytes")
    worker.stop(30)
    await catching_up(results, site, size, label, ">= 40" * size.is_largest)


async def hardly_known(results: Results, site: Site, size: Size) -> None:
    """How the worst of fleets catches up, and what a burst of statements leaves in memory.

    With a sample an hour for a day each new one moves the bounds, so nearly every workload is recommended anew each minute.
    """
    size = replace(size, history=24, apart=60, dense=0, late=40, ticked=1)
    site.ends_now(size.span_ms)
    await site.open()
    label = f"{size.containers // 1000}k containers with a sample an hour"
    await known_fleet(results, site, size, label)
    await catching_up(results, site, size, label)


async def largest(results: Results, site: Site) -> None:
    """What is measured on the state of 100 k containers."""
    site.workers[-1].stop(30)
    put(results, "100k containers: recovery", await measure.recovery(site), "s", "< 6")
    worker = site.workers[-1]
    put(results, "a tick soon after a scrape: CPU", await measure.idle(site, worker, 20), "ms")
    put(results, "idle tick: CPU", await measure.idle(site, worker, 100, 90.0), "ms", "<= 10")
    took = await measure.latency(site)
    put(results, "OOM to recommendation, tick 500 ms: p50", float(np.percentile(took, 50)), "ms")
    put(results, "OOM to recommendation, tick 500 ms: p99", float(np.percentile(took, 99)), "ms", "< 1000")
    sizes = [n["size"] for n in measure.notes(worker, "checkpoint", "recommender")]
    put(results, "100k containers: largest checkpoint of a partition", max(sizes), "bytes")


def with_a_broker(put_one: Callable[[str, float, str, str], None], brokers: str) -> None:
    """What needs a Kafka, but no fleet in it."""
    node_reaction.measure(put_one, brokers)
    idle_costs.measure(put_one, brokers)
    five_workers.measure(put_one, brokers)
    control_lookup.measure(put_one, brokers)
    reading_commands.measure(put_one, brokers)
    reading_commands.measure_demo(put_one)
    backtest_costs.measure(put_one)
    hostile_tenant.measure(put_one)
    kube_source.measure(put_one)
    replicas.measure(put_one)
    webhook.measure(put_one, brokers)
    for version in (1, 2):
        received_usage.measure(put_one, version=version)


async def main(only: int | None, profile: str | None) -> Results:
    folder = Path(tempfile.mkdtemp(prefix="ullage-bench-"))
    results: Results = {}
    machine.measure(partial(put, results))
    with Broker(BrokerSettings(heap_mb=768)) as broker:
        for size in SIZES:
            if only not in (None, size.containers):
                continue
            site = Site(broker.bootstrap, folder, size.containers, size.partitions)
            try:
                await throughput(results, site, size, profile)
                if size.is_largest and not profile:
                    await largest(results, site)
                if size.containers == 10_000 and not profile:
                    joined, killed = await measure.gaps(site)
                    put(results, "rebalance gap: a worker joins", joined, "s")
                    put(results, "rebalance gap: a worker is killed", killed, "s")
                if not profile:
                    await site.close()
                    site = Site(broker.bootstrap, folder, size.containers, size.partitions, "-hardly-known")
                    await hardly_known(results, site, size)
                    await site.close()
                    site = Site(broker.bootstrap, folder, size.containers, size.partitions, "-vpas")
                    await with_vpas(results, site, size)
            finally:
                if profile:
                    site.workers[-1].stop(30)
                await site.close()
        if not profile and only is None:
            with_a_broker(partial(put, results), broker.bootstrap)
    shutil.rmtree(folder)
    if not profile:
        vertical.measure(partial(put, results), only or max(vertical.COUNTS))
        policy_costs.measure(partial(put, results), only or policy_costs.CONTAINERS)
    if not profile and only is None:
        node_scaling.measure(partial(put, results))
        hostile_batches.measure(partial(put, results))
        hostile_nodes.measure(partial(put, results))
        updater_pass.measure(partial(put, results))
        one_partition.measure(partial(put, results))
        policy_costs.backtests(partial(put, results))
    return results


parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
parser.add_argument("--out", type=Path, default=Path("bench.json"))
parser.add_argument("--only", type=int, help="only this number of containers")
parser.add_argument("--profile", help="write a profile of the worker here")
args = parser.parse_args()
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
args.out.write_text(json.dumps(asyncio.run(main(args.only, args.profile)), indent=1) + "\n")
