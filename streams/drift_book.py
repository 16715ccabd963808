"""Of two that keep one object in shape, each would undo the other's work for ever: so ours is done more and more seldom."""

from dataclasses import dataclass, field
from hashlib import blake2b

_AT_ONCE = 3
"""Times that an object is put right at once."""
_FIRST_PAUSE, _LONGEST_PAUSE, _FORGOTTEN = 60.0, 1800.0, 10_800.0
"""Seconds of the pause after these, of the longest one, and until all is forgotten."""


@dataclass(slots=True)
class _Drift:
    """The digest of an object as it was wanted; how often it was put right since, and when that was last."""

    wanted: bytes
    restored: int = 0
    last: float = float("-inf")

    def lately(self, now: float) -> int:
        """How often it was put right, unless that is long ago."""
        return self.restored if now - self.last < _FORGOTTEN else 0


@dataclass(slots=True)
class DriftBook:
    """When objects that others change or delete are put right: a few times at once, then in pauses that double.

    Keys are namespace, name and kind; times are seconds of any one clock. A restart forgets it.
    """

    _drifts: dict[tuple[str, str], dict[str, _Drift]] = field(default_factory=dict)

    def settled(self, key: tuple[str, str, str], wanted: object) -> None:
        """The object is as wanted; what has the same `repr` is the same."""
        digest = _digest(wanted)
        self._drifts.setdefault(key[:2], {}).setdefault(key[2], _Drift(digest)).wanted = digest

    def again(self, key: tuple[str, str, str], wanted: object, now: float) -> float:
        """When to write an object that is not as wanted; at `now` it counts as put right."""
        due = self.due(key, wanted, now)
        if due <= now:
            self.restored(key, wanted, now)
        return due

    def due(self, key: tuple[str, str, str], wanted: object, now: float) -> float:
        """As `again`, but nothing counts: for a write that may be refused."""
        drift = self._restorable(key, wanted)
        if drift is None:
            return now
        restored = drift.lately(now)
        pause = 0.0 if restored < _AT_ONCE else min(_FIRST_PAUSE * 2.0 ** min(restored - _AT_ONCE, 10), _LONGEST_PAUSE)
        return max(drift.last + pause, now)

    def restored(self, key: tuple[str, str, str], wanted: object, now: float) -> None:
        """The object was put right."""
        drift = self._restorable(key, wanted)
        if drift is not None:
            drift.restored, drift.last = drift.lately(now) + 1, now

    def _restorable(self, key: tuple[str, str, str], wanted: object) -> _Drift | None:
        """None where what we want ourselves is new, or was never there."""
        drift = self._drifts.get(key[:2], {}).get(key[2])
        return drift if drift is not None and drift.wanted == _digest(wanted) else None

    def forget(self, namespace: str, name: str) -> None:
        """Nobody wants the objects of this name any more."""
        self._drifts.pop((namespace, name), None)


def _digest(wanted: object) -> bytes:
    # Ten thousand manifests would be most of a consumer's memory.
    return blake2b(repr(wanted).encode(), digest_size=16).digest()
