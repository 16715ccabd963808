"""`python -m tests.bench.node_replays`: recorded arrivals in the simulated cluster, by our rules and by upstream's.

The stage, the sources and the consumer are the real ones, in virtual time. What is recorded: when each pod comes, what it asks
for and how long it lasts from the moment at which it runs. What is made up: the node groups, and that a pod that is moved goes on
elsewhere with the rest of its time. The traces lie outside the repository (ULLAGE_SHARED).

- azure-v1-vm-arrivals: days 20.8 on, one tenant batch in `SHARE`, spread evenly over each five minutes.
- alibaba-openb-2023: from its busiest day on, arrivals `FASTER` times as fast, because the list is a sample; a share of a GPU
  takes a whole one.
"""

import argparse
import heapq
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import numpy as np

from agents.telemetry import logging_setup
from schemas.units import Seconds
from streams.simulated.cluster_spec import SimulatedNodeGroup
from tests.support.real_traces import TRACES
from tests.support.simulated_fleet import START, Fleet, deployment

SHARE, FASTER = 20, 10
HOURS = 2.0
BUSIEST = 148
"""Day of the pods' list."""
DELETION: Mapping[str, object] = {"nodes.utilization_threshold": 1.0}
"""A node goes when its pods fit on others, however much it is used."""
REPLACEMENT: Mapping[str, object] = {"nodes.consolidate": True}
HURRIED: Mapping[str, object] = {"nodes.unneeded_time": 60, "nodes.delay_after_add": 60}
"""A minute of patience instead of ten."""
PROFILES: Mapping[str, Mapping[str, object]] = {
    "upstream": {"nodes.profile": "upstream"},
    "ullage": {},
    "ullage, by price": {"nodes.expanders": "price"},
    "consolidation by deletion": DELETION,
    "consolidation by replacement": REPLACEMENT,
    "hurried": HURRIED,
    "hurried, consolidation by deletion": {**HURRIED, **DELETION},
    "hurried, consolidation by replacement": {**HURRIED, **REPLACEMENT},
}
_BIN = 300
_BEGIN = 1_800_000


@dataclass(frozen=True)
class Arrival:
    """A pod that comes `at` seconds after the beginning. Alike pods have one `name`."""

    at: float
    name: str
    cpu: float
    gib: float
    lasts: int
    gpus: int = 0

    def __lt__(self, other: "Arrival") -> bool:
        return self.at < other.at


@dataclass(frozen=True)
class Replayed:
    """What came of a replay. Waiting times in seconds."""

    pods: int
    waited: Sequence[int]
    hours: float
    price: float
    moved: int
    unplaced: int
    most_nodes: int


AZURE = (
    SimulatedNodeGroup("m5-xlarge", "m5.xlarge", most=200, price=0.192, boot=Seconds(90.0)),
    SimulatedNodeGroup("m5-4xlarge", "m5.4xlarge", most=200, price=0.768, boot=Seconds(90.0)),
    SimulatedNodeGroup("r5-4xlarge", "r5.4xlarge", most=200, price=1.008, boot=Seconds(90.0)),
)
OPENB = (
    SimulatedNodeGroup("m5-8xlarge", "m5.8xlarge", most=200, price=1.536, boot=Seconds(90.0)),
    SimulatedNodeGroup("g4dn-4xlarge", "g4dn.4xlarge", most=200, price=1.204, boot=Seconds(150.0)),
    SimulatedNodeGroup("g5-8xlarge", "g5.8xlarge", most=200, price=2.448, boot=Seconds(150.0)),
    SimulatedNodeGroup("g5-48xlarge", "g5.48xlarge", most=50, price=16.288, boot=Seconds(150.0)),
)
"""On-demand prices for an hour, us-east-1, Linux, as AWS lists them."""


