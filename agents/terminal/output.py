"""The two outputs of a command: data goes to stdout, everything else to stderr. Both escape what a terminal would obey.

Data is printed as it is, for programs and because tables fit already; sentences break between words where the terminal ends.
"""

import sys

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
