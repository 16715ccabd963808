"""Shows the day while it runs: a live view on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment

from agents.demo.day_screen import ScreenFrame, draw, plain
from agents.demo.day_state import DayState
from agents.terminal.terminal_escaping import visible

_LIVE_EVERY = 0.25
_PLAIN_EVERY = 4.0


class ProgressDisplay:
    """A context manager that is open while the day runs. With `live` False, or without a terminal, it prints plain lines."""

    def __init__(self, console: Console, *, live: bool = True) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=False) if live and console.is_terminal else None
        self._next = 0.0
        self._last = ""

    def __enter__(self) -> Self:
        """Begin."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End; the last view stays on the screen."""
        if self._live is not None:
            self._live.stop()

    def update(self, state: DayState, story: ScreenFrame, *, last: bool = False) -> None:
        """Show this, unless something was shown a moment ago; `last` is always shown."""
        now = time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + (_PLAIN_EVERY if self._live is None else _LIVE_EVERY)
        if self._live is None:
            self._print(plain(state, story))
        else:
            self._live.update(draw(state, story, height=self.console.height), refresh=True)

    def _print(self, line: str) -> None:
        if line != self._last:
            self.console.print(line, soft_wrap=True, highlight=False)
        self._last = line


def console() -> Console:
    """The console of the demo: stdout, because the view is the output of the command."""
    return _VisibleConsole(file=sys.stdout)


class _VisibleConsole(Console):
    """Escapes what a terminal would obey in the texts that it is given, but not its own colours and movements."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Rich does, with the texts of segments made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
