"""What policies cost: `adaptive` beside the built-in estimator in memory, and a policy of fifteen lines in a backtest.

`python -m tests.bench.policy_costs [CONTAINERS]`; in `make bench`. CPU time of this process, or of the command; memory as Python
and numpy allocate it. Each container has a VPA of its own. A scrape comes every minute of an hour and a half, so that each of the
policy's hours and quarters of hours is among them; before that lie some hours, in which a container counts as just started.
"""

import gc
import sys
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

from agents.logic.adaptive import adaptive_policy
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import ADAPTIVE, VerticalSettings
from tests.bench import backtest_costs
from tests.bench.vertical import PutFigure, World
from tests.support.commands import ROOT

CONTAINERS = 100_000
SCRAPES = 90
BEFORE, MINUTES = 10, 45
"""Scrapes that are not counted, and the minutes between them."""
LIVE = 306
"""Nanoseconds that a sample takes from Kafka to checkpointed state under the built-in estimator (docs/lab/bench.md)."""
CONTAINER_DAYS = (50, 7)
BUILT_IN_RULE = ROOT / "examples/built_in_rule.py"

FIFTEEN_LINES = '''"""Memory never below the highest use of late."""

import numpy as np

from agents.logic.vertical.policy_code import EvidenceColumns, PolicyState, RecommendedColumns, SampleColumns, StateColumn

STATE = (StateColumn("peak"),)

def observe(samples: SampleColumns, state: PolicyState) -> None:
    state["peak"] = np.fmax(state["peak"] * 0.5 ** (samples.seconds / 21600.0), samples.memory)

def recommend(usage: EvidenceColumns, state: PolicyState) -> RecommendedColumns:
    own, floor = usage.builtin, state["peak"] * 1.2
    memory = (own.lower_memory, np.fmax(own.target_memory, floor), np.fmax(own.upper_memory, floor))
    return RecommendedColumns(own.lower_cpu, own.target_cpu, own.upper_cpu, *memory)
'''


def world(count: int, policy: str) -> World:
    """Containers that this policy decides for, all taken in."""
    found = World(count, 1)
    settings = replace(VerticalSettings(), interval=1e9, heartbeat=1e9, policy=policy)
    found.stage = Recommender(settings, 0, {ADAPTIVE: adaptive_policy.POLICY}.get)
    found.intake()
    return found


def samples(count: int, policy: str) -> float:
    """Nanoseconds of CPU that a sample takes, of which a scrape has two of each container."""
    measured = world(count, policy)
    list(measured.scrapes(BEFORE, MINUTES))
    scraped = list(measured.scrapes(SCRAPES))
    return 1e9 * sum(scraped) / len(scraped) / count / 2


def memory(count: int, policy: str) -> float:
    """Bytes a container after three scrapes."""
    gc.collect()
    tracemalloc.start(1)
    held = world(count, policy)
    list(held.scrapes(3))
    held.workloads.clear()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / count


def measure(put: PutFigure, count: int = CONTAINERS) -> None:
    """Samples and memory with and without `adaptive`."""
    label = f"{count / 1000:g}k containers, adaptive"
    plain, ours = samples(count, ""), samples(count, ADAPTIVE)
    put(f"{label}: a sample in memory", ours, "ns", f"built-in {plain:.0f}")
    put(f"{label}: a sample, from Kafka to checkpointed state", LIVE + ours - plain, "ns", "<= 600; built-in 306")
    put(f"{label}: memory a container beyond the built-in's", memory(count, ADAPTIVE) - memory(count, ""), "bytes", "<= 1,500")


def backtests(put: PutFigure) -> None:
    """A policy of fifteen lines, and `adaptive`, in a backtest."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as folder:
        trace, policy = Path(folder) / "usage.parquet", Path(folder) / "peak.py"
        backtest_costs.make(trace, *CONTAINER_DAYS)
        policy.write_text(FIFTEEN_LINES, encoding="utf-8")
        plain = backtest_costs.backtest(trace, "--jobs", "1").cpu
        policies = (
            ("a policy of 15 lines", str(policy)),
            ("the built-in rule as a policy", str(BUILT_IN_RULE)),
            (ADAPTIVE, ADAPTIVE),
        )
        for name, reference in policies:
            taken = backtest_costs.backtest(trace, "--jobs", "1", "--set", f"vertical.policy={reference}").cpu
            put(f"backtest with {name}: CPU, to that of the built-in", taken / plain, "x", "<= 1.3")


def main() -> None:
    """Measure alone, without Kafka."""

    def put(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<70} {value:>12,.2f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    measure(put, int(sys.argv[1]) if len(sys.argv) > 1 else CONTAINERS)
    backtests(put)


if __name__ == "__main__":
    main()
