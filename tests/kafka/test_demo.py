"""`ullage demo` on a real Kafka: stopped, killed or with a trace, it leaves nothing running. `test_first_minutes` lets it end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from schemas.facts.usage import MetricsScraped
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.file_log import FileLog
from streams.log_range import read_range
from streams.topics import Topics

STARTED = "starting the shop"
ROOT = Path(__file__).parents[2]


def demo(folder: Path, *flags: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMO_MARK": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "agents", "demo", "--log", "kafka", *flags],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Processes that carry the demo's mark in their environment, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DEMO_MARK") == str(folder):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"the demo ended before it said '{text}'")


STOPS = [
    pytest.param(signal.SIGINT, 3.0),
    pytest.param(signal.SIGTERM, 0.5, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("number", "seconds"), STOPS)
def test_a_demo_that_is_stopped_midway_leaves_no_process(tmp_path: Path, number: signal.Signals, seconds: float) -> None:
    process = demo(tmp_path, "--seconds", "60")
    wait_for_line(process, STARTED)
    time.sleep(seconds)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert "the logs of what ran are in" in said
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_a_demo_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "60")
    wait_for_line(process, STARTED)
    time.sleep(3)
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 60
    while left_behind(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_a_recorded_trace_is_played_through_kafka_and_what_is_kept_verifies(tmp_path: Path) -> None:
    trace = tmp_path / "usage.csv"
    rows = [f"c{i % 4},{300 * (i // 4 + 1)},{0.1 + i % 7 / 10},{(100 + i % 11) << 20}" for i in range(4 * 48)]
    trace.write_text("\n".join(["container_id,timestamp_s,cpu_cores,memory_bytes", *rows]))
    plays(tmp_path, trace, seconds=3)
    assert played_samples(tmp_path) == 4 * 48


def plays(folder: Path, trace: Path, *, seconds: int) -> None:
    process = demo(folder, "--trace", str(trace), "--seconds", str(seconds))
    said, _ = process.communicate(timeout=180)
    assert process.returncode == 0, said
    assert "the whole trace, on average" in said
    assert "what to try next" in said
    assert left_behind(folder) == []
    verifies(folder)


def verifies(folder: Path) -> None:
    verify = [sys.executable, "-m", "agents", "replay", "--verify", "--config", ".run/demo/ullage.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    verified = subprocess.run(verify, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "every decision is as published" in verified.stdout


def played_samples(folder: Path) -> int:
    """Rows of all scrapes in the kept log."""
    topics = Topics("ullage", 2)
    codec = Codec(topics)
    with FileLog(folder / ".run/demo/log.jsonl") as log:
        records = [r for r in read_range(log, [topics.wire("pod-metrics")]) if not is_of_a_clock(r)]
    events = [codec.decode(record) for record in records]
    return sum(len(event.pods) for event in events if isinstance(event, MetricsScraped))
