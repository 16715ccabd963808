"""Runs a policy written as code in a process of its own, which an endless or memory-hungry policy may take down.

The process is started afresh, so it shares nothing but its arguments and what it returns. It ends with the process that asked.
"""

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from agents.logic.vertical.policy_code import PolicyFault
from agents.policies import policy_limits
from agents.policies.policy_limits import PolicyLimits
from streams.errors import BadInput, UllageError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def run(name: str, limits: PolicyLimits, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Run `work` and return its result; it and its arguments can be pickled.

    Raises BadInput that names the policy and what it did.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, limits, work, args, kwargs), daemon=True)
    process.start()
    theirs.close()
    try:
        message: tuple[str, object] = ours.recv()
    except EOFError:
        process.join()
        raise BadInput(f"the policy '{name}' was ended: {_ending(process.exitcode, limits)}") from None
    finally:
        ours.close()
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
    policy_limits.IN_FORCE.set(limits)
    try:
        message: tuple[str, object] = ("done", work(*args, **kwargs))
    except PolicyFault as fault:
        message = ("fault", str(fault))
    except MemoryError:
        message = ("fault", f"it asked for more than {limits.memory >> 20} MiB")
    except UllageError as error:
        message = ("error", str(error))
    answer.send(message)
