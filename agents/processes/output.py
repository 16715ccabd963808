"""The two outputs of a command: data goes to stdout, everything else to stderr. Both escape what a terminal would obey."""

import sys

from agents.terminal_escaping import visible, visible_line


def data(line: str, *, now: bool = False) -> None:
    """Print one line of what the user asked for. `now` flushes it at once, for readers that wait for it."""
    sys.stdout.write(visible_line(line) + "\n")
    if now:
        sys.stdout.flush()


def note(line: str) -> None:
    """Print a sentence about what is going on, or several lines; never part of the data."""
    sys.stderr.write(visible(line) + "\n")
    sys.stderr.flush()
