"""One object of ours, such as a registration, that others may keep changing, and that a server may refuse to take.

Neither is met for ever at the pace of our looks. What others undo is put right more and more seldom, and a warning says that it
is left so. What is refused is tried in pauses that double; the refusal is raised in between, so that callers go on reporting it.
"""

import time
from collections.abc import Callable

import structlog

from streams.drift_book import DriftBook
from streams.errors import EdgeError, Unreachable

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds of the pause after a refusal, and of the longest one."""
_log = structlog.get_logger(__name__)


class KeptObject:
    """`kind` and `name` are for people; `clock` counts real seconds."""

    def __init__(self, kind: str, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._key, self._clock = ("", name, kind), clock
        self._drifts, self._wanted, self._contended = DriftBook(), object(), ""
        self._refusal: EdgeError | OSError | None = None
        self._pause, self._tried = 0.0, float("-inf")

    def settled(self, wanted: object) -> None:
        """The object is as wanted."""
        if wanted != self._wanted:
            # Ours is new, as after a renewal: what others did to the old one says nothing of what they will do to this one.
            self._drifts, self._wanted = DriftBook(), wanted
        self._drifts.settled(self._key, wanted)
        self._refusal, self._pause = None, 0.0

    def write(self, wanted: object, what: str, write: Callable[[], object]) -> bool:
        """Write it as wanted; False where it stays as it is for now, as somebody else keeps changing it. Raises as `write`.

        `wanted` has only what we want ourselves, for what is merged with things of others changes as they do. `what` is the
        difference, for people.
        """
        now = self._clock()
        if self._refusal is not None and now < self._tried + self._pause:
            raise self._refusal.with_traceback(None)  # else the traceback grows with each raise
        if self._drifts.due(self._key, wanted, now) > now:
            self._warn(what)
            return False
        try:
            write()
        except Unreachable:  # nobody has refused anything
            raise
        except (EdgeError, OSError) as error:
            self._refusal, self._tried = error, now
            self._pause = min(max(2.0 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            raise
        self._drifts.restored(self._key, wanted, now)
        self.settled(wanted)
        self._contended = ""
        return True

    def _warn(self, what: str) -> None:
        if what != self._contended:
            self._contended = what
            _, name, kind = self._key
            _log.warning("somebody else keeps changing an object of ours", kind=kind, name=name, what=what)
