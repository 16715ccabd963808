"""How a worker ends after a failure: at once and completely, with a log line and an exit code.

A restart recovers from the last good checkpoint.
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
from streams.log.kafka_errors import RIGHTS, missing_right

BROKEN = 70
"""One of our own invariants does not hold (EX_SOFTWARE)."""
UNAVAILABLE = 75
"""The log is unavailable; a restart may help (EX_TEMPFAIL)."""
MISCONFIGURED = 78
"""The settings and the log do not fit together; a restart does not help (EX_CONFIG)."""


def code_of(error: BaseException) -> int:
    """The exit code for this error."""
    if isinstance(error, BadInput):
        return MISCONFIGURED
    return UNAVAILABLE if isinstance(error, KafkaError | LogUnavailable | OSError | TimeoutError) else BROKEN


def end(error: BaseException, *, doing: str, **where: object) -> NoReturn:
    """Write one JSON line with what the worker was doing, where, and what went wrong; then end the process.

    `doing` is a gerund phrase, such as "taking a turn".
    """
    code, refused = code_of(error), missing_right(None, error)
    away = isinstance(error, LogUnavailable | ConnectionError | TimeoutError) or getattr(error, "retriable", False)
    # A trace is for what no operator could have caused; the rest is told by its sentence.
    expected = refused or code == MISCONFIGURED or away
    trace = "" if expected else "".join(traceback.format_exception(error))
    line = {"level": "critical", "event": "worker ended", "doing": doing, **where}
    line |= {"error": f"{refused}; {RIGHTS}" if refused else f"{type(error).__name__}: {error}", "exit": code, "trace": trace}
    sys.stdout.flush()
    os.write(2, json.dumps(line, default=str).encode() + b"\n")  # whole and at once; a buffer would be lost below
    os._exit(code)  # no clean-up: after a broken invariant this memory must not be written anywhere


def no_longer_than(seconds: Seconds, *, doing: str) -> None:
    """End the process after this many seconds if it has not ended by then.

    It is for the last step, when everything that matters is written, so the exit code is 0.
    """

    def over() -> None:
        line = {"level": "warning", "event": "worker ended", "doing": doing, "error": f"not done within {seconds:g} s", "exit": 0}
        os.write(2, json.dumps(line).encode() + b"\n")
        os._exit(0)

    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()


@contextmanager
def guarded(doing: str, **where: object) -> Iterator[None]:
    """End the process when the block raises. Cancellation is not a failure."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # the point: Faust swallows exceptions in some of these places
        end(error, doing=doing, **where)
