"""Writes that others undo, or that a server refuses: neither is met for ever at the pace of our looks, and both are told of.

Of two that keep one object in shape each would undo the other's work for ever, so ours is done more and more seldom. What is
refused is asked for in pauses that grow, and the same error is raised in between, so that callers go on reporting it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

import structlog

from schemas.outcomes import OutcomeDetail
from schemas.times import from_ms, rfc3339
from streams.errors import EdgeError, GiveUp, Unreachable

T = TypeVar("T")
_AT_ONCE = 3
"""Times that an object is put right at once."""
_FIRST_PAUSE, _LONGEST_PAUSE, _FORGOTTEN = 60.0, 1800.0, 10_800.0
"""Seconds of the pause after these, of the longest one, and until all is forgotten."""
_PASSING = (OutcomeDetail.MOVED, OutcomeDetail.THROTTLED)
"""Answers that say nothing of what was asked for: it changed meanwhile, or there were too many requests."""
_FIRST_REFUSAL, _LONGEST_REFUSAL = 5.0, 300.0
"""Seconds of the pause after the refusal of an object without which a process does not serve, and of the longest one."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Drift:
    """The digests of an object as it was wanted and as it was left; how often it was put right since, and when that was last."""

    wanted: bytes
    left: bytes = b""
    restored: int = 0
    last: float = float("-inf")
    told: float = 0.0
    """The end of the pause that the log has a warning of."""

    def lately(self, now: float) -> int:
        """How often it was put right, unless that is long ago."""
        return self.restored if now - self.last < _FORGOTTEN else 0


@dataclass(slots=True)
class DriftBook:
    """When objects that others change or delete are put right: a few times at once, then in pauses that double.

    Keys are namespace, name and kind; times are seconds of any one clock. A restart forgets it.
    """

    _drifts: dict[tuple[str, str], dict[str, _Drift]] = field(default_factory=dict)

    def settled(self, key: tuple[str, str, str], wanted: object, there: object = None) -> None:
        """The object is as wanted, and what has the same `repr` is the same. `there`: all of it, where we want only some so."""
        drift = self._drifts.setdefault(key[:2], {}).setdefault(key[2], _Drift(b""))
        drift.wanted, drift.left = digest(wanted), digest(there)

    def again(self, key: tuple[str, str, str], wanted: object, now: float, there: object = None) -> float:
        """When to write an object that is not as wanted; at `now` it counts as put right."""
        due = self.due(key, wanted, now, there)
        if due <= now:
            self.restored(key, wanted, now, there)
        return due

    def due(self, key: tuple[str, str, str], wanted: object, now: float, there: object = None) -> float:
        """As `again`, but nothing counts: for a write that may be refused."""
        drift = self._undone(key, wanted, there)
        return now if drift is None else max(drift.last + pause_after(drift.lately(now)), now)

    def restored(self, key: tuple[str, str, str], wanted: object, now: float, there: object = None) -> None:
        """The object was put right."""
        drift = self._undone(key, wanted, there)
        if drift is not None:
            drift.restored, drift.last = drift.lately(now) + 1, now

    def _undone(self, key: tuple[str, str, str], wanted: object, there: object) -> _Drift | None:
        """None where what we want ourselves is new, or was never there, or nobody else has touched what we left."""
        drift = self._drifts.get(key[:2], {}).get(key[2])
        if drift is None or drift.wanted != digest(wanted) or (there is not None and drift.left == digest(there)):
            return None
        return drift

    def warn(self, key: tuple[str, str, str], again: float, writer: str) -> None:
        """Tell the log, once in each pause, that an object is left until `again` as `writer` made it."""
        drift = self._drifts[key[:2]][key[2]]
        if drift.told != again:
            drift.told = again
            name, until = "/".join(key[:2]).lstrip("/"), rfc3339(from_ms(int(again) * 1000))
            _log.warning("somebody else keeps changing an object", object=name, what=key[2], writer=writer, until=until)

    def forget(self, namespace: str, name: str) -> None:
        """Nobody wants the objects of this name any more."""
        self._drifts.pop((namespace, name), None)


def pause_after(times: int) -> float:
    """Seconds until what was done in vain so many times is done again."""
    return 0.0 if times < _AT_ONCE else min(_FIRST_PAUSE * 2.0 ** min(times - _AT_ONCE, 10), _LONGEST_PAUSE)


def digest(wanted: object) -> bytes:
    """The same for what has the same `repr`."""
    # Ten thousand manifests would be most of a consumer's memory.
    return blake2b(repr(wanted).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The answer, the digest of what was wanted, how often it was refused, and when it is asked for again."""

    answer: GiveUp
    wanted: bytes
    times: int
    again: float


@dataclass(slots=True)
class RefusalBook:
    """The refused writes, by namespace and name of the object and by what was written. A restart forgets them."""

    _refusals: dict[tuple[str, str, str], _Refusal] = field(default_factory=dict)

    def ask(self, key: tuple[str, str, str], wanted: object, now: float, write: Callable[[], T]) -> T:
        """What `write` gives. If it refuses the same `wanted` again and again, pauses between raise the same without asking."""
        before, wish = self._refusals.get(key), digest(wanted)
        same = before if before is not None and before.wanted == wish else None
        if same is not None and now < same.again:
            raise _copy(same.answer)
        try:
            written = write()
        except EdgeError as error:
            if not isinstance(error, Unreachable) and error.detail not in _PASSING:
                times = 0 if same is None else same.times + 1
                self._refusals[key] = _Refusal(_copy(error), wish, times, now + pause_after(times))
                if before is None or str(before.answer) != str(error):
                    _log.warning("a write was refused", object="/".join(key[:2]).lstrip("/"), what=key[2], error=str(error))
            raise
        if self._refusals.pop(key, None) is not None:
            _log.info("a refused write was accepted", object="/".join(key[:2]).lstrip("/"), what=key[2])
        return written

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        for key in [key for key in list(self._refusals) if key[:2] == (namespace, name)]:
            self._refusals.pop(key, None)


def _copy(error: EdgeError) -> GiveUp:
    # An error that was raised keeps all objects of its pass in memory.
    return GiveUp(doing=error.doing, to=error.to, answer=error.answer, detail=error.detail)


class KeptObject:
    """One object of ours, such as a registration. `kind` and `name` are for people; `clock` counts real seconds."""

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
            self._pause = min(max(2.0 * self._pause, _FIRST_REFUSAL), _LONGEST_REFUSAL)
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
