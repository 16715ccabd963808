import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streams.broker import broker_process

CHILD = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def _keep(throw_away: str, code: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", "-S", str(broker_process._WATCHDOG), throw_away, sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _child(watchdog: "subprocess.Popen[str]") -> psutil.Process:
    assert watchdog.stdout is not None
    return psutil.Process(int(watchdog.stdout.readline()))


def test_the_child_is_stopped_when_asked_and_the_folder_stays(tmp_path: Path) -> None:
    watchdog = _keep(str(tmp_path / "data"), CHILD)
    (tmp_path / "data").mkdir()
    child = _child(watchdog)
    watchdog.communicate("stop\n", timeout=60)
    assert not child.is_running()
    assert watchdog.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "data").exists()


def test_the_child_is_stopped_and_the_folder_deleted_when_nobody_is_left_to_ask(tmp_path: Path) -> None:
    watchdog = _keep(str(tmp_path / "data"), CHILD)
    (tmp_path / "data").mkdir()
    child = _child(watchdog)
    watchdog.communicate(timeout=60)
    assert not child.is_running()
    assert not (tmp_path / "data").exists()


def test_the_code_of_a_child_that_ends_by_itself_is_passed_on(tmp_path: Path) -> None:
    watchdog = _keep(str(tmp_path / "data"), "raise SystemExit(7)")
    watchdog.wait(60.0)
    _, said = watchdog.communicate()
    assert (watchdog.returncode, said) == (7, "")


def test_a_term_of_the_keeper_stops_the_child(tmp_path: Path) -> None:
    watchdog = _keep(str(tmp_path / "data"), CHILD)
    child = _child(watchdog)
    watchdog.send_signal(signal.SIGTERM)
    watchdog.wait(60.0)
    assert not child.is_running()
    watchdog.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does this on Linux only")
def test_a_kill_of_the_keeper_kills_even_a_child_that_is_deaf(tmp_path: Path) -> None:
    watchdog = _keep(str(tmp_path / "data"), DEAF)
    child = _child(watchdog)
    assert watchdog.stderr is not None
    assert watchdog.stderr.readline() == "deaf\n"
    os.kill(watchdog.pid, signal.SIGKILL)
    watchdog.communicate()
    until = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