def azure(hours: float) -> list[Arrival]:
    """Arrivals of the trace's second file."""
    trace = duckdb.read_parquet(f"{TRACES}/azure-v1-vm-arrivals/arrivals_d20_d24.parquet")
    chosen = trace.filter(f"batch_id % {SHARE} = 0 and timestamp_s <= {_BEGIN + hours * 3600}").order("timestamp_s, batch_id")
    rows = chosen.project("timestamp_s, flavor, vcpu, memory_gib, duration_max_s").fetchall()
    seen: dict[int, int] = {}
    totals: dict[int, int] = {}
    for row in rows:
        totals[row[0]] = totals.get(row[0], 0) + 1
    found = []
    for end, flavor, cpu, gib, lasts in rows:
        place = seen[end] = seen.get(end, -1) + 1
        at = end - _BEGIN + _BIN * place / totals[end]
        found.append(Arrival(at, f"vm-{flavor}", cpu * 0.95, gib * 0.95, max(int(lasts), 60)))
    return found


def openb(hours: float) -> list[Arrival]:
    """All pods of the list that were scheduled."""
    trace = duckdb.read_parquet(f"{TRACES}/alibaba-openb-2023/pods.parquet")
    chosen = trace.filter(f"deletion_s > scheduled_s and creation_s >= {BUSIEST * 86_400}").order("creation_s, pod")
    rows = chosen.project("creation_s, cpu_milli, memory_mib, num_gpu, deletion_s - scheduled_s").fetchall()
    first = rows[0][0]
    found = []
    for created, cpu, mib, gpus, lasts in rows:
        at = (created - first) / FASTER
        if at < hours * 3600:
            found.append(Arrival(at, f"pod-{cpu}-{mib}-{gpus}", cpu / 1000, max(mib, 1) / 1024, max(int(lasts), 60), gpus))
    return found


def replay(groups: Sequence[SimulatedNodeGroup], arrivals: Sequence[Arrival], hours: float, profile: str, step: int) -> Replayed:
    """One run to its end; pods that come later are left out."""
    fleet = Fleet(groups, settings=PROFILES[profile], step=step)
    waiting = list(arrivals)
    heapq.heapify(waiting)
    templates = {one.name: deployment(one.name, 0, one.cpu, one.gib, gpus=one.gpus) for one in arrivals}
    most, end = 0, START + timedelta(hours=hours)
    while (now := fleet.run().at) < end:
        passed = (now - START).total_seconds()
        while waiting and waiting[0].at <= passed:
            one = heapq.heappop(waiting)
            fleet.cluster.submit(templates[one.name], one.lasts)
        most = max(most, sum(fleet.cloud.running.values()))
    hours_used = fleet.cloud.machine_hours
    return Replayed(
        len(arrivals) - len(waiting),
        fleet.cluster.waited,
        hours_used.total,
        hours_used.price,
        fleet.cluster.moved,
        fleet.waiting,
        most,
    )


def line(trace: str, profile: str, found: Replayed, took: float) -> str:
    """A row of the table."""
    median, late, longest = np.percentile(found.waited, (50, 95, 100))
    cells = (
        trace,
        profile,
        f"{found.pods:,}",
        f"{median:.0f}",
        f"{late:.0f}",
        f"{longest:.0f}",
        f"{found.unplaced}",
        f"{found.hours:.0f}",
        f"{found.price:.0f}",
        f"{found.most_nodes}",
        f"{found.moved}",
        f"{took:.0f}",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "trace",
    "profile",
    "pods",
    "waited s, median",
    "p95",
    "longest",
    "waiting at the end",
    "node-hours",
    "price",
    "most nodes",
    "pods moved",
    "CPU s",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.node_replays", description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--step", type=int, default=5, help="seconds of simulated time between two ticks")
    parser.add_argument("--only", choices=("azure", "openb"))
    parser.add_argument("--profile", choices=PROFILES, help="only this one")
    chosen = parser.parse_args()
    logging_setup.set_up("replay", stream=sys.stderr)
    sys.stdout.write(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n")
    replays: tuple[tuple[str, Sequence[SimulatedNodeGroup], Callable[[float], list[Arrival]]], ...] = (
        ("azure", AZURE, azure),
        ("openb", OPENB, openb),
    )
    for name, groups, arrivals in replays:
        if chosen.only in (None, name):
            for profile in PROFILES if chosen.profile is None else (chosen.profile,):
                begun = time.process_time()
                found = replay(groups, arrivals(chosen.hours), chosen.hours, profile, chosen.step)
                sys.stdout.write(line(name, profile, found, time.process_time() - begun) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
