import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streams.broker import server

CHILD = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def _keep(throw_away: str, code: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", "-S", str(server._KEEPER), throw_away, sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _child(keeper: "subprocess.Popen[str]") -> psutil.Process:
    assert keeper.stdout is not None
    return psutil.Process(int(keeper.stdout.readline()))


def test_the_child_is_stopped_when_asked_and_the_folder_stays(tmp_path: Path) -> None:
    keeper = _keep(str(tmp_path / "data"), CHILD)
    (tmp_path / "data").mkdir()
    child = _child(keeper)
    keeper.communicate("stop\n", timeout=30)
    assert not child.is_running()
    assert keeper.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "data").exists()


def test_the_child_is_stopped_and_the_folder_deleted_when_nobody_is_left_to_ask(tmp_path: Path) -> None:
    keeper = _keep(str(tmp_path / "data"), CHILD)
    (tmp_path / "data").mkdir()
    child = _child(keeper)
    keeper.communicate(timeout=30)
    assert not child.is_running()
    assert not (tmp_path / "data").exists()


def test_the_code_of_a_child_that_ends_by_itself_is_passed_on(tmp_path: Path) -> None:
    keeper = _keep(str(tmp_path / "data"), "raise SystemExit(7)")
    keeper.wait(30)
    _, said = keeper.communicate()
    assert (keeper.returncode, said) == (7, "")


def test_a_term_of_the_keeper_stops_the_child(tmp_path: Path) -> None:
    keeper = _keep(str(tmp_path / "data"), CHILD)
    child = _child(keeper)
    keeper.send_signal(signal.SIGTERM)
    keeper.wait(30)
    assert not child.is_running()
    keeper.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does this on Linux only")
def test_a_kill_of_the_keeper_kills_even_a_child_that_is_deaf(tmp_path: Path) -> None:
    keeper = _keep(str(tmp_path / "data"), DEAF)
    child = _child(keeper)
    assert keeper.stderr is not None
    assert keeper.stderr.readline() == "deaf\n"
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.communicate()
    until = time.monotonic() + 20
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
