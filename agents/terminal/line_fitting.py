"""How text fits a terminal: lines break between words and go on as deep as they began, and a long name loses its middle.

Where no terminal is, as in a pipe, a line may be as long as it likes, so that `grep` finds all of it. `COLUMNS` comes first.
"""

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import TextIO

from agents.terminal.terminal_escaping import visible_line

_FEWEST = 40
"""Columns of the narrowest terminal that text is fitted to: below that there is more breaking than text."""
RED, YELLOW = "\x1b[31m", "\x1b[33m"
_PLAIN = "\x1b[0m"
_INDENT = re.compile(r"\s*(?:[-*] )?")


class ColouredLine(str):
    """A line with colours of ours, in which everything else that a terminal would obey is escaped."""

    __slots__ = ()


def coloured(line: str, begin: int, end: int, colour: str) -> ColouredLine:
    """An escaped line with a stretch in a colour."""
    return ColouredLine(f"{line[:begin]}{colour}{line[begin:end]}{_PLAIN}{line[end:]}")


def takes_colours(out: TextIO) -> bool:
    """Whether this output shows colours and nobody said no: https://no-color.org."""
    # an empty NO_COLOR counts as none, as that page has it
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def room(out: TextIO) -> int:
    """The characters of a line of this output."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting) > 0:
        return max(_FEWEST, int(setting))
    try:
        columns = os.get_terminal_size(out.fileno()).columns if out.isatty() else 0
    except (OSError, ValueError):  # no terminal after all, or one that does not know its size
        columns = 0
    return max(_FEWEST, columns) if columns else sys.maxsize


def wrapped(line: str, room: int, *, hanging: int | None = None) -> Iterator[str]:
    """The line in parts of at most `room` characters. A word that is longer stays whole, for somebody will copy it.

    Further lines are indented by `hanging`, or a little deeper than the first.
    """
    line = visible_line(line)
    if len(line) <= room:
        yield line
        return
    if hanging is None:
        hanging = len(_INDENT.match(line)[0]) + 2  # type: ignore[index]  # the pattern matches every text, an empty one, too
    yield from textwrap.wrap(line, room, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False) or [
        line
    ]


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, without its middle."""
    if len(text) <= width:
        return text
    # names in Kubernetes end in what tells them apart, such as a pod's suffix, so the end gets two thirds
    begin = width // 3
    return f"{text[:begin]}…{text[len(text) - (width - begin - 1) :]}"
