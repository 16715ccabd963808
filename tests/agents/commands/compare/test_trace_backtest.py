"""A trace is scored to the same last bit by one process and by several, and what goes wrong in one of them is said."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import orjson
import pytest

from agents import cli
from agents.backtest.partial_scores import PartialScore
from agents.backtest.workload_sums import SIDES
from agents.commands.compare import backtest_command
from agents.processes import worker_processes
from agents.processes.worker_processes import Report
from agents.run import python_gc
from agents.settings.all_settings import Settings
from streams.errors import BadInput, GiveUp

_TRACE = """
copy (
    select 'shop' as namespace, 'w' || i % 11 as workload, 'w' || i % 11 || '-' || i % 23 as pod, 'c' || i % 2 as container,
        1767225600 + 60 * m + (i % 7) as timestamp_s,
        case when hash(i * 31 + m) % 50 > 0 then (0.1 + i / 30.0) * (1 + hash(i * 7919 + m) % 1000 / 700.0) end as cpu_cores,
        (60 + 9 * i) * 1048576 * (1 + hash(m * 104729 + i) % 1000 / 1500.0) as memory_bytes,
        case when i % 5 > 0 then 0.3 + i % 3 + m // 90 % 2 end as cpu_request_cores,
        case when i % 4 > 0 then (100 + i * 9) * 1048576 end as memory_limit_bytes,
        case when hash(i + m * 613) % 200 = 0 then 1 else 0 end as oom_kills
    from range(150) as minutes(m), range(46) as containers(i)
    where hash(i * 17 + m // 25) % 6 > 0 and (i <> 3 or m > 50) {where}
    union all by name
    select 'shop' as namespace, 'w1' as workload, 'w1-1' as pod, 'c1' as container, 1767225600 + 60 * m + 31 as timestamp_s,
        0.4 as cpu_cores, 7e7 as memory_bytes, null as cpu_request_cores, null as memory_limit_bytes, 0 as oom_kills
    from range(9, 140, 13) as minutes(m)
    order by {order}
) to '{path}'
"""
"""Gaps, missing numbers, late beginners, recorded kills, changing requests, pods of two containers, two samples of one scrape."""


_SELDOM = """
copy (
    select 'w' || i % 11 as workload, 'p' || i as pod, 'c' as container, 1767225600 + 172800 * m as timestamp_s, 0.1 as cpu_cores,
        1e8 as memory_bytes
    from range(20) as days(m), range(46) as containers(i)
    union all by name
    select 'w1' as workload, 'p1' as pod, 'c' as container, 1767225600 + 172800 * m - 100000 as timestamp_s, 0.2 as cpu_cores,
        1e8 as memory_bytes
    from range(3, 20, 5) as days(m)
    order by timestamp_s
) to '{path}'
"""
"""A sample every two days; some windows of a container have two, and more than a day between them is too old for one scrape."""


def trace(path: Path, *, order: str = "timestamp_s, pod, container", where: str = "") -> Path:
    with duckdb.connect() as db:
        db.execute(_TRACE.format(order=order, where=where, path=path))
    return path


def as_bytes(part: PartialScore) -> bytes:
    return orjson.dumps((part.card(), [part.totals(side) for side in SIDES]))


@pytest.mark.parametrize(
    "order", [pytest.param("timestamp_s, pod, container", marks=pytest.mark.slow), "pod, container, timestamp_s"]
)
def test_any_number_of_processes_gives_the_same_score_to_the_last_bit(order: str, tmp_path: Path) -> None:
    file = trace(tmp_path / "usage.parquet", order=order)
    one, two, three = (backtest_command.scored(file, Settings(), jobs=jobs, by_workload=True) for jobs in (1, 2, 3))
    card = one.card()
    assert card.kills.recorded > 9 < card.kills.would_be
    assert (card.containers, len(one.totals("ours")), card.alone is None, card.changes > 50) == (46, 11, False, True)
    assert as_bytes(one) == as_bytes(two) == as_bytes(three)
    assert sorted(one.workloads) != one.workloads or two.workloads != one.workloads  # they were dealt out


def test_tables_gates_and_a_policy_as_code_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, mine = trace(tmp_path / "usage.csv", where="and m < 30"), tmp_path / "mine.py"
    assert cli.run(["policy", "new", str(mine)]) == 0
    said = set()
    for jobs in "12":
        capsys.readouterr()
        asked = ["backtest", str(file), "--jobs", jobs]
        codes = (cli.run([*asked, "--max-oom", "0"]), cli.run([*asked, "--policy", "default", "--baseline", str(mine)]))
        said.add((codes, capsys.readouterr().out))
    [(codes, out)] = said
    assert (codes, "OOM kills, whole recording" in out) == ((3, 0), True)


def test_a_scrape_that_is_set_aside_is_set_aside_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "usage.parquet"
    with duckdb.connect() as db:
        db.execute(_SELDOM.format(path=file))
    one, two = (backtest_command.scored(file, Settings(), jobs=jobs, by_workload=True) for jobs in (1, 2))
    assert one.dead_letters > 0
    assert as_bytes(one) == as_bytes(two)
    assert "scoring again in one process" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_process_is_refused(jobs: int) -> None:
    with pytest.raises(BadInput, match=f"--jobs {jobs} does nothing"):
        backtest_command.scored(Path("no.parquet"), Settings(), jobs=jobs)


def test_a_small_trace_is_scored_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "run", lambda *_: pytest.fail("a process was started"))
    assert backtest_command.scored(trace(tmp_path / "usage.parquet", where="and m < 30"), Settings(), jobs=None).rows > 0


def work(report: Report, number: int) -> int:
    report(number)
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 14:
        raise BadInput("'14' is no number")
    return number * number


def test_answers_come_in_order_and_progress_adds_up() -> None:
    seen: list[int] = []
    assert worker_processes.run(("squaring", "numbers"), work, [3, 1, 2], seen.append) == [9, 1, 4]
    assert max(seen) == 6


def collector(_report: Report, _number: int) -> tuple[int, int, int]:
    return gc.get_threshold()


def test_each_process_looks_for_cycles_as_rarely_as_the_one_that_asked() -> None:
    before = gc.get_threshold()
    try:
        python_gc.relax()
        assert worker_processes.run(("asking", "processes"), collector, [1], lambda _: None) == [gc.get_threshold()]
    finally:
        gc.set_threshold(*before)


def test_a_process_that_dies_ends_the_others_and_is_named() -> None:
    with pytest.raises(GiveUp, match="squaring 'numbers' did not work: process 2 of 2 was killed by SIGKILL"):
        worker_processes.run(("squaring", "numbers"), work, [1, 13], lambda _: None)
    with pytest.raises(BadInput, match="'14' is no number"):
        worker_processes.run(("squaring", "numbers"), work, [14, 1], lambda _: None)


def children(of: int) -> list[int]:
    """The processes that score, of a command."""
    found = [int(pid) for pid in Path(f"/proc/{of}/task/{of}/children").read_text(encoding="ascii").split()]
    return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_all_processes(stop: signal.Signals, tmp_path: Path) -> None:
    file = trace(tmp_path / "usage.parquet", where="or m < 0", order="timestamp_s, pod")
    command = [sys.executable, "-m", "agents", "backtest", str(file), "--jobs", "2"]
    asked = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(found := children(asked.pid)) < 2:
        assert asked.poll() is None, asked.stderr and asked.stderr.read()
        time.sleep(0.005)
    if stop == signal.SIGINT:  # as a terminal does
        os.killpg(asked.pid, stop)
    else:
        os.kill(asked.pid, stop)
    _, error = asked.communicate(timeout=60)
    assert asked.returncode == (-9 if stop == signal.SIGKILL else 128 + stop)
    if stop != signal.SIGKILL:  # then Python itself may complain in a child that is only just starting
        assert "Traceback" not in error
    assert not [pid for pid in found if alive(pid)]


def alive(pid: int) -> bool:
    """Whether a process is there and does something, after a while to end."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True
