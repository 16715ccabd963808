"""A line on a terminal that says how far a long command is and how long it will take yet; nothing where nobody looks."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

_EVERY = 0.5
"""Seconds between two lines."""
_WIPE = "\r\x1b[K"


@dataclass(slots=True)
class ProgressLine:
    """Progress through `of` things, which `what` names. `now` is a clock in seconds."""

    of: int
    what: str
    out: TextIO = field(default_factory=lambda: sys.stderr)
    now: Callable[[], float] = monotonic
    _began: float = field(init=False)
    _shown: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self._began = self._shown = self.now()

    def show(self, done: int) -> None:
        """Say how far it is, if it is time to say so again."""
        now = self.now()
        if not self.out.isatty() or now - self._shown < _EVERY or not done:
            return
        self._shown = now
        left = (now - self._began) * max(self.of - done, 0) / done
        share = done / max(self.of, 1)
        self.out.write(f"{_WIPE}{done:,} of {self.of:,} {self.what} ({share:.0%}), about {_duration(left)} left")
        self.out.flush()

    def end(self) -> None:
        """Take the line away."""
        if self.out.isatty():
            self.out.write(_WIPE)
            self.out.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
