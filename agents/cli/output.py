"""Two ways to speak: data on stdout, everything else on stderr."""

import sys


def data(line: str) -> None:
    """One line of what was asked for."""
    sys.stdout.write(line + "\n")


def note(line: str) -> None:
    """One line about what is going on; never part of the data."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
