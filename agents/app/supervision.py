"""How a worker dies: at once, aloud, with a code. Never silently, never half.

A broken invariant means that memory is not to be trusted, so nothing may be written any more: the process ends without any
clean-up, and a restart recovers from the last good checkpoint. Refuses to carry on after anything unexpected.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from aiokafka.errors import KafkaError

from schemas.units import Seconds
from streams.errors import BadInput, LogUnavailable

BROKEN = 70
"""A rule of ours does not hold (EX_SOFTWARE)."""
UNAVAILABLE = 75
"""The log does not answer as it should; a restart may help (EX_TEMPFAIL)."""
MISCONFIGURED = 78
"""Settings and log do not fit together; a restart does not help (EX_CONFIG)."""


def code_of(error: BaseException) -> int:
    """The exit code for this error."""
    if isinstance(error, BadInput):
        return MISCONFIGURED
    return UNAVAILABLE if isinstance(error, KafkaError | LogUnavailable | OSError | TimeoutError) else BROKEN


def end(error: BaseException, *, doing: str, **where: object) -> NoReturn:
    """Say on one JSON line what was being done, where, and what went wrong; then end the process."""
    code = code_of(error)
    trace = "" if code == MISCONFIGURED else "".join(traceback.format_exception(error))
    line = {"level": "critical", "event": "worker ended", "doing": doing, **where}
    line |= {"error": f"{type(error).__name__}: {error}", "exit": code, "trace": trace}
    sys.stdout.flush()
    os.write(2, json.dumps(line, default=str).encode() + b"\n")
    os._exit(code)


def no_longer_than(seconds: Seconds, *, doing: str) -> None:
    """End the process in so many seconds if it is still there. For its last step, when all that counts is written: code 0."""

    def over() -> None:
        line = {"level": "warning", "event": "worker ended", "doing": doing, "error": f"not done within {seconds:g} s", "exit": 0}
        os.write(2, json.dumps(line).encode() + b"\n")
        os._exit(0)

    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()


@contextmanager
def guarded(doing: str, **where: object) -> Iterator[None]:
    """Whatever fails inside ends the process. Being cancelled is not a failure."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # the point: Faust swallows exceptions in some of these places
        end(error, doing=doing, **where)
