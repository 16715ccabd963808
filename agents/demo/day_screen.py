"""The view of the demo while it runs: live on a terminal, a plain line every few seconds elsewhere.

It only draws; every number comes from `agents.demo.day_state`.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from agents.demo import event_narration
from agents.demo.day_state import DayState, WorkloadRow
from agents.demo.usage_curve import SLICE_SECONDS, UsageSum
from agents.terminal.output import visible
from schemas.outcomes import Action
from schemas.units import counted

_BARS = " ▁▂▃▄▅▆▇█"
_SLICES = 48
_TOP = 12
_FEWEST = 4
_FRAME = 18
"""Lines of all but workloads and actions: border 2, about 2, day 1, curves 6, nodes 2, table head 2, counts, heading, cursor."""
_SCALED = 3
"""Lines of a workload whose replicas follow a forecast."""


@dataclass(frozen=True, slots=True)
class ScreenFrame:
    """What surrounds the numbers: a title, a sentence for newcomers, how much of the day has passed (0 to 1), and a footer."""

    title: str
    about: str
    progress: float
    footer: str


def draw(state: DayState, story: ScreenFrame, *, height: int = 50) -> RenderableType:
    """The whole view; a low screen shows fewer workloads and actions, so that all parts fit."""
    rows, frame = state.rows(), _FRAME + _SCALED * len(state.replicas.workloads[:1])
    shown = max(_FEWEST, min(_TOP, len(rows), height - frame - _FEWEST - 1))
    # what is left goes to the actions; the line that says how many rows are cut takes one
    room = max(_FEWEST, height - frame - shown - (len(rows) > shown))
    parts = [
        Text(story.about, style="dim"),
        _day(state, story),
        _curves(state),
        _workloads(rows, shown),
        _counts(state),
        _actions(state, min(room, state.actions.maxlen or room)),
    ]
    return Panel(Group(*parts), title=story.title, subtitle=story.footer, box=box.ROUNDED, padding=(0, 1))


def plain(state: DayState, story: ScreenFrame) -> str:
    """One line, for output that is not a terminal."""
    now = state.now
    return (
        f"{story.progress:4.0%}, {_when(state)}: "
        f"{now.cpu.requested:.1f} cores requested, {now.cpu.used:.1f} used; "
        f"{event_narration.memory(now.memory.requested)} memory requested, {event_narration.memory(now.memory.used)} used; "
        f"{_nodes(state)}"
        f"{_scaled(state)}"
        f"{_counted(state)}"
    )


def _nodes(state: DayState) -> str:
    return f"{counted(state.nodes.count(state.at), 'node')}, " if state.nodes else ""


def _scaled(state: DayState) -> str:
    """How many replicas the workloads with forecasts have."""
    counts = {row.workload.key: row.pods for row in state.rows()}
    names = ((key, counts.get(key, 0)) for key in state.replicas.workloads)
    return "".join(f"{key.rpartition('/')[2]} {counted(count, 'replica')}, " for key, count in names)


def bars(values: Sequence[float], top: float) -> str:
    """Values as a row of blocks; `top` fills the height."""
    if top <= 0:
        return ""
    return "".join(_BARS[min(8, max(0, round(8 * v / top)))] for v in values)


def _when(state: DayState) -> str:
    return f"{state.at:%d %b %H:%M}" if state.at else "starting"


def _day(state: DayState, story: ScreenFrame) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        Text("simulated time"),
        Text(_when(state), style="bold"),
        ProgressBar(total=1.0, completed=min(1.0, story.progress), width=_SLICES),
        Text(f"mode {state.mode.value}, {state.pods} pods", style="dim"),
    )
    return grid


def _curves(state: DayState) -> RenderableType:
    day, now = state.curve.averages()[-_SLICES:], state.now
    grid = Table.grid(padding=(0, 2))
    last = day[-1] if day else now
    cores = [f"{amount:.1f}" for amount in (now.cpu.requested, now.cpu.used, last.cpu.recommended)]
    sizes = [event_narration.memory(size) for size in (now.memory.requested, now.memory.used, last.memory.recommended)]
    _curve(grid, "CPU cores", [m.cpu for m in day], cores)
    _curve(grid, "memory", [m.memory for m in day], sizes)
    groups = state.nodes.by_slice(state.at, [SLICE_SECONDS * number for number in sorted(state.curve.slices)[-_SLICES:]])
    top = max((max(counts, default=0.0) for counts in groups.values()), default=0.0)
    for place, (group, counts) in enumerate(groups.items()):
        grid.add_row(
            Text("" if place else "nodes", style="bold"),
            group,
            Text(str(state.nodes.count(state.at, group))),
            Text(bars(counts, top), style="magenta"),
        )
    _replicas(grid, state)
    return grid


def _replicas(grid: Table, state: DayState) -> None:
    """The first workload with forecasts: what it used, what had been forecast for then and the next hour, and its pods."""
    past = sorted(state.curve.slices)[-_SLICES:]
    # half hours, so two more make the hour that is shown ahead
    ahead = [*past, past[-1] + 1, past[-1] + 2] if past else []
    for name, slices in list(state.replicas.by_slice(ahead).items())[:1]:
        used, forecast = [piece.used for piece in slices[: len(past)]], [piece.forecast or 0.0 for piece in slices]
        pods = [piece.pods for piece in slices[: len(past)]]
        top, now = max((*used, *forecast), default=0.0), slices[len(past) - 1]
        for place, (what, value, values, most, style) in enumerate(
            (
                ("used", f"{now.used:.1f}", used, top, "green"),
                ("forecast", "-" if now.forecast is None else f"{now.forecast:.1f}", forecast, top, "blue"),
                ("replicas", f"{now.pods:.0f}", pods, max(pods, default=0.0), "magenta"),
            )
        ):
            workload = Text("" if place else name.rpartition("/")[2], style="bold")
            grid.add_row(workload, what, Text(value), Text(bars(values, most), style=style))


def _curve(grid: Table, name: str, day: Sequence[tuple[float, float, float]], now: Sequence[str]) -> None:
    top = max((max(amounts) for amounts in day), default=0.0)
    for i, (what, style) in enumerate((("requested", "yellow"), ("used", "green"), ("recommended", "cyan"))):
        grid.add_row(Text("" if i else name, style="bold"), what, Text(now[i]), Text(bars([m[i] for m in day], top), style=style))


def _workloads(rows: Sequence[WorkloadRow], shown: int) -> RenderableType:
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, expand=True, padding=(0, 1))
    table.add_column("workload", no_wrap=True, ratio=1, min_width=19)
    for name in ("pods", "cpu request", "used", "mem request", "used", "advice for a pod", "OOMs"):
        table.add_column(name, justify="right", no_wrap=True)
    biggest = sorted(rows, key=lambda r: (-r.usage.cpu.requested, r.workload.key))[:shown]
    # chosen by size and shown by name, so that rows do not jump
    for row in sorted(biggest, key=lambda r: r.workload.key):
        cpu, memory = row.usage
        table.add_row(
            f"{row.workload.namespace}/{row.workload.name}",
            str(row.pods),
            event_narration.cpu(cpu.requested),
            _shade(event_narration.cpu(cpu.used), cpu),
            event_narration.memory(memory.requested),
            _shade(event_narration.memory(memory.used), memory),
            Text("not yet", style="dim")
            if row.target is None
            else f"{event_narration.cpu(row.target.cpu)} · {event_narration.memory(row.target.memory)}",
            Text(str(row.ooms), style="bold red" if row.ooms else "dim"),
        )
    if len(rows) > shown:
        table.caption = f"the {shown} largest of {len(rows)} workloads"
    return table


def _shade(text: str, amounts: UsageSum) -> Text:
    """Yellow: much of the request is idle; red: more is used than requested."""
    share = amounts.used / amounts.requested if amounts.requested else 1.0
    return Text(text, style="red" if share > 1 else "yellow" if share < 0.5 else "green")  # noqa: PLR2004  # half


def _counts(state: DayState) -> RenderableType:
    text = Text(_counted(state))
    if state.refusals:
        text.append(f" (mostly: {state.refusals.most_common(1)[0][0]})", style="dim")
    return text


def _counted(state: DayState) -> str:
    done = state.done
    return (
        f"{state.ooms} OOM kills, {done[Action.RESIZE]} resized in place, "
        f"{done[Action.EVICT]} evicted, {done[Action.PATCH]} new pods patched, {state.decided['UpdateRefused']} left alone"
    )


def _actions(state: DayState, room: int) -> RenderableType:
    lines = [Text("what happened last, and why", style="bold")]
    last = list(state.actions)[-room:]
    for sentence in last:
        style = "red" if "OOM-killed" in sentence else ""
        lines.append(Text(f"• {sentence}", style=style, overflow="ellipsis", no_wrap=True))
    # filled up, else the panel would grow and shrink with each action
    lines += [Text("")] * (room - len(last))
    return Group(*lines)


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
            # drawing costs more than a tick does, so frames are dropped and never ticks
            return
        self._next = now + (_PLAIN_EVERY if self._live is None else _LIVE_EVERY)
        if self._live is None:
            self._print(plain(state, story))
        else:
            self._live.update(draw(state, story, height=self.console.height), refresh=True)

    def _print(self, line: str) -> None:
        # a day that waits would print one line again and again
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
