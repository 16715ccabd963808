"""What an API server refuses is asked for more and more seldom, and the log tells when its answer is another one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from schemas.outcomes import OutcomeDetail
from streams import drift_book
from streams.errors import EdgeError, GiveUp, Unreachable

T = TypeVar("T")
_PASSING = (OutcomeDetail.MOVED, OutcomeDetail.THROTTLED)
"""Answers that say nothing of what was asked for: it changed meanwhile, or there were too many requests."""
_log = structlog.get_logger(__name__)


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
        before, digest = self._refusals.get(key), drift_book.digest(wanted)
        same = before if before is not None and before.wanted == digest else None
        if same is not None and now < same.again:
            raise _copy(same.answer)
        try:
            written = write()
        except EdgeError as error:
            if not isinstance(error, Unreachable) and error.detail not in _PASSING:
                times = 0 if same is None else same.times + 1
                self._refusals[key] = _Refusal(_copy(error), digest, times, now + drift_book.pause_after(times))
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
