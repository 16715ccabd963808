"""What `ullage backtest` takes of the machine: for a large recorded trace, and for fleets that are made up.

`python -m tests.bench.backtest_costs` measures all; `--days 14` makes up the fortnight of the goal instead of one day of it, and
`--only fleet` leaves the others out. Each line ends with its goal; the first says how busy the machine is.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

Put = Callable[[str, float, str, str], None]
TRACE = Path(os.environ.get("ULLAGE_SHARED", "../shared")) / "traces" / "bitbrains-rnd" / "usage.parquet"
CONTAINERS, NAMESPACE = 10_000, 50
FORTNIGHT, MOST_SECONDS = 14, 120
_WHAT = ("recorded", "namespace", "fleet")

_FLEET = """
copy (
    select printf('c%05d', i) as container_id, 1767225600 + 60 * m as timestamp_s,
        (0.02 + (i % 40) / 40.0) * (1.2 + sin(m / 229.18 + i)) * (0.7 + hash(i * 1000003 + m) % 1000 / 1500.0) as cpu_cores,
        (64 + i % 900) * 1048576 * (1.1 + 0.1 * sin(m / 1375.1 + i) + hash(m * 999983 + i) % 1000 / 20000.0) as memory_bytes,
        2.0 + i % 3 as cpu_request_cores, (128 + i % 900 * 2) * 1048576 as memory_limit_bytes
    from (select k // {containers} as m, k % {containers} as i from range({minutes} * {containers}) as rows(k))
) to '{path}'
"""
"""Days that repeat, weeks that repeat more slowly, and noise; some come near their limits. Counted in order, not sorted."""
_LOOK = 0.2
"""Seconds between two looks at the memory of a command's processes."""


@dataclass(frozen=True)
class Taken:
    """Seconds on the wall and of CPU, and bytes of memory at most, of all processes of one backtest."""

    wall: float
    cpu: float
    memory: float


def measure(put: Put, *, days: int = 1, only: str | None = None) -> None:
    """Backtest each once, in a process of its own; a trace that is absent is left out."""
    if only in (None, "recorded"):
        _recorded(put)
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as folder:
        path = Path(folder) / "usage.parquet"
        if only in (None, "namespace"):
            make(path, NAMESPACE, 7)
            taken = backtest(path)
            label = f"backtest of {NAMESPACE} containers, a week at a sample a minute"
            put(f"{label}: wall", taken.wall, "s", "<= 5")
            put(f"{label}: CPU", taken.cpu, "s", "")
        if only in (None, "fleet"):
            make(path, CONTAINERS, days)
            taken = backtest(path)
            goal = f"<= {MOST_SECONDS * days / FORTNIGHT:.1f}"
            label = f"backtest of 10k containers, {days} d at a sample a minute"
            put(f"{label}: wall", taken.wall, "s", goal)
            put(f"{label}: CPU a row", 1e9 * taken.cpu / (CONTAINERS * days * 1440), "ns", "")
            put(f"{label}: memory", taken.memory / 2**30, "GiB", "<= 4")


def _recorded(put: Put) -> None:
    if not TRACE.exists():
        sys.stdout.write(f"no {TRACE}, so no backtest of it is measured\n")
        return
    taken = backtest(TRACE)
    put("backtest of bitbrains-rnd, 5.3 million rows: CPU", taken.cpu, "s", "<= 60")
    put("backtest of bitbrains-rnd, 5.3 million rows: memory", taken.memory / 2**30, "GiB", "<= 4")
    put("backtest of bitbrains-rnd, 5.3 million rows: wall", taken.wall, "s", "<= 20")


def make(path: Path, containers: int, days: int) -> None:
    """In a process of its own, because what a process starts is said to have taken as much memory as itself."""
    making = multiprocessing.get_context("spawn").Process(target=_write, args=(path, containers, days))
    making.start()
    making.join()


def _write(path: Path, containers: int, days: int) -> None:
    with duckdb.connect(config={"memory_limit": "2GB", "temp_directory": str(path.parent)}) as made:
        made.execute(_FLEET.format(minutes=days * 1440, containers=containers, path=path))


def backtest(path: Path, *flags: str) -> Taken:
    """One run of the command. Raises ValueError where it fails."""
    began = time.perf_counter()
    null = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "agents", "backtest", str(path), *flags],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)],
    )
    ended, most = threading.Event(), [0.0]
    watching = threading.Thread(target=_watch, args=(pid, ended, most))
    watching.start()
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    ended.set()
    watching.join()
    os.close(null)
    if status:
        msg = f"the backtest of '{path}' ended with {os.waitstatus_to_exitcode(status)}"
        raise ValueError(msg)
    return Taken(wall, used.ru_utime + used.ru_stime, most[0])


def _watch(pid: int, ended: threading.Event, most: list[float]) -> None:
    """Bytes that a process and those it started hold together at most, shared pages counted once for each."""
    while not ended.wait(_LOOK):
        most[0] = max(most[0], sum(map(_held, _family(pid))))


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            yield from _family(int(child))
    except OSError:  # it has ended
        return


def _held(pid: int) -> float:
    try:
        return float(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0.0


def main() -> None:
    """Measure alone, without Kafka."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--only", choices=_WHAT)
    told = parser.parse_args()

    def put(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<70} {value:>12,.2f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    sys.stdout.write(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    measure(put, days=told.days, only=told.only)


if __name__ == "__main__":
    main()
