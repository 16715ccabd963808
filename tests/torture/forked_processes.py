"""Processes that are forked from a server which has imported what they need.

They are processes like any other, and live and die alone. But they are at work in a tenth of a second, where a new interpreter
imports for three seconds of CPU time: on a busy machine workers that are killed every few seconds would do nothing else.
"""

import json
import multiprocessing
import os
import random
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.torture.processes import ROOT

IMPORTED = (
    "tests.torture.faulty_worker",
    "tests.torture.faulty_consumer",
    "tests.torture.faulty_clock",
    "tests.torture.faulty_nodes",
    "tests.torture.faulty_replicas",
)
_FORKS: ForkServerContext = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(list(IMPORTED))


def _at_the_root() -> None:
    os.chdir(ROOT)


class ForkedProcess:
    """One `python -m module told`, with the words of `subprocess.Popen`. `enter` is called in it before all else."""

    def __init__(
        self,
        module: str,
        told: dict[str, object] | Sequence[str],
        log: Path,
        enter: Callable[[], None] = _at_the_root,
    ) -> None:
        words = [json.dumps(told)] if isinstance(told, dict) else [*told]
        self._process = _FORKS.Process(target=_become, args=(module, words, str(log), enter))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing for a process that is gone: the server reaps it a moment before its exit code is known here."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code


def _become(module: str, words: list[str], log: str, enter: Callable[[], None]) -> None:
    """What a new interpreter would do."""
    output, nothing = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    enter()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    sys.argv = [module, *words]
    sys.modules.pop(module, None)  # it is run as a program, with chances of its own
    runpy.run_module(module, run_name="__main__", alter_sys=True)
