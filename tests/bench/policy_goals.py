"""What a policy requests and risks beside upstream's rule on the shared traces, in two halves: one for tuning, one for judging.

`python -m tests.bench.policy_goals` prints a line for each trace and half; `--policy FILE.py` judges another policy, and
`--set NAME=VALUE` goes with it; `--one-in 8` judges an eighth of the workloads of each half. Both policies have the same floors
and one request a workload, what goes over a limit is a kill, and neither sees more than the limit then. Workloads of even numbers
are the half for tuning. The interval is that of the paired difference: 95 %, by the bootstrap of `ullage backtest`.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np

from agents.backtest.policy_comparison import Interval, PolicyScore, WorkloadFigures, difference, relative
from agents.backtest.price_list import PriceList
from agents.commands.compare import backtested_policies
from agents.settings.loading import load

TRACES = Path(os.environ.get("ULLAGE_SHARED", "../shared")) / "traces"
SETS = ("bitbrains-rnd", "google2011-jobs", "google2019-borg", "k8s-online-boutique")
HALVES = ("even", "odd")
_HEAD = "set, half | workloads | CPU | memory | CPU over: ours, upstream's, promised | short share | kills | changes a day"


def main() -> None:
    """Judge the sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--one-in", type=int, default=1)
    asked = parser.parse_args()
    flags = dict(text.split("=", 1) for text in asked.set)
    settings = load(flags=flags).settings
    specs = backtested_policies.read(("upstream", asked.policy), settings, asked.set)
    sys.stdout.write(f"| {_HEAD} |\n|{'---|' * (_HEAD.count('|') + 1)}\n")
    for name in asked.sets:
        with _part_of(TRACES / name / "usage.parquet", asked.one_in) as trace:
            upstream, ours = backtested_policies.run(trace, specs, settings, PriceList(), asked.jobs)
        for half, workloads in _halves(upstream.workloads):
            sides = (_part(upstream, workloads), _part(ours, workloads))
            sys.stdout.write(f"| {name}, {half} | {_line(*sides, settings.vertical.risk_cpu)} |\n")
        sys.stdout.flush()


@contextmanager
def _part_of(trace: Path, one_in: int) -> Iterator[Path]:
    """A trace with one of so many workloads, as many even as odd ones."""
    if one_in == 1:
        yield trace
        return
    with TemporaryDirectory(prefix="ullage-goals-") as folder, duckdb.connect() as db:
        usage = db.read_parquet(str(trace)).set_alias("usage")
        names = [name for (name,) in usage.project("container_id").distinct().order("container_id").fetchall()]
        chosen = [name for place, name in enumerate(names) if _number(name, place) // 2 % one_in == 0]
        part = Path(folder) / "usage.parquet"
        wanted = ", ".join(f"'{name}'" for name in chosen)
        usage.filter(f"container_id in ({wanted})").order("timestamp_s").write_parquet(str(part))
        yield part


def _halves(workloads: Mapping[str, WorkloadFigures]) -> Iterator[tuple[str, frozenset[str]]]:
    """Workloads by the last number in their names; of two or three each is a half of its own."""
    names = sorted(workloads)
    if len(names) <= len(HALVES) + 1:
        yield from ((name.rsplit("/", 1)[-1], frozenset({name})) for name in names)
        return
    numbers = {name: _number(name, place) for place, name in enumerate(names)}
    for remainder, half in enumerate(HALVES):
        yield half, frozenset(name for name in names if numbers[name] % 2 == remainder)


def _number(name: str, place: int) -> int:
    digits = re.findall(r"\d+", name)
    return int(digits[-1]) if digits else place


def _part(score: PolicyScore, workloads: frozenset[str]) -> PolicyScore:
    return PolicyScore(score.name, {name: score.workloads[name] for name in sorted(workloads)})


def _line(upstream: PolicyScore, ours: PolicyScore, promised: float) -> str:
    against = difference(upstream, ours)
    hours = ours.total("container_hours")
    over = [sum(each.cpu_over * each.container_hours for each in side.workloads.values()) / hours for side in (ours, upstream)]
    worst = float(np.percentile([each.cpu_over for each in ours.workloads.values()], 99))
    later = [_later(each) for each in ours.workloads.values() if each.container_hours > each.first_12h_hours]
    short = [
        sum(each.cpu_used + each.cpu_slack - each.cpu_requested for each in side.workloads.values()) / side.total("cpu_used")
        for side in (ours, upstream)
    ]
    kills = f"{ours.total('kills'):.0f}, {upstream.total('kills'):.0f} ({_count(against.kills)})"
    return " | ".join(
        (
            str(len(ours.workloads)),
            *(_ratio(relative(upstream, ours, f"{what}_requested")) for what in ("cpu", "memory")),
            f"{over[0]:.2%}, {over[1]:.2%}, {promised:.1%}; p99 {worst:.1%}, after 12 h {np.percentile(later or [0.0], 99):.1%}",
            f"{short[0]:.2%}, {short[1]:.2%}",
            kills,
            f"{ours.total('changes') / hours * 24:.1f}, {upstream.total('changes') / hours * 24:.1f}",
        )
    )


def _later(figures: WorkloadFigures) -> float:
    """The share of time with more CPU used than requested, without the first 12 hours of each container."""
    over = figures.cpu_over * figures.container_hours - figures.cpu_over_first_12h * figures.first_12h_hours
    return over / (figures.container_hours - figures.first_12h_hours)


def _ratio(of: Interval) -> str:
    return f"{1 + of.estimate:.2f} ({1 + of.low:.2f} to {1 + of.high:.2f})"


def _count(of: Interval) -> str:
    return f"{of.estimate:+.0f}: {of.low:+.0f} to {of.high:+.0f}"


if __name__ == "__main__":
    main()
