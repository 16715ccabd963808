"""The dependencies of a process: whether each answers, why not, and since when; a log line when one goes away or is back.

`DependencyStatus` is one dependency, for code that checks it itself. `DependencyMonitor` checks them all every few seconds in a
thread of its own, so that a process that waits in vain or has nothing to do notices, too.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

import structlog

from schemas.units import Seconds
from streams.errors import BadInput, EdgeError, LogUnavailable

EVERY = Seconds(5.0)
"""Seconds between two looks while all is well."""
AGAIN = Seconds(1.0)
"""Seconds between two looks while something is away."""
Look = Callable[[], object]
"""Asks for a sign of life. Raises EdgeError, LogUnavailable or BadInput when there is none."""
_log = structlog.get_logger("ullage")


class DependencyStatus:
    """Whether a dependency answered at the last check. `clock` counts real seconds."""

    def __init__(self, what: str, *, not_yet: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """`what` names it in lines and reasons; `not_yet` is the reason before the first check."""
        self._what, self._not_yet, self._clock = what, not_yet, clock
        self._away: tuple[str, float] | None = None
        """Why it is away, and since when."""
        self._question: tuple[float, Seconds] | None = None
        """When it was asked what it has not answered yet, and how long that may take."""

    @contextmanager
    def asking(self, *, within: Seconds) -> Iterator[None]:
        """While this block runs it is asked something; it is not seen once that has taken longer than this."""
        self._question = self._clock(), within
        try:
            yield
        finally:
            self._question = None

    @property
    def away(self) -> bool:
        """Whether it failed at the last check."""
        return self._away is not None

    def answered(self, **more: object) -> None:
        """It answers. `more` goes into the line that it is back."""
        # One line for each outage, and not for each check that succeeds.
        away, self._away, self._not_yet = self._away, None, ""
        if away is not None:
            _log.info("back", what=self._what, after_seconds=round(self._clock() - away[1], 1), **more)

    def failed(self, reason: str) -> None:
        """It does not answer."""
        if self._away is None:
            _log.warning("away", what=self._what, reason=reason)
        self._away = reason, self._clock() if self._away is None else self._away[1]

    def reasons(self) -> Sequence[str]:
        """Why it is missing; empty if it answers."""
        # Each read once: another thread may set them at any moment.
        away, question = self._away, self._question
        if away is None and question is not None and self._clock() - question[0] > question[1]:
            return [f"{self._what} has not answered for {self._clock() - question[0]:.0f} s"]
        if away is None:
            return [self._not_yet] if self._not_yet else []
        return [f"{self._what} is away for {self._clock() - away[1]:.0f} s: {away[0]}"]


class HeldBackLines(Protocol):
    """Clients' own log lines, held back until their cause is known."""

    def on_first(self, call: Callable[[], object]) -> None:
        """Set what to call when a line is held back for the first time."""

    def release(self) -> None:
        """All is well: log what was held back."""

    def drop(self) -> int:
        """The lines were about a dependency that is known to be away: drop them, and return how many."""


class DependencyMonitor:
    """Checks dependencies while the block runs."""

    def __init__(self, held_back: HeldBackLines | None = None, *, every: Seconds = EVERY) -> None:
        self._held_back, self._every = held_back, every
        self._looks: list[tuple[DependencyStatus, Look]] = []
        self._servers: list[DependencyStatus] = []
        """Those that clients talk to: while one of them is away, what clients say is about that."""
        self._names: set[str] = set()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._left_out = 0

    def watch(self, what: str, look: Look, *, server: bool = True) -> None:
        """Check this, too, as soon as possible. `what` names it in lines and reasons; `server`: our clients talk to it."""
        if what in self._names:  # parts of one process share what they depend on
            return
        self._names.add(what)
        status = DependencyStatus(what, not_yet=f"{what} was not looked at yet")
        self._looks.append((status, look))
        if server:
            self._servers.append(status)
        self._wake.set()

    def reasons(self) -> list[str]:
        """What is away, why, and for how long."""
        return [reason for status, _ in list(self._looks) for reason in status.reasons()]

    def round(self) -> None:
        """Check everything once."""
        for status, look in list(self._looks):
            try:
                look()
            except (EdgeError, LogUnavailable, BadInput) as error:
                status.failed(str(error))
            else:
                status.answered(**self._dropped(status))
        if self._held_back is None:
            return
        if any(status.away for status in self._servers):
            # A client without a server repeats the same line hundreds of times a minute.
            self._left_out += self._held_back.drop()
        else:
            self._held_back.release()

    def _dropped(self, status: DependencyStatus) -> dict[str, int]:
        """How many clients' lines were dropped, for the line that a dependency is back."""
        if not status.away or self._held_back is None:
            return {}
        left_out, self._left_out = self._left_out + self._held_back.drop(), 0
        return {"lines_left_out": left_out}

    def begin(self) -> None:
        """Check from now on, in a thread that ends with the process."""
        if self._held_back is not None:
            self._held_back.on_first(self._wake.set)
        threading.Thread(target=self._run, name="dependencies", daemon=True).start()

    def __enter__(self) -> Self:
        """Begin."""
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop. A check that is under way ends by itself."""
        self._ended.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.round()
            if any(status.away for status, _ in self._looks):
                self._ended.wait(AGAIN)  # clients' lines meanwhile are no reason to hurry
            else:
                # A client's line wakes it, because that is mostly the first sign of an outage.
                self._wake.wait(self._every)
            self._wake.clear()
