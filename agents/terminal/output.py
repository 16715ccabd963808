"""The two outputs of a command: data goes to stdout, everything else to stderr. Both escape what a terminal would obey.

Data is printed as it is, for programs and because tables fit already; sentences break between words where the terminal ends.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

from agents.terminal import line_fitting
from agents.terminal.line_fitting import ColouredLine
from agents.terminal.terminal_escaping import visible_line


def data(line: str, *, now: bool = False) -> None:
    """Print one line of what the user asked for. `now` flushes it at once, for readers that wait for it."""
    sys.stdout.write((line if isinstance(line, ColouredLine) else visible_line(line)) + "\n")
    if now:
        sys.stdout.flush()


def sentence(line: str) -> None:
    """Print one line of what the user asked for, in words."""
    for part in line_fitting.wrapped(line, line_fitting.room(sys.stdout)):
        data(part)


def note(line: str) -> None:
    """Print a sentence about what is going on, or several lines; never part of the data."""
    room = line_fitting.room(sys.stderr)
    for row in line.split("\n"):
        sys.stderr.writelines(f"{part}\n" for part in line_fitting.wrapped(row, room))
    sys.stderr.flush()


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
        """Show the progress, if it is time for an update."""
        now = self.now()
        # in a file or a pipe each update would be a line of its own
        if not self.out.isatty() or now - self._shown < _EVERY or not done:
            return
        self._shown = now
        left = (now - self._began) * max(self.of - done, 0) / done
        share = done / max(self.of, 1)
        self.out.write(f"{_WIPE}{done:,} of {self.of:,} {self.what} ({share:.0%}), about {_duration(left)} left")
        self.out.flush()

    def end(self) -> None:
        """Remove the line."""
        if self.out.isatty():
            self.out.write(_WIPE)
            self.out.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
