"""Of two that keep one object in shape, each would undo the other's work for ever: so ours is done more and more seldom."""

from dataclasses import dataclass, field
from hashlib import blake2b

import structlog

from schemas.times import from_ms, rfc3339

_AT_ONCE = 3
"""Times that an object is put right at once."""
_FIRST_PAUSE, _LONGEST_PAUSE, _FORGOTTEN = 60.0, 1800.0, 10_800.0
"""Seconds of the pause after these, of the longest one, and until all is forgotten."""
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
