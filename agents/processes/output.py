"""The two outputs of a command: data goes to stdout, everything else to stderr."""

import sys


def data(line: str, *, now: bool = False) -> None:
    """Print one line of what the user asked for. `now` flushes it at once, for readers that wait for it."""
    sys.stdout.write(line + "\n")
    if now:
        sys.stdout.flush()


def note(line: str) -> None:
    """Print one line about what is going on; never part of the data."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
