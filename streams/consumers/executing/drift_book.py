"""Of two that keep one object in shape, each would undo the other's work for ever: so ours is done more and more seldom."""

from dataclasses import dataclass, field

_AT_ONCE = 3
"""Times that an object is put right at once."""
_FIRST_PAUSE, _LONGEST_PAUSE, _FORGOTTEN = 60.0, 1800.0, 10_800.0
"""Seconds of the pause after these, of the longest one, and until all is forgotten."""


@dataclass(slots=True)
class _Drift:
    """An object that was as `wanted`; how often it was put right since, and when that was last."""

    wanted: object
    restored: int = 0
    last: float = float("-inf")


@dataclass(slots=True)
class DriftBook:
    """When objects that others change or delete are put right: a few times at once, then in pauses that double.

    Keys are namespace, name and kind; times are seconds of any one clock. A restart forgets it.
    """

    _drifts: dict[tuple[str, str, str], _Drift] = field(default_factory=dict)

    def settled(self, key: tuple[str, str, str], wanted: object) -> None:
        """The object is as wanted."""
        self._drifts.setdefault(key, _Drift(wanted)).wanted = wanted

    def again(self, key: tuple[str, str, str], wanted: object, now: float) -> float:
        """When to write an object that is not as wanted; at `now` it counts as put right."""
        drift = self._drifts.get(key)
        # What we want ourselves is new, or was never there.
        if drift is None or drift.wanted != wanted:
            return now
        restored = drift.restored if now - drift.last < _FORGOTTEN else 0
        pause = 0.0 if restored < _AT_ONCE else min(_FIRST_PAUSE * 2.0 ** min(restored - _AT_ONCE, 10), _LONGEST_PAUSE)
        if drift.last + pause > now:
            return drift.last + pause
        drift.restored, drift.last = restored + 1, now
        return now

    def forget(self, namespace: str, name: str) -> None:
        """Nobody wants the objects of this name any more."""
        self._drifts = {key: drift for key, drift in self._drifts.items() if key[:2] != (namespace, name)}
