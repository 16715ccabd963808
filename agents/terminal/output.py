"""The two outputs of a command: data goes to stdout, everything else to stderr. Both escape what a terminal would obey.

Data is printed as it is, for programs and because tables fit already. Sentences break between words where the terminal ends, and
go on as deep as they began. Where no terminal is, as in a pipe, a line may be as long as it likes, so that `grep` finds all of
it. `COLUMNS` comes first.

Names, reasons and messages come from tenants, clusters and logs. An escape sequence in one of them could clear the screen, set
the title or repaint a line; a direction mark could make a text read as another. The escapes are JSON's, so JSON stays valid.
"""

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

_LINE_BREAK = "\n"
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of ASCII and Latin-1, except tab and line break
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # direction marks, zero-width characters, and other line ends
    "\ud800-\udfff]"  # lone surrogates, which no output takes
)


def visible(text: str) -> str:
    """The text with everything escaped that a terminal would obey; line breaks and tabs stay."""
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def visible_line(text: str) -> str:
    """As `visible`, and on one line: a line break in a name must not look like a line of ours."""
    return visible(text).replace(_LINE_BREAK, "\\n")


_FEWEST = 40
"""Columns of the narrowest terminal that text is fitted to: below that there is more breaking than text."""
RED, YELLOW = "\x1b[31m", "\x1b[33m"
_PLAIN = "\x1b[0m"
_INDENT = re.compile(r"[\s│├└─]*(?:[-*] )?")
_GOES_ON = str.maketrans("├└─-*", "│    ")
"""What stands under the branches of a tree, and under the mark of an item, where their text goes on."""


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

    Further lines are indented by `hanging`, or a little deeper than the first, with the branches of a tree going on.
    """
    line = visible_line(line)
    if len(line) <= room:
        yield line
        return
    indent = _INDENT.match(line)[0]  # type: ignore[index]  # the pattern matches every text, an empty one, too
    begin = indent.translate(_GOES_ON) + "  " if hanging is None else " " * hanging
    yield from textwrap.wrap(line, room, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False) or [line]


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, without its middle."""
    if len(text) <= width:
        return text
    # names in Kubernetes end in what tells them apart, such as a pod's suffix, so the end gets two thirds
    begin = width // 3
    return f"{text[:begin]}…{text[len(text) - (width - begin - 1) :]}"


def data(line: str, *, now: bool = False) -> None:
    """Print one line of what the user asked for. `now` flushes it at once, for readers that wait for it."""
    sys.stdout.write((line if isinstance(line, ColouredLine) else visible_line(line)) + "\n")
    if now:
        sys.stdout.flush()


def sentence(line: str) -> None:
    """Print one line of what the user asked for, in words."""
    for part in wrapped(line, room(sys.stdout)):
        data(part)


def note(line: str) -> None:
    """Print a sentence about what is going on, or several lines; never part of the data."""
    columns = room(sys.stderr)
    for row in line.split("\n"):
        sys.stderr.writelines(f"{part}\n" for part in wrapped(row, columns))
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
