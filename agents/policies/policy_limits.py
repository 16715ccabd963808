"""Limits that a policy written as code runs under: CPU time of each call, and where it is tried memory, too.

Where it is tried, the kernel keeps both. A process whose policy takes longer is killed by SIGPROF, whatever the policy does
against it, so only a process that was started to be lost may hold a policy to limits (`run_limited`). Memory is bounded where the
system has /proc. On a worker a thread looks after each call: a policy that does not come back is named, and its worker ends.
"""

import multiprocessing
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar

from agents.logic.vertical.policy_code import PolicyFault
from schemas.units import Bytes, Seconds
from streams.errors import BadInput, UllageError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_STATM = Path("/proc/self/statm")
_LOOK = Seconds(1.0)


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What one call may take; a call judges 1,024 containers at most."""

    cpu: Seconds = Seconds(10.0)
    memory: Bytes = Bytes(1 << 30)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the block to these limits. Raises MemoryError in it; too much CPU time ends the process."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if _STATM.exists():
            # the kernel bounds the whole address space, so what the process has already is added
            used = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + self.memory, hard))
        # SIGPROF's default action ends the process, and a policy may not import signal to change that
        signal.setitimer(signal.ITIMER_PROF, self.cpu)
        try:
            yield
        finally:
            # off first: a signal that comes late would end a process whose call is over
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def limited(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """The same function, each call held to these limits."""

        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self.held():
                return function(*args, **kwargs)

        return call


class PolicyWatch:
    """Looks after calls of policies in a process that goes on: `late` is called from another thread, once, with a sentence."""

    def __init__(self, cpu: Seconds, late: Callable[[str], object], *, look: Seconds = _LOOK) -> None:
        """`cpu`: what one call may take of its thread's time. A thread looks each `look` seconds once a policy was called."""
        self._cpu, self._late, self._look = cpu, late, look
        self._calls: dict[int, tuple[str, Callable[[], float], float]] = {}
        self._watcher: threading.Thread | None = None
        self._lock = threading.Lock()

    def watched(self, reference: str, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """The same function, each call looked after."""

        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            self._begin()
            # of this thread alone, so that a policy does not pay for what others do
            thread, clock = threading.get_ident(), _thread_clock()
            self._calls[thread] = (reference, clock, clock())
            try:
                return function(*args, **kwargs)
            finally:
                del self._calls[thread]

        return call

    def _begin(self) -> None:
        with self._lock:
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._run, name="policy-watch", daemon=True)
                self._watcher.start()

    def _run(self) -> None:
        while True:
            time.sleep(self._look)
            # a copy, since calls begin and end in other threads meanwhile
            for reference, clock, begun in list(self._calls.values()):
                if clock() - begun > self._cpu:
                    self._late(f"one call of the policy '{reference}' took more than {self._cpu:g} s of CPU time")
                    return


def _thread_clock() -> Callable[[], float]:
    """CPU time of this thread in seconds, to be read by any other; real time where the system does not say it."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def spent() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:  # the thread has ended since
            return 0.0

    return spent


IN_FORCE: ContextVar[PolicyLimits | PolicyWatch | None] = ContextVar("limits of policies", default=None)
"""What policies are loaded under; None where nobody looks after them."""


def run_limited(name: str, limits: PolicyLimits, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Run `work` and return its result; it and its arguments can be pickled.

    Raises BadInput that names the policy and what it did.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, limits, work, args, kwargs), daemon=True)
    process.start()
    # with a copy of their end open here, its death would never show as end of file
    theirs.close()
    try:
        message: tuple[str, object] = ours.recv()
    except EOFError:
        process.join()
        raise BadInput(f"the policy '{name}' was ended: {_ending(process.exitcode, limits)}") from None
    finally:
        ours.close()
        # whatever it still does: its answer is here, or will never be
        process.kill()
        process.join()
    kind, value = message
    if kind == "fault":
        raise BadInput(f"the policy '{name}' failed: {value}")
    if kind == "error":
        raise BadInput(str(value))
    return value  # type: ignore[return-value]  # what `work` returned, through a pipe


def _ending(code: int | None, limits: PolicyLimits) -> str:
    if code == -signal.SIGPROF:
        return f"one call took more than {limits.cpu:g} s of CPU time"
    if code is not None and code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _child(
    answer: Connection, limits: PolicyLimits, work: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    # a Ctrl-C goes to the whole group: the parent ends us then, without a traceback of ours
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    IN_FORCE.set(limits)
    try:
        message: tuple[str, object] = ("done", work(*args, **kwargs))
    except PolicyFault as fault:
        message = ("fault", str(fault))
    except MemoryError:
        message = ("fault", f"it asked for more than {limits.memory >> 20} MiB")
    except UllageError as error:
        message = ("error", str(error))
    answer.send(message)
