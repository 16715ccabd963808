"""Runs the same work on several arguments at once, each in a process of its own, and gives what they return.

A process is started afresh, so it shares nothing but its argument, its progress, and its result. All of them end with the parent
process, with the first of them that fails, and, silently, on a signal.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from agents.run import python_gc
from streams.errors import BadInput, GiveUp, UllageError

_A = TypeVar("_A")
_R = TypeVar("_R")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Report = Callable[[int], None]
"""Says how much of its work a process has done."""


def cores() -> int:
    """How many processes can run at once here."""
    # what this process may use: in a container or under taskset that is less than the machine has
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    what: tuple[str, str], work: Callable[[Report, _A], _R], arguments: Sequence[_A], show: Callable[[int], object]
) -> list[_R]:
    """What `work` returns for each argument, in their order; `show` is told how much they have done together.

    `work`, the arguments and what is returned can be pickled. `what` is being done, to what, for errors. Raises BadInput as
    `work` does, and GiveUp for its other errors of ours and when a process ends by itself.
    """
    processes: list[_Process] = []
    try:
        with _signals_kept():
            for number, argument in enumerate(arguments, 1):
                processes.append(_Process.start(f"{number} of {len(arguments)}", work, argument))
        return _answers(what, processes, show)
    finally:
        for process in processes:
            process.end()


@dataclass(slots=True)
class _Process:
    name: str
    process: SpawnProcess
    pipe: Connection
    done: int = 0

    @classmethod
    def start(cls, name: str, work: Callable[[Report, Any], object], argument: object) -> "_Process":
        # spawn and not fork: a fork of a process with threads may inherit a lock that nobody releases
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(theirs, work, argument), daemon=True)
        process.start()
        # with a copy of their end open here, the death of a process would never show as end of file
        theirs.close()
        return cls(name, process, ours)

    def end(self) -> None:
        self.pipe.close()
        # killed at once: it has nothing to clean up, and its result is wanted no more
        self.process.kill()
        self.process.join()

    def ending(self) -> str:
        """How it ended, if it reported nothing."""
        self.process.join()
        code = self.process.exitcode or 0
        return f"process {self.name} " + (f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}")


def _answers(what: tuple[str, str], processes: Sequence[_Process], show: Callable[[int], object]) -> list[Any]:
    doing, to = what
    waiting: dict[object, _Process] = {process.pipe: process for process in processes}
    results: dict[str, object] = {}
    while waiting:
        for pipe in connection.wait([process.pipe for process in waiting.values()]):
            process = waiting[pipe]
            try:
                kind, value = process.pipe.recv()
            except (EOFError, ConnectionResetError):
                raise GiveUp(doing=doing, to=to, answer=process.ending()) from None
            if kind == "usage":
                raise BadInput(value)
            if kind == "failed":
                raise GiveUp(doing=doing, to=to, answer=value)
            if kind == "at":
                process.done = value
                show(sum(other.done for other in processes))
            else:
                results[process.name] = value
                del waiting[pipe]
    return [results[process.name] for process in processes]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Signals come after this block, and never to what is started in it: a terminal sends Ctrl-C to all processes."""
    resource_tracker.ensure_running()  # it lets signals through when it starts
    signals: list[int] = []
    handlers = {number: signal.signal(number, lambda received, _: signals.append(received)) for number in _SIGNALS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # of this thread, which is what a new process takes over
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for first in signals[:1]:
            signal.raise_signal(first)


def _child(pipe: Connection, work: Callable[[Report, Any], object], argument: object) -> None:
    python_gc.relax()

    def report(done: int) -> None:
        pipe.send(("at", done))

    try:
        message: tuple[str, object] = ("done", work(report, argument))
    except BadInput as error:
        message = ("usage", str(error))
    except UllageError as error:
        message = ("failed", str(error))
    except BrokenPipeError:  # the parent is gone
        return
    pipe.send(message)
