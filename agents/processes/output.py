"""Two ways to speak: data on stdout, everything else on stderr."""

import sys


def data(line: str, *, now: bool = False) -> None:
    """One line of what was asked for. `now`: who reads it waits for it, so it must not lie in a buffer."""
    sys.stdout.write(line + "\n")
    if now:
        sys.stdout.flush()


def note(line: str) -> None:
    """One line about what is going on; never part of the data."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
