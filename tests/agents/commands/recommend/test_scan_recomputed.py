"""`ullage scan` by a sceptic: targets, shares, risk and grade of random fleets, computed anew without any code of the project.

The sums are those that docs/scan.md tells and upstream's recommender has: samples and daily peaks in exponential buckets, which
lose half their weight in a day. Uses keep away from requests, because a bucket knows an amount to within 5 %.
"""

import csv
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents import cli

START, HOUR, DAY, MIB = 1_767_571_200, 3600, 86400, 1 << 20
LEAST_CPU, LEAST_MEMORY = 0.025, 250 * MIB
NAMES = ("timestamp_s", "namespace", "workload", "pod", "container", "cpu_cores", "memory_bytes")


@dataclass(frozen=True)
class Container:
    """A container of one pod: when it was looked at, what it used then, and what it requests, where it does."""

    name: str
    cpu_request: float | None
    memory_request: int | None
    samples: Sequence[tuple[int, float, int]]


def fleet(seed: int) -> Iterator[Container]:
    """Peaks that are rare, daily or constant; gaps, single samples, beginnings in the middle of a day, and absent requests."""
    chance = random.Random(seed)
    for number in range(14):
        cpu, memory = chance.uniform(0.2, 3.0), int(chance.uniform(300, 4000) * MIB)
        often = chance.choice((0.0, 0.02, 0.05, 0.3, 0.9))
        begin = START + HOUR * chance.randrange(30)
        hours = 1 if number == 0 else chance.randrange(20, 130)
        gap = range(10, 10 + chance.choice((0, 0, 7, 40)))
        samples = [
            (begin + HOUR * hour, cpu * _share(chance, often), int(memory * _share(chance, often / 4)))
            for hour in range(hours)
            if hour not in gap or hour == 0
        ]
        bare = chance.choice(("", "", "", "", "cpu", "memory", "both"))
        yield Container(
            f"w{number:02}",
            None if bare in ("cpu", "both") else cpu,
            None if bare in ("memory", "both") else memory,
            samples,
        )


def _share(chance: random.Random, often: float) -> float:
    return chance.uniform(1.3, 2.0) if chance.random() < often else chance.uniform(0.1, 0.8)


def written(path: Path, containers: Sequence[Container]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*NAMES, "cpu_request_cores", "memory_request_bytes"])
        for each in containers:
            for at, cpu, memory in each.samples:
                asked = ["" if amount is None else amount for amount in (each.cpu_request, each.memory_request)]
                table.writerow([at, "shop", each.name, f"{each.name}-1", "main", cpu, memory, *asked])
    return path


Weighed = list[tuple[float, float]]
"""Amounts and their weights."""


def cpu_of(container: Container) -> Weighed:
    return [(cpu, 2.0 ** ((at - START) / DAY)) for at, cpu, _ in container.samples]


def memory_of(container: Container) -> Weighed:
    """The highest of each day from the first sample on, as of the day's end."""
    first, peaks = container.samples[0][0], dict[int, float]()
    for at, _, memory in container.samples:
        day = (at - first) // DAY
        peaks[day] = max(memory, peaks.get(day, 0.0))
    return [(peak, 2.0 ** ((first + (day + 1) * DAY - START) / DAY)) for day, peak in peaks.items()]


def target(weighed: Weighed, first: float, least: float, unit: float) -> float:
    """The end of the bucket in which nine tenths of the weight lie, and 15 % more: both in whole units, as upstream has them."""

    def end(amount: float) -> float:
        start, width = 0.0, first
        while start + width <= amount:
            start, width = start + width, width * 1.05
        return start + width

    left = 0.9 * sum(weight for _, weight in weighed)
    for amount, weight in sorted(weighed):
        left -= weight
        if left <= 0:
            return max(least, int(end(amount) / unit) * 115 // 100 * unit)
    raise AssertionError("no sample")


def share_over(weighed: Weighed, request: float | None) -> float | None:
    if request is None:
        return None
    share = sum(weight for amount, weight in weighed if amount > request) / sum(weight for _, weight in weighed)
    return next((known for known in (0.1, 0.01) if share > known), 0.0)


def judged(container: Container, cpu: float, memory: float) -> tuple[str, str]:
    """Risk and why, by the rows of docs/scan.md."""
    asked_cpu, asked_memory = container.cpu_request, container.memory_request
    if asked_cpu is None or asked_memory is None:
        return "medium", "no requests set"
    over = share_over(memory_of(container), asked_memory)
    if over:
        return ("high", "too little memory") if over == 0.1 else ("medium", "memory peaks over it")
    if share_over(cpu_of(container), asked_cpu) == 0.1:
        return "medium", "too little CPU"
    if memory >= 1.1 * asked_memory:
        return "low", "needs more memory"
    if cpu >= 1.1 * asked_cpu:
        return "low", "needs more CPU"
    less = [name for name, now, then in (("CPU", asked_cpu, cpu), ("memory", asked_memory, memory)) if now > 1.01 * then]
    return "low", "uses less" if len(less) == 2 else f"uses less {less[0]}" if less else "fits"


def points(container: Container, risk: str, cpu: float, memory: float) -> float:
    spare: Callable[[float | None, float], float] = lambda now, then: max(0.0, 1 - then / now) if now else 0.0  # noqa: E731
    wasted = (spare(container.cpu_request, cpu) + spare(container.memory_request, memory)) / 2
    return 100.0 - {"high": 60.0, "medium": 30.0}.get(risk, 0.0) - 40.0 * wasted


@pytest.mark.parametrize("seed", range(8))
def test_targets_shares_risk_and_score_are_those_of_another_hand(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    containers = {each.name: each for each in fleet(seed)}
    file = written(tmp_path / "usage.csv", list(containers.values()))
    capsys.readouterr()
    assert cli.run(["scan", "--from-file", str(file), "-f", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert sorted(rows) == sorted(containers)
    for name, row in rows.items():
        each = containers[name]
        cpu = target(cpu_of(each), 0.01, LEAST_CPU, 0.001)
        memory = target(memory_of(each), 1e7, LEAST_MEMORY, 1.0)
        assert row["recommended_requests_cpu"] == pytest.approx(cpu, abs=1e-9), name
        assert row["recommended_requests_memory"] == pytest.approx(memory, abs=1.0), name
        assert row["cpu_over_request"] == share_over(cpu_of(each), each.cpu_request), name
        assert row["memory_over_request"] == share_over(memory_of(each), each.memory_request), name
        assert (row["risk"], row["why"]) == judged(each, cpu, memory), name
        assert row["score"] == pytest.approx(points(each, row["risk"], cpu, memory), abs=0.1), name
