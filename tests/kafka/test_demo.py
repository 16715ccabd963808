"""`ullage demo` as a user starts it, on a real Kafka: it ends by itself, or by Ctrl-C, and nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

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


def test_the_demo_ends_by_itself_with_a_summary_and_leaves_no_process(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "20")
    said, _ = process.communicate(timeout=110)
    assert process.returncode == 0, said
    assert "containers OOM-killed" in said
    assert "why updater/" in said
    assert "what to try next" in said
    assert left_behind(tmp_path) == []
    verify = [sys.executable, "-m", "agents", "replay", "--verify", "--config", ".run/demo/ullage.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    verified = subprocess.run(verify, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert verified.returncode == 0, verified.stdout
    assert "every decision is as published" in verified.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.5, 6.0])
def test_a_demo_that_is_stopped_midway_leaves_no_process(tmp_path: Path, number: signal.Signals, seconds: float) -> None:
    process = demo(tmp_path, "--seconds", "60")
    wait_for_line(process, STARTED)
    time.sleep(seconds)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert "the logs of what ran are in" in said
    assert left_behind(tmp_path) == []


def test_a_demo_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "60")
    wait_for_line(process, STARTED)
    time.sleep(3)
    process.kill()
    process.communicate(timeout=30)
    until = time.monotonic() + 30
    while left_behind(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert left_behind(tmp_path) == []
