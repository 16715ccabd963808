import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agents.processes.child_processes import ChildDied, ChildProcess, ChildProcesses

SLEEP = "import time; time.sleep(60)"


def child(folder: Path, code: str, *, keep: bool = False) -> ChildProcess:
    return ChildProcess("worker-1", [sys.executable, "-c", code], {"GREETING": "hello"}, folder / "worker-1.log", keep)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[ChildProcesses]:
    all_of_them = ChildProcesses(tmp_path)
    yield all_of_them
    all_of_them.kill()


def add(children: ChildProcesses, code: str, *, keep: bool = False) -> ChildProcess:
    one = child(children.folder, code, keep=keep)
    children.all.append(one)
    one.start()
    return one


def ended(one: ChildProcess) -> None:
    assert one.process is not None
    one.process.wait(timeout=60.0)


def test_a_child_that_ends_early_is_named_with_its_code_and_its_last_words(children: ChildProcesses) -> None:
    one = add(children, "import sys; print('no such topic'); sys.exit(7)")
    ended(one)
    with pytest.raises(ChildDied, match=r"'worker-1' ended with exit code 7; the end of .*worker-1.log:\n    no such topic"):
        children.check()


def test_a_child_that_was_killed_is_named_with_the_signal(children: ChildProcesses) -> None:
    one = add(children, SLEEP)
    one.send(signal.SIGKILL)
    ended(one)
    with pytest.raises(ChildDied, match=r"'worker-1' was killed by SIGKILL.*\n    \(it printed nothing\)"):
        children.check()


def test_a_child_to_be_kept_is_started_again(children: ChildProcesses) -> None:
    one = add(children, SLEEP, keep=True)
    assert one.process is not None
    before = one.process.pid
    one.send(signal.SIGKILL)
    ended(one)
    assert children.check() == ["worker-1"]
    assert one.process.pid != before
    assert one.code is None
    assert children.check() == []


def test_a_child_that_does_not_stay_up_is_given_up_after_five_restarts(children: ChildProcesses) -> None:
    one = add(children, "raise SystemExit(3)", keep=True)
    for _ in range(5):
        ended(one)
        assert children.check() == ["worker-1"]
    ended(one)
    with pytest.raises(ChildDied, match="ended with exit code 3 for the 6th time"):
        children.check()


def test_stop_asks_first_and_a_child_that_obeys_ends_by_itself(children: ChildProcesses) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *a: sys.exit(5)); print('up', flush=True); time.sleep(60)"
    one = add(children, code)
    wait_for(lambda: "up" in one.last_lines())
    children.stop()
    assert one.code == 5


def test_stop_kills_what_does_not_obey_and_its_children_too(children: ChildProcesses) -> None:
    code = (
        "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN)\n"
        f"p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); print(p.pid, flush=True); time.sleep(60)"
    )
    one = add(children, code)
    wait_for(lambda: one.last_lines().strip().isdecimal())
    grandchild = int(one.last_lines().strip())
    children.stop(grace=0.2)
    assert one.code == -signal.SIGKILL
    wait_for(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE)


def test_a_child_sees_its_environment(children: ChildProcesses) -> None:
    one = add(children, "import os; print(os.environ['GREETING'])")
    ended(one)
    assert one.last_lines() == "    hello"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child of its parent's death")
def test_a_process_dies_when_the_one_that_started_it_is_killed() -> None:
    inner = f"from agents.processes import signals; signals.die_with_parent(); print('up', flush=True); {SLEEP}"
    outer = (
        "import os, subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {inner!r}], env={{**os.environ, 'ULLAGE_PARENT': str(os.getpid())}},"
        " stdout=subprocess.PIPE, start_new_session=True)\n"
        "p.stdout.readline(); print(p.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert psutil.pid_exists(pid)
        process.kill()
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_process_whose_parent_is_dead_already_does_not_start() -> None:
    code = "from agents.processes import signals; signals.die_with_parent(); print('lives')"
    environment = {**os.environ, "ULLAGE_PARENT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
